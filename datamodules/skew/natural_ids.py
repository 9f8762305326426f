"""Clients that the data name themselves: writers, users, devices."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flcluster.datamodules.sources.checks import check_finite
from flcluster.datamodules.sources.counts import Ints
from flcluster.datamodules.sources.known import Known
from flcluster.datamodules.sources.loading import SPLITS, open_dataset
from flcluster.errors import UserError, at_least
from flcluster.files import read_text

from .dealing import NOBODY
from .partitions import KEY, Partition, Samples


@dataclass(frozen=True, kw_only=True)
class NaturalIds(Partition):
    """A client is a natural owner of samples, such as a writer; it is trained and tested on its own samples only.

    Owners are named by a file, or by an attribute of the dataset. Clients are chosen at random among those with enough
    samples; what others own is nobody's.
    """

    path: str | None = None
    """A file in ``data.root`` with the owner of each image, those of the training split first: text with a name in each
    line, or ``.npy``."""
    attribute: str | None = None
    """The attribute of the dataset's class that lists each image's owner, instead of a file."""
    min_samples: int = 1
    """Owners with fewer training samples are not chosen."""

    def __post_init__(self) -> None:
        at_least("min_samples", self.min_samples, 1, KEY)
        if (self.path is None) == (self.attribute is None):
            raise UserError("data.partition: NaturalIds needs a path or an attribute, one of them")

    @property
    def says_who(self) -> bool:
        """The data do."""
        return True

    @property
    def by_label(self) -> bool:
        """Owners are not told by labels."""
        return False

    def read(self, known: Known, root: Path, kwargs: dict[str, Any], lengths: tuple[int, int]) -> Ints:
        """Return the number of each sample's owner; ``lengths`` are the images of the training and the test split."""
        if self.path is not None:
            names = read_names(root / Path(self.path).expanduser())
            where = f"data.partition.path {self.path}"
        else:
            if not known.dataset:
                raise UserError(
                    f"data.partition.attribute is {self.attribute}, but {known.name} is read by a function, not by a "
                    "class that could have it: name the owners in a file, data.partition.path"
                )
            opened = [open_dataset(known.dataset, root, split, kwargs) for split in SPLITS]
            names = np.concatenate([_attribute(held, self.attribute) for held in opened])
            where = f"data.partition.attribute {self.attribute}"
        if names.shape != (sum(lengths),):
            found = " x ".join(map(str, names.shape))
            raise UserError(
                f"{where} names the owners of {found} images, but {known.name} has "
                f"{lengths[0]} training and {lengths[1]} test images: give one name each"
            )
        return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Choose the owners that are clients."""
        assert samples.ids is not None
        return owners_as_clients(samples.ids, num_clients, self.min_samples, rng)


def owners_as_clients(ids: Ints, num_clients: int | None, min_samples: int, rng: np.random.Generator) -> Ints:
    """Return the client of each sample: some owners at random, or in their order all that have enough samples."""
    sizes = np.bincount(ids)
    fit = np.flatnonzero(sizes >= min_samples)
    if len(fit) < (num_clients or 1):
        raise UserError(
            f"data.num_clients is {num_clients or 'not given'}, but only {len(fit)} natural owners have at least "
            f"{min_samples} training samples (data.partition.min_samples)"
        )
    client = np.full(len(sizes), NOBODY)
    chosen = fit if num_clients is None else rng.permutation(fit)[:num_clients]
    client[chosen] = np.arange(len(chosen))
    return client[ids]


def read_names(path: Path) -> np.ndarray:
    """Read one name for each image."""
    where = f"data.partition.path: {path}"
    try:
        found = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(read_text(path).splitlines())
    except Exception as error:  # a broken file fails in many ways
        raise UserError(f"{where} cannot be read ({error})") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "biufUS":
        raise UserError(f"{where} must hold one array of names or numbers")
    if found.dtype.kind == "f":
        check_finite(found, where)
    if found.dtype.kind == "U" and len(empty := np.flatnonzero(np.char.strip(found) == "")):
        raise UserError(f"{where}, line {1 + int(empty[0])}: there is no name")
    return found


def _attribute(opened: Any, name: str | None) -> np.ndarray:
    found = getattr(opened, str(name), None)
    if found is None:
        raise UserError(f"data.partition.attribute: {type(opened).__name__} has no {name!r}")
    return np.asarray(found)
