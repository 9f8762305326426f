"""What a round did, and which model each client uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flcluster.federation.bank import Table
from flcluster.federation.jobs import Trained
from flcluster.federation.scores.accuracies import Rows
from flcluster.protocol.participation import Cohort


@dataclass(frozen=True, eq=False)
class Round:
    """What one round did: who trained, which model each participant now uses, and what it cost.

    What it cost is what the cohort was asked to do; a method says only what was otherwise.
    """

    cohort: Cohort
    results: list[Trained[Any]]
    """What came back from each of the cohort, without rows."""
    models: Rows
    """The models that clients use now: a tensor, a table, or rows that are made when they are asked for."""
    which: Sequence[int] | None = None
    """Which of the models each participant uses; the one of its cluster if not given."""
    uploads: Sequence[float] | None = None
    downloads: Sequence[float] | None = None
    """Models that each participant sent and received, where that is not what it was asked to."""
    forwards: Sequence[float] | None = None
    """Passes of each participant over its training samples besides training, likewise."""
    upload_bytes: int = 0
    download_bytes: int = 0
    """What each participant sent and received besides models."""
    server_compute: int = 0
    """Forward passes (samples) of the server; a backward pass counts as two."""
    extra: dict[str, float] = field(default_factory=dict)
    """What the method logs beside the common metrics."""

    @property
    def used(self) -> Sequence[int]:
        """Which of the models each participant uses."""
        return self.cohort.places if self.which is None else self.which

    def row(self, i: int) -> Tensor:
        """Return the model that the i-th participant uses now."""
        return self.models[self.used[i]]

    def cost(self, i: int) -> tuple[float, float, float]:
        """Return the models that the i-th participant sent and received, and its passes besides training."""
        down, up, passes = (float(np.sum(part)) for part in self.cohort.load.of(np.array([self.cohort.clients[i]])))
        return (
            up if self.uploads is None else self.uploads[i],
            down if self.downloads is None else self.downloads[i],
            passes if self.forwards is None else self.forwards[i],
        )


@dataclass(frozen=True, eq=False)
class Served:
    """Which model each client uses now."""

    models: Rows
    labels: NDArray[np.int64]
    """The cluster of each client; −1: none yet."""
    model_of: NDArray[np.int64] | None = None
    """Which of the models each client uses, −1 for none; the model of its cluster if not given."""

    @property
    def which(self) -> NDArray[np.int64]:
        """Which of the models each client uses, −1 for none."""
        return self.labels if self.model_of is None else self.model_of

    def without(self, clients: NDArray[np.int64]) -> "Served":
        """Return the same, as if some clients were not there."""
        gone = np.isin(np.arange(len(self.labels)), clients)
        used = None if self.model_of is None else np.where(gone, -1, self.model_of)
        return Served(self.models, np.where(gone, -1, self.labels), used)


@dataclass(frozen=True, eq=False)
class OwnOrCommon(Rows):
    """The common model as number 0, and client i's own as number i + 1."""

    common: Tensor
    own: Table

    def __len__(self) -> int:
        return 1 + len(self.own)

    def __getitem__(self, index: int, /) -> Tensor:
        return self.own[index - 1] if index else self.common


def own_or_common(common: Tensor, own: Table, has_own: NDArray[np.bool_]) -> Served:
    """Say that clients use their own models where they have one, and a common one else."""
    which = np.where(has_own, 1 + np.arange(len(has_own)), 0)
    return Served(OwnOrCommon(common, own), np.zeros_like(which), which)
