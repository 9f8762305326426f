"""DFCA without a barrier: clients work at their own pace and average messages as they arrive."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.federation.together.look_ahead import LookAhead
from flcluster.protocol.base import at_least
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import Cohort, Load
from flcluster.seeds import rng

from .base import GossipState
from .dfca import DFCA
from .mail import Mail, Message
from .mixing import running_average


@dataclass(frozen=True, eq=False, kw_only=True)
class AsyncDFCAState(GossipState):
    """Where everyone is in virtual time, and the messages under way."""

    clock: float = 0.0
    """When the last training ended."""
    ends: Tensor
    """When each client's current training ends, ``[N]``."""
    cycles: Tensor
    """Trainings that each client has finished, ``[N]``."""
    mail: Tensor
    """Messages that were not yet averaged: when it arrives, to whom, of which cluster, its slot, when it was sent."""
    lost: int = 0
    """Messages that never arrived."""


@dataclass(frozen=True)
class _Ending:
    """One training that ends in this round."""

    time: float
    client: int
    cycle: int
    online: bool


@dataclass(frozen=True, kw_only=True)
class AsyncDFCA(DFCA):
    """DFCA in virtual time: there are no rounds to wait for, a "round" is as many trainings as there are participants.

    A client assigns, trains, sends the trained model to its neighbours, takes in what has arrived since it began, and
    begins again. A message that arrives during training waits for its end (one that arrives at that very moment for the
    end of the next), and the counter of the running average begins anew with each training. Without ``devices`` the
    times are log-normal around 1. Here ``topology.link_failure`` loses single messages, and ``topology.node_dropout``
    takes a client offline for the length of one training: it neither trains nor sends, and what arrives is lost.
    """

    aggregation: Literal["sequential"] = "sequential"
    """Nobody waits for a batch: messages are averaged in the order in which they arrive."""
    spread: float = 0.5
    """Standard deviation of the logarithm of a training's time, where no devices are simulated."""
    latency: float = 0.1
    """Mean time that a message is under way, besides the transfer that devices count; exponentially distributed."""

    printed: ClassVar[Mapping[str, Mapping[str, object]]] = {
        f"Async{name}": settings for name, settings in DFCA.printed.items()
    }
    state_type: ClassVar[type] = AsyncDFCAState
    extra_names: ClassVar[tuple[str, ...]] = (*DFCA.extra_names, "lost_messages", "message_age")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("spread", self.spread, 0)
        at_least("latency", self.latency, 0)
        if self.idle_neighbours:
            raise UserError(
                "algorithm.idle_neighbours is about rounds that a client can miss: AsyncDFCA has none, use DFCA"
            )

    def init(self, fed: Federation) -> AsyncDFCAState:
        """Give every client its models; all begin at once."""
        plain, N = super().init(fed), fed.data.num_clients
        held = np.isin(np.arange(N), fed.data.holding(0))
        if self.devices is not None and getattr(self.devices.profile(N, fed.seed), "availability", None) is not None:
            raise UserError("AsyncDFCA does not know when devices are online: use topology.node_dropout instead")
        degree = [len(neighbours) for neighbours in self.neighbours(0, fed)]
        ends = [self._lasts(m, 0, 0, degree[m], fed) if held[m] else np.inf for m in range(N)]
        return AsyncDFCAState(
            plain.labels,
            each=plain.each,
            ends=torch.tensor(ends, dtype=torch.float64),
            cycles=torch.zeros(N, dtype=torch.int64),
            mail=torch.zeros(0, 5, dtype=torch.float64),
        )

    def _lasts(self, client: int, cycle: int, t: int, degree: int, fed: Federation) -> float:
        """Return how long a client's training takes."""
        if self.devices is None:
            return float(np.exp(rng(fed.seed, "duration", client, cycle).normal(0.0, self.spread)))
        load = Load(degree, degree, self.per_client(fed))
        return float(self.durations(np.array([client]), t, fed, load)[0])

    def neighbours(self, t: int, fed: Federation) -> list[list[int]]:
        """Return each client's neighbours; clients without data, and dropouts, are nobody's."""
        found: list[list[int]] = [[] for _ in range(fed.data.num_clients)]
        edges = self.topology.edges(fed.data.num_clients, t, fed.seed)
        for a, b in edges[np.isin(edges, fed.data.holding(t)).all(1)].tolist():
            found[a].append(b)
            found[b].append(a)
        return found

    def step(self, state: AsyncDFCAState, t: int, fed: Federation) -> tuple[AsyncDFCAState, Round]:  # type: ignore[override]
        """Go on until as many trainings have ended as a round has participants."""
        endings, ends = self._endings(state, t, fed)
        walk = _Walk(self, state, endings, t, fed)
        for turn in range(len(endings)):
            walk.on(turn)
        clock = endings[-1].time if endings else state.clock
        after = replace(
            state,
            labels=walk.labels,
            cycles=walk.cycles,
            ends=ends,
            clock=clock,
            mail=walk.mail.save(),
            messages=state.messages + sum(walk.uploads),
            lost=state.lost + walk.lost,
            isolated=sum(not walk.neighbours[client] for client in {ending.client for ending in walk.ended}),
        )
        return after, walk.told(clock - state.clock)

    def _endings(self, state: AsyncDFCAState, t: int, fed: Federation) -> tuple[list[_Ending], Tensor]:
        """Return the trainings that end in this round, in order, and when everyone's next one ends.

        Times do not depend on models, so the whole round is known before anything is trained.
        """
        ends, cycles = state.ends.clone(), state.cycles.tolist()
        degree = [len(neighbours) for neighbours in self.neighbours(t, fed)]
        holding = fed.data.holding(t)
        for client in holding[np.isinf(ends.numpy()[holding])].tolist():  # it got its first data
            ends[client] = state.clock + self._lasts(client, cycles[client], t, degree[client], fed)
        queue = [(end, client) for client, end in enumerate(ends.tolist()) if end < np.inf]
        heapq.heapify(queue)
        found = []
        for _ in range(self.wanted(fed) if queue else 0):
            time, client = heapq.heappop(queue)
            off = rng(fed.seed, "offline", client, cycles[client]).random() < self.topology.node_dropout
            found.append(_Ending(time, client, cycles[client], not off))
            cycles[client] += 1
            ends[client] = time + self._lasts(client, cycles[client], t, degree[client], fed)
            heapq.heappush(queue, (float(ends[client]), client))
        return found, ends

    def measures(self, state: AsyncDFCAState, t: int, fed: Federation) -> dict[str, float]:  # type: ignore[override]
        """Add the messages that never arrived."""
        return {**super().measures(state, t, fed), "lost_messages": float(state.lost)}


