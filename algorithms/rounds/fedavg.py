"""One global model: FedAvg (McMahan et al., 2017), FedProx, FedYogi and q-FedAvg."""

from dataclasses import dataclass, field

from flcluster.federation.federation import Federation

from .aggregation import Aggregator, QFair, Yogi
from .clustered import ClusteredRounds, ClusteredState, one_cluster


@dataclass(frozen=True, kw_only=True)
class FedAvg(ClusteredRounds[ClusteredState]):
    """Averaging of local models, round by round: one model for everyone."""

    def init(self, fed: Federation) -> ClusteredState:
        """One random model."""
        return one_cluster(self, fed)


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose local training is pulled towards the received model (Li et al., 2020)."""

    prox: float = 0.1
    """μ: weight of the proximal term (μ/2)·‖w − w_received‖² of local training."""


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAvg):
    """FedAvg with an adaptive server step (Reddi et al., 2021)."""

    server: Aggregator = field(default_factory=Yogi)
    """How trained models become the new one."""


@dataclass(frozen=True, kw_only=True)
class QFedAvg(FedAvg):
    """FedAvg that favours clients with large losses (q-FedAvg; Li et al., 2020)."""

    server: Aggregator = field(default_factory=QFair)
    """How trained models become the new one."""
