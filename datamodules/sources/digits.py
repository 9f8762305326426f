"""The handwritten digits that come with scikit-learn: real data that needs no download."""

from typing import Any

import torch

from flcluster import seeds

TRAIN_SIZE = 1197


class Digits:
    """1,797 grey 8x8 digits with values 0 to 16, split 1,197/600 by a fixed permutation.

    Args:
        root: Not used; the images are part of scikit-learn.
        train: The training split; otherwise the test split.
        download: Not used.
    """

    maximum = 16

    def __init__(self, root: str = "", train: bool = True, download: bool = False) -> None:
        from sklearn.datasets import load_digits

        bunch: Any = load_digits()
        order = seeds.rng(0, "digits split").permutation(len(bunch.target))  # never the run's seed
        chosen = order[:TRAIN_SIZE] if train else order[TRAIN_SIZE:]
        self.data = torch.from_numpy(bunch.images[chosen]).to(torch.uint8)
        self.targets = torch.from_numpy(bunch.target[chosen]).long()
