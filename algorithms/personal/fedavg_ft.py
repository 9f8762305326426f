"""FedAvg, and then one fine-tuning at every client (FedAvg-FT): the plainest way to a personal model."""

from collections.abc import Sequence
from dataclasses import dataclass

from flcluster.algorithms.rounds.clustered import one_cluster
from flcluster.federation.averaging import usable
from flcluster.federation.federation import Federation
from flcluster.protocol.rounds import Round

from .base import Personal, PersonalState


@dataclass(frozen=True, kw_only=True)
class FedAvgFT(Personal[PersonalState]):
    """Every client, also one that dropped out, trains the last global model on its own data once."""

    @property
    def title(self) -> str:
        """The papers' name."""
        return "FedAvg-FT"

    def init(self, fed: Federation) -> PersonalState:
        """One random model."""
        return PersonalState(**vars(one_cluster(self, fed)))

    def personalise(self, state: PersonalState, clients: Sequence[int], fed: Federation) -> tuple[PersonalState, Round]:
        """Fine-tune the global model for each of some clients."""
        own, trained = self.own(fed), []
        jobs = [self.finetuning(state, client, fed) for client in clients]
        for result in fed.train(jobs, self.observe(fed, self.rounds - 1)):
            own[result.client] = usable(result, otherwise=state.models[0])
            trained.append(result.light())
        return state, self.trained_once(clients, trained, self.finetune_epochs, fed)
