"""FedAvg, and then one fine-tuning at every client (FedAvg-FT): the plainest way to a personal model."""

from collections.abc import Sequence
from dataclasses import dataclass

from flcluster.federation.federation import Federation
from flcluster.protocol.outcome import Round

from .base import Personal, PersonalState


@dataclass(frozen=True, kw_only=True)
class FedAvgFT(Personal):
    """Every client, also one that dropped out, trains the last global model on its own data once."""

    @property
    def title(self) -> str:
        """The papers' name."""
        return "FedAvg-FT"

    def personalise(self, state: PersonalState, clients: Sequence[int], fed: Federation) -> tuple[PersonalState, Round]:
        """Fine-tune the global model for each of some clients."""
        own, training = self.own(fed), fed.train(self.finetuning(state, client, fed) for client in clients)
        for result in training:
            own[result.client] = result.row if result.finite else state.models[0]
        return state, self.told(clients, training.results, fed)
