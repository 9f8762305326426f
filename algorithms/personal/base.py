"""Rounds of one global model, and then a model of its own for every client, those that dropped out too."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from flcluster.algorithms.rounds.clustered import ClusteredRounds, ClusteredState
from flcluster.errors import UserError
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained, samples_processed
from flcluster.protocol.base import at_least
from flcluster.protocol.rounds import Round, Served, own_or_common

AT_ONCE = 5
"""Clients that get their own model in one step: between two steps a run can stop and go on later."""


@dataclass(frozen=True, eq=False)
class PersonalState(ClusteredState):
    """The global model, and how many clients have their own by now: the first ones."""

    ended: int = 0
    """After how many rounds the global model was final; 0: not yet."""
    done: int = 0


S = TypeVar("S", bound=PersonalState)


@dataclass(frozen=True, kw_only=True)
class Personal(ClusteredRounds[S]):
    """FedAvg's rounds, then what prepares personal models, then these, a few clients a step."""

    finetune_epochs: int = 20
    """Epochs of training the global model on a client's own data, once, after the last round."""

    state_type: ClassVar[type] = PersonalState
    extra_names: ClassVar[tuple[str, ...]] = ("global_model_acc",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("finetune_epochs", self.finetune_epochs, 0)

    @property
    def preparations(self) -> int:
        """Steps between the last round and the first personal model."""
        return 0

    def length(self, fed: Federation) -> int:
        """Return how many steps a run has."""
        return self.rounds + self.preparations + -(-fed.data.num_clients // AT_ONCE)

    def step(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run a round, a preparation, or make some clients' models."""
        if t < self.rounds and not state.ended:
            return self.round(state, t, fed)
        if state.ended != self.rounds and (state.ended or t != self.rounds):
            raise UserError(
                f"algorithm.rounds is {self.rounds}, but this run's global training has gone on to round "
                f"{state.ended or t}: what follows it cannot be made again, start a new run"
            )
        state = replace(state, ended=self.rounds)
        after = t - self.rounds - self.preparations
        if after < 0:
            return self.prepare(state, t - self.rounds, fed)
        first = AT_ONCE * after
        clients = list(range(first, min(first + AT_ONCE, fed.data.num_clients)))
        if first == 0:
            fed.note(f"models of their own for {fed.data.num_clients} clients")
        state, done = self.personalise(state, clients, fed)
        return replace(state, done=clients[-1] + 1), done

    def round(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run a round of global training."""
        return super().step(state, t, fed)

    def prepare(self, state: S, at: int, fed: Federation) -> tuple[S, Round]:
        """Take step ``at`` of the preparations, of which there are none unless a method says so."""
        return state, Round([], row_of=lambda i: state.models[0], seconds=0.0)

    @abstractmethod
    def personalise(self, state: S, clients: Sequence[int], fed: Federation) -> tuple[S, Round]:
        """Give some clients their own models: rows of ``own``."""

    def own(self, fed: Federation) -> Table:
        """Return the clients' own models."""
        return fed.table("personal")

    def finetuning(self, state: S, client: int, fed: Federation) -> Job:
        """Plan a client's training of the global model on its own data."""
        view = fed.data.shard(client, self.rounds - 1).train
        return Job(client, state.models[0], view, self.finetune_epochs, self.batch_size, purpose="finetune")

    def trained_once(self, clients: Sequence[int], trained: list[Trained], epochs: int, fed: Federation) -> Round:
        """Tell of clients that got the global model once more and trained for some epochs, in no virtual time."""
        passed = [self.passed(result.size, epochs, fed) for result in trained]
        return Round(
            trained,
            row_of=lambda i: self.own(fed)[clients[i]],
            upload_models=0,
            processed_of=lambda i: passed[i],
            seconds=0.0,
        )

    def passed(self, size: int, epochs: int, fed: Federation) -> int:
        """Return how many samples some epochs of training on ``size`` samples go through."""
        return samples_processed(size, epochs, self.batch_size, batch_norm=fed.layout.has_batch_norm)

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
