"""How good models are on many test sets: those scored by one model in one pass, and nothing twice."""

from collections.abc import Callable, Hashable, Sequence
from hashlib import sha1
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.data import Source, View
from flcluster.federation.scores.lately import Lately

Hits = NDArray[np.bool_]
KEPT = 2**24
"""Samples of which it is remembered whether they were told right, a byte each."""


class Rows(Protocol):
    """Models by number: a tensor ``[K, P]``, a table, or rows that are made when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Tensor: ...


class Accuracies:
    """Accuracies of models on views; a model that did not change is not scored again on samples that did not.

    Args:
        score: Says which samples of a view a model tells right.
    """

    def __init__(self, score: Callable[[Tensor, View], Hits]) -> None:
        self.score = score
        self.lately: Lately[Hits] = Lately(KEPT, len)

    def of(self, models: Rows, which: Sequence[int], views: Sequence[View]) -> NDArray[np.float64]:
        """Return the accuracy on each view of the model that goes with it; NaN without samples.

        Views that share a model and a source are scored together, so that small test sets make full batches.
        """
        groups: dict[int, dict[Source, list[tuple[int, Tensor]]]] = {}
        for place, (k, view) in enumerate(zip(which, views, strict=True)):
            for source, index in view.parts:
                groups.setdefault(k, {}).setdefault(source, []).append((place, index))
        right, held = np.zeros(len(views)), np.zeros(len(views))
        for k, sources in groups.items():
            row = models[k]
            for source, parts in sources.items():
                index = torch.cat([index for _, index in parts])
                owner = np.repeat([place for place, _ in parts], [len(index) for _, index in parts])
                np.add.at(right, owner, self.hits(row, View(((source, index),))))
                np.add.at(held, owner, 1)
        shares: NDArray[np.float64] = np.divide(right, held, out=np.full(len(views), np.nan), where=held > 0)
        return shares

    def hits(self, row: Tensor, view: View) -> Hits:
        """Say which samples of a view a model tells right."""
        if not len(view):
            return np.zeros(0, dtype=np.bool_)
        key = (content(row), *((source, content(index)) for source, index in view.parts))
        return self.lately.get(key, lambda: self.score(row, view))


def content(tensor: Tensor) -> Hashable:
    """Return what two tensors have in common only if all their numbers are the same."""
    return sha1(tensor.cpu().contiguous().numpy().data, usedforsecurity=False).digest()
