"""Rounds of one global model, and then a model of its own for every client, those that dropped out too."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from typing_extensions import TypeVar

from flcluster.algorithms.rounds.fedavg import ClusteredState, FedAvg
from flcluster.data import FederatedDataModule
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.protocol.base import at_least
from flcluster.protocol.outcome import Round, Served, own_or_common
from flcluster.protocol.participation import Cohort, Load
from flcluster.protocol.rounds import Phase

AT_ONCE = 5
"""Clients that get their own model in one step: between two steps a run can stop and go on later."""


@dataclass(frozen=True, eq=False)
class PersonalState(ClusteredState):
    """The global model, and how many clients have their own by now: the first ones."""

    done: int = 0


S = TypeVar("S", bound=PersonalState, default=PersonalState)


@dataclass(frozen=True, kw_only=True)
class Personal(FedAvg[S]):
    """FedAvg's rounds, then personal models, a few clients a step."""

    finetune_epochs: int = 20
    """Epochs of training the global model on a client's own data, once, after the last round."""

    state_type: ClassVar[type] = PersonalState
    extra_names: ClassVar[tuple[str, ...]] = ("global_model_acc",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("finetune_epochs", self.finetune_epochs, 0)

    def phases(self, fed: Federation) -> list[Phase[S]]:
        """Return the rounds, and the steps that give clients their own models."""
        steps = -(-fed.data.num_clients // AT_ONCE)
        return [*super().phases(fed), Phase("own models", steps, self.some_own, self.rounds - 1)]

    def samples_planned(self, data: FederatedDataModule, seed: int) -> float:
        """Add the fine-tuning of every client."""
        return super().samples_planned(data, seed) + float(self.finetune_epochs * data.sizes(self.rounds - 1).sum())

    def some_own(self, state: S, at: int, fed: Federation) -> tuple[S, Round]:
        """Give the next few clients their own models."""
        if at == 0:
            fed.note(f"models of their own for {fed.data.num_clients} clients")
        clients = list(range(AT_ONCE * at, min(AT_ONCE * (at + 1), fed.data.num_clients)))
        state, done = self.personalise(state, clients, fed)
        return replace(state, done=clients[-1] + 1), done

    @abstractmethod
    def personalise(self, state: S, clients: Sequence[int], fed: Federation) -> tuple[S, Round]:
        """Give some clients their own models: rows of ``own``."""

    def own(self, fed: Federation) -> Table:
        """Return the clients' own models."""
        return fed.table("personal")

    def finetuning(self, state: S, client: int, fed: Federation) -> Job:
        """Plan a client's training of the global model on its own data."""
        shard = fed.shard(client, self.rounds - 1)
        test = None if self.measure == "all" else shard.test
        epochs = self.finetune_epochs
        return Job(client, state.models[0], shard.train, epochs, self.batch_size, purpose="finetune", test=test)

    def told(self, clients: Sequence[int], trained: list[Trained[Any]], fed: Federation) -> Round:
        """Tell of clients that got the global model once more and trained, in no virtual time."""
        cohort = Cohort(list(clients), seconds=0.0, load=Load(uploads=0.0))
        return Round(cohort, trained, self.own(fed), clients)

    def newcomers(self, state: S, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Yield the model of its own that each got with all the others, once that is made."""
        served = self.served(state, t, fed)
        yield from (served.models[int(served.which[client])] for client in clients)

    # what is measured -------------------------------------------------------------------------------------------

    def served(self, state: S, t: int, fed: Federation) -> Served:
        """A client's own model once it has one, the global model before."""
        return own_or_common(state.models[0], self.own(fed), np.arange(fed.data.num_clients) < state.done)

    def measures(self, state: S, t: int, fed: Federation) -> dict[str, float]:
        """Say how good the global model is on the global test set, when clients no longer use it."""
        test = fed.data.global_test()
        return {"global_model_acc": fed.accuracy(state.models[0], test)} if test is not None and state.done else {}

    def own_row(self, state: S, client: int) -> tuple[str, int]:
        """Return where a client's model lies."""
        return "personal", client
