"""What is known of one client update."""

import math
from dataclasses import dataclass

from torch import Tensor

from flcluster.clustering.agreement import kl_divergence


@dataclass(eq=False)
class Exchange:
    """What is known of one client update: a row of clients.csv and what the totals need."""

    time: float
    client: int
    cycle: int
    samples: int
    staleness: int
    status: str
    acc_before: float
    acc_after: float
    loss: float
    true: Tensor
    estimate: Tensor | None = None
    label: int | None = None
    """The cluster whose model was trained, where a method assigns clients to clusters."""
    fresh: bool = False
    uploaded: int = 0
    downloaded: int = 0
    client_compute: int = 0
    server_compute: int = 0
    extra: dict[str, float] | None = None

    @property
    def kl(self) -> float:
        """KL(true ‖ estimate); NaN without an estimate."""
        return math.nan if self.estimate is None else float(kl_divergence(self.true.double(), self.estimate.double()))
