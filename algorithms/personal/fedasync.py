"""Global training without rounds: every upload moves the model at once (FedAsync; Xie et al., 2019)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from flcluster.algorithms.rounds.aggregation import Average
from flcluster.algorithms.rounds.selection import RandomSelection
from flcluster.algorithms.uploads.fedbuff import fedbuff_weight
from flcluster.devices.schedule import Arrivals, Schedule, UniformArrivals, Workload, scheduled
from flcluster.errors import UserError
from flcluster.federation.averaging import is_usable
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.protocol.base import at_least
from flcluster.protocol.rounds import Round

from .base import Personal, PersonalState


@dataclass(frozen=True, eq=False)
class AsyncState(PersonalState):
    """The global model, and which version of it each client has."""

    version: int = 0
    """Uploads that the global model has taken in."""
    versions: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """The version of the global model that each client received last, ``[N]``."""


S = TypeVar("S", bound=AsyncState)


@dataclass(frozen=True, kw_only=True)
class AsyncPersonal(Personal[S]):
    """Global training upload by upload, or in FedAvg's rounds; the clients' last local models are kept."""

    aggregation: Literal["async", "fedavg"] = "async"
    """async: every upload moves the global model at once (FedAsync); fedavg: the mean of a round's models."""
    arrivals: Arrivals = field(default_factory=UniformArrivals)
    """Which client uploads when, asynchronously."""
    server_lr: float = 0.6
    """η: how far a fresh upload moves the global model, asynchronously."""
    staleness_exponent: float = 0.5
    """An upload that is s versions old moves it by η (1 + s)^−exponent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("staleness_exponent", self.staleness_exponent, 0)
        if not 0 < self.server_lr <= 1:
            raise UserError(f"algorithm.server_lr must be in (0, 1], got {self.server_lr}")
        usual = {"devices": None, "server": Average(), "selection": RandomSelection()}
        unused = [name for name, value in usual.items() if getattr(self, name) != value]
        if self.aggregation == "async" and unused:
            raise UserError(
                f"algorithm.{unused[0]} is for rounds: set algorithm.aggregation=fedavg, or leave it out (who uploads "
                "when is algorithm.arrivals)"
            )

    def locals(self, fed: Federation) -> Table:
        """Return the last local models of clients that took part."""
        return fed.table("local")

    def received(self, state: S, results: Iterable[Trained], fed: Federation) -> Iterator[Trained]:
        """Keep the local models."""
        for result in results:
            if is_usable(result):
                self.locals(fed)[result.client] = result.row
            yield result

    def hand_out(self, model: Tensor, fed: Federation) -> None:
        """Give the first model to everyone who will upload."""
        if self.aggregation == "async":
            for client in fed.data.participants.tolist():
                fed.table("held")[client] = model

    def round(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run a round, or take in as many uploads as it would have had."""
        return super().round(state, t, fed) if self.aggregation == "fedavg" else self._uploads(state, t, fed)

    def _uploads(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Let clients upload along the schedule; each trains from the model that it received at its last upload."""
        size, held = self.wanted(fed), fed.table("held")
        schedule, first = self._schedule(size, fed), t * size
        clients = schedule.clients[first : first + size].tolist()
        trained: list[Trained] = []
        for some in distinct_runs(clients):
            at = first + len(trained)
            jobs = (replace(self.job(m, held[m], t, fed), cycle=at + i) for i, m in enumerate(some))
            for result in self.received(state, fed.train(jobs, self.observe(fed, t)), fed):
                behind, m = state.version - int(state.versions[result.client]), result.client
                if is_usable(result):
                    state = self._taken_in(state, result, behind)
                    held[m] = state.models[0]
                seen = {**result.seen, "staleness": behind}
                if self.measure != "all":  # now: who uploads again in this round gets another model
                    seen["after"] = fed.accuracy(held[m].to(fed.device), fed.data.shard(m, t).test)
                trained.append(replace(result.light(), seen=seen))
        stale = [result.seen["staleness"] for result in trained if result.steps and result.seen["finite"]]
        ends, sent = np.concatenate([[0.0], schedule.times]), [int(result.steps > 0) for result in trained]
        done = Round(
            trained,
            row_of=lambda i: held[clients[i]],
            upload_models=sent,
            download_models=sent,
            seconds=float(ends[first + size] - ends[first]),
            extra={"staleness": float(np.mean(stale))} if stale else {},
        )
        return state, done

    def _schedule(self, size: int, fed: Federation) -> Schedule:
        work = Workload(lambda m, cycle: self.processed(fed.data.size(m, cycle), fed), 1, fed.layout.row_bytes)
        return scheduled(self.arrivals, fed.data.participants, self.rounds * size, fed.seed, work)

    def _taken_in(self, state: S, result: Trained, behind: int) -> S:
        model = fedasync_step(state.models[0], result.row, behind, self.server_lr, self.staleness_exponent)
        versions = state.versions.clone()
        versions[result.client] = state.version + 1
        return replace(state, models=model[None], version=state.version + 1, versions=versions)


def fedasync_step(model: Tensor, upload: Tensor, staleness: int, lr: float, exponent: float) -> Tensor:
    """Return (1 - η_s) θ + η_s θ_k with η_s = η (1 + staleness)^-exponent."""
    return torch.lerp(model, upload, lr * fedbuff_weight(staleness, exponent))


def distinct_runs(clients: Sequence[int]) -> Iterator[list[int]]:
    """Cut a sequence of clients where one comes again: who uploads once only can train before all others upload.

    Example:
        >>> list(distinct_runs([2, 0, 2, 2, 1]))
        [[2, 0], [2], [2, 1]]
    """
    run: list[int] = []
    for client in clients:
        if client in run:
            yield run
            run = []
        run.append(client)
    if run:
        yield run