class _Walk:
    """A round in virtual-time order: what has happened so far."""

    def __init__(
        self, method: AsyncDFCA, state: AsyncDFCAState, endings: list[_Ending], t: int, fed: Federation
    ) -> None:
        self.method, self.endings, self.t, self.fed = method, endings, t, fed
        self.table, self.k, self.neighbours = method.models(fed), method.per_client(fed), method.neighbours(t, fed)
        self.mail = Mail(fed, state.mail)
        self.labels, self.cycles, self.lost = state.labels.clone(), state.cycles.clone(), 0
        offline = {turn for turn, ending in enumerate(endings) if not ending.online}
        self.ahead: LookAhead[Trained] = LookAhead([e.client for e in endings], fed.at_once, offline)
        self.trained: list[Trained] = []
        self.ended: list[_Ending] = []
        self.used: list[int] = []
        self.uploads: list[int] = []
        self.downloads: list[int] = []
        self.ages: list[float] = []

    def on(self, turn: int) -> None:
        """End one training: send its model, take in what has arrived, begin again."""
        ending = self.endings[turn]
        if ending.online:
            self.trained.append(self.ahead.take(turn, self._train))
        self.cycles[ending.client] += 1
        arrived = self.mail.take(ending.client, ending.time)
        if ending.online:
            self.ended.append(ending)
            self.used.append(int(self.labels[ending.client]))
            self.uploads.append(self._send(ending))
            self.downloads.append(self._take_in(ending, arrived))
        else:
            self.lost += len(arrived)
        for message in arrived:
            self.mail.drop(message)

    def _train(self, turns: list[int]) -> list[Trained]:
        """Assign and train the clients of some turns: nothing can change their input any more."""
        endings = [self.endings[turn] for turn in turns]
        clients = [ending.client for ending in endings]
        labels = self.method.assign(clients, self.t, self.fed)
        self.labels[clients] = torch.tensor(labels, dtype=self.labels.dtype)
        places = [client * self.k + label for client, label in zip(clients, labels, strict=True)]
        jobs = (
            replace(self.method.job(e.client, self.table[place], self.t, self.fed), cycle=e.cycle)
            for e, place in zip(endings, places, strict=True)
        )
        return self.method.train(jobs, places, self.fed)

    def _send(self, ending: _Ending) -> int:
        """Put a client's trained model on its way to every neighbour; return how many were sent."""
        receivers = self.neighbours[ending.client]
        if not self.trained[-1].usable:
            return 0
        draw = rng(self.fed.seed, "messages", ending.client, ending.cycle)
        delays = draw.exponential(size=len(receivers)) * self.method.latency
        arrives = draw.random(len(receivers)) >= self.method.topology.link_failure
        cluster = int(self.labels[ending.client])
        model = self.table[ending.client * self.k + cluster]
        arrivals = {r: ending.time + float(d) for r, d, ok in zip(receivers, delays, arrives, strict=True) if ok}
        self.mail.send(model, cluster, ending.time, arrivals)
        self.lost += len(receivers) - len(arrivals)
        return len(receivers)

    def _take_in(self, ending: _Ending, arrived: list[Message]) -> int:
        """Average what has arrived, each model's messages in order of arrival (Eq. 8); return how many there were."""
        for cluster in sorted({message.cluster for message in arrived}):
            place = ending.client * self.k + cluster
            own = self.table[place]
            for r, message in enumerate((m for m in arrived if m.cluster == cluster), start=1):
                running_average(own, self.mail.model(message), r)
            self.table[place] = own
        self.ages += [ending.time - message.sent for message in arrived]
        return len(arrived)

    def told(self, seconds: float) -> Round:
        """Say what the round did."""
        cohort = Cohort([e.client for e in self.ended], seconds, labels=self.used, load=Load(forwards=self.k))
        return Round(
            cohort,
            self.trained,
            self.table,
            [client * self.k + label for client, label in cohort],
            uploads=self.uploads,
            downloads=self.downloads,
            extra={"message_age": float(np.mean(self.ages))} if self.ages else {},
        )
