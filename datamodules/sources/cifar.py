"""CIFAR-10 and CIFAR-100: pickle files, none of which is opened that is not the published one."""

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets as tv

from flcluster.errors import UserError

DIGESTS = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
    "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}
"""MD5 of the published files, as their publisher's page and torchvision have them."""


class CIFAR10(tv.CIFAR10):  # type: ignore[misc]
    """torchvision's CIFAR-10 (and the download of it), whose files are read here: once, and checked as they are read.

    torchvision compares all files with their digests, then opens them again to unpickle them, and says of a wrong one
    neither which it is nor that it is wrong.

    Args:
        root: Folder that holds ``cifar-10-batches-py``.
        train: The training split; otherwise the test split.
        download: Download what is missing.
    """

    labels = "labels"

    def __init__(self, root: str, train: bool = True, download: bool = False) -> None:
        self.root = root
        if download:
            self.download()
        files = [f"{self.base_folder}/{name}" for name, _ in (self.train_list if train else self.test_list)]
        held = [published(Path(root), file) for file in files]
        self.data = np.concatenate([batch["data"] for batch in held]).reshape(-1, 3, 32, 32)
        self.targets = [label for batch in held for label in batch[self.labels]]


class CIFAR100(CIFAR10):
    """torchvision's CIFAR-100, read in the same way."""

    base_folder, url, filename = tv.CIFAR100.base_folder, tv.CIFAR100.url, tv.CIFAR100.filename
    tgz_md5, train_list, test_list = tv.CIFAR100.tgz_md5, tv.CIFAR100.train_list, tv.CIFAR100.test_list
    meta = tv.CIFAR100.meta
    labels = "fine_labels"


def published(root: Path, file: str) -> dict[str, Any]:
    """Unpickle a file if it is, byte for byte, the one that was published."""
    raw = (root / file).read_bytes()
    digest = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if digest != DIGESTS[file]:
        raise UserError(
            f"{root / file} is not the file that was published (MD5 {digest}, not {DIGESTS[file]}), so it is not "
            "opened: put the published one there"
        )
    found: dict[str, Any] = pickle.loads(raw, encoding="latin1")
    return found
