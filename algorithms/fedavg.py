"""Communication-Efficient Learning of Deep Networks from Decentralized Data (FedAvg; McMahan et al., 2017)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from flcluster.algorithm import Round, RoundAlgorithm, weighted_sums
from flcluster.federation import Federation


@dataclass(frozen=True, eq=False)
class ModelsState:
    """The server's models ``[K, P]``."""

    models: Tensor


@dataclass(frozen=True, kw_only=True)
class FedAvg(RoundAlgorithm[ModelsState]):
    """Size-weighted averaging of local models, round by round."""

    state_type: ClassVar[type] = ModelsState

    def init(self, fed: Federation) -> ModelsState:
        """One random model."""
        return ModelsState(fed.init_rows(1))

    def step(self, state: ModelsState, t: int, fed: Federation) -> tuple[ModelsState, Round]:
        """Select, train from the global model, average."""
        clients = self.select(t, fed)
        jobs = [self.job(m, state.models[0], t, fed) for m in clients]
        labels, sizes = [0] * len(jobs), [float(len(job.view)) for job in jobs]
        models, trained = weighted_sums(fed.train(jobs, self.before(fed, t)), labels, sizes, state.models)
        return replace(state, models=models), Round(trained, row_of=lambda i: models[0])
