"""DFCA without a barrier: clients work at their own pace and average messages as they arrive."""

import heapq
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from flcluster.algorithm import at_least
from flcluster.bank import Table
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.gossip import running_average
from flcluster.rounds import Load, Round
from flcluster.seeds import rng
from flcluster.worker import Trained

from .dfca import DFCA
from .gossip_rounds import GossipState


@dataclass(frozen=True, eq=False)
class AsyncState(GossipState):
    """Where everyone is in virtual time, and the messages under way."""

    clock: float = 0.0
    """When the last training ended."""
    ends: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    """When each client's current training ends, ``[N]``."""
    cycles: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Trainings that each client has finished, ``[N]``."""
    mail: Tensor = field(default_factory=lambda: torch.zeros(0, 5, dtype=torch.float64))
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

    A client assigns, trains, sends the trained model to its neighbours, takes in the messages that have arrived since
    it began (a message that arrives during training waits for the end of it; the counter of the running average begins
    anew with each training), and begins again. Without ``devices`` the times are log-normal around 1. Here
    ``topology.link_failure`` loses single messages and ``topology.node_dropout`` takes a client offline for the length
    of one training: it neither trains nor sends, and what arrives is lost.
    """

    spread: float = 0.5
    """Standard deviation of the logarithm of a training's time, where no devices are simulated."""
    latency: float = 0.1
    """Mean time that a message is under way, besides the transfer that devices count; exponentially distributed."""

    state_type: ClassVar[type] = AsyncState
    extra_names: ClassVar[tuple[str, ...]] = (*DFCA.extra_names, "lost_messages", "message_age")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("spread", self.spread, 0)
        at_least("latency", self.latency, 0)
        if self.aggregation == "batch":
            object.__setattr__(self, "aggregation", "sequential")  # nobody waits for a batch

    def init(self, fed: Federation) -> AsyncState:
        """Give every client its models; all begin at once."""
        plain, N = super().init(fed), fed.data.num_clients
        held = fed.data.sizes(0) > 0
        if self.devices is not None and getattr(self.devices.profile(N, fed.seed), "availability", None) is not None:
            raise UserError("AsyncDFCA does not know when devices are online: use topology.node_dropout instead")
        ends = [self._lasts(client, 0, 0, fed) if held[client] else np.inf for client in range(N)]
        times = torch.tensor(ends, dtype=torch.float64)
        return AsyncState(plain.labels, each=plain.each, ends=times, cycles=torch.zeros(N, dtype=torch.int64))

    def _lasts(self, client: int, cycle: int, t: int, fed: Federation) -> float:
        """Return how long a client's training takes."""
        if self.devices is None:
            return float(np.exp(rng(fed.seed, "duration", client, cycle).normal(0.0, self.spread)))
        degree = len(self._neighbours(t, fed)[client])
        load = Load(downloads=degree, uploads=degree, forwards=self.per_client(fed))
        return float(self.durations(np.array([client]), t, fed, load)[0])

    def _neighbours(self, t: int, fed: Federation) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(fed.data.num_clients)]
        for a, b in self.topology.edges(fed.data.num_clients, t, fed.seed).tolist():
            found[a].append(b)
            found[b].append(a)
        return found

    def step(self, state: AsyncState, t: int, fed: Federation) -> tuple[AsyncState, Round]:  # type: ignore[override]
        """Go on until as many trainings have ended as a round has participants."""
        begun = _Walk(self, state, t, fed)
        return begun.run()

    def endings(self, state: AsyncState, t: int, fed: Federation) -> tuple[list[_Ending], Tensor]:
        """Return the trainings that end in this round, in order, and when everyone's next one ends."""
        ends, cycles = state.ends.clone(), state.cycles.tolist()
        queue = [(end, client) for client, end in enumerate(ends.tolist()) if end < np.inf]
        heapq.heapify(queue)
        found = []
        for _ in range(self.wanted(fed) if queue else 0):
            time, client = heapq.heappop(queue)
            off = rng(fed.seed, "offline", client, cycles[client]).random() < self.topology.node_dropout
            found.append(_Ending(time, client, cycles[client], not off))
            cycles[client] += 1
            ends[client] = time + self._lasts(client, cycles[client], t, fed)
            heapq.heappush(queue, (float(ends[client]), client))
        return found, ends

    def measures(self, state: AsyncState, t: int, fed: Federation) -> dict[str, float]:  # type: ignore[override]
        """Add the messages that never arrived."""
        return {**super().measures(state, t, fed), "lost_messages": float(state.lost)}


class _Walk:
    """One round: along the trainings that end in it, in virtual-time order."""

    def __init__(self, method: AsyncDFCA, state: AsyncState, t: int, fed: Federation) -> None:
        self.method, self.state, self.t, self.fed = method, state, t, fed
        self.table, self.k = method.models(fed), method.per_client(fed)
        self.neighbours = method._neighbours(t, fed)
        self.mail: list[list[float]] = state.mail.tolist()
        self.labels = state.labels.clone()
        self.cycles = state.cycles.clone()
        self.sent = self.lost = 0
        self.ages: list[float] = []
        self.trained: dict[tuple[int, int], Trained] = {}

    def run(self) -> tuple[AsyncState, Round]:
        """Train what is next, send, take in, begin again."""
        endings, ends = self.method.endings(self.state, self.t, self.fed)
        done: list[_Ending] = []
        uploads, downloads, labels = [], [], []
        for at, ending in enumerate(endings):
            if ending.online and (ending.client, ending.cycle) not in self.trained:
                self._train([e for e in endings[at:] if e.online and e.cycle == int(self.cycles[e.client])])
            self.cycles[ending.client] += 1
            if ending.online:
                done.append(ending)
                labels.append(int(self.labels[ending.client]))
                uploads.append(self._send(ending))
            downloads.append(self._take_in(ending))
        state = replace(
            self.state,
            labels=self.labels,
            cycles=self.cycles,
            ends=ends,
            clock=endings[-1].time if endings else self.state.clock,
            mail=torch.tensor(self.mail, dtype=torch.float64).reshape(-1, 5),
            messages=self.state.messages + self.sent,
            lost=self.state.lost + self.lost,
            isolated=sum(not self.neighbours[client] for client in {e.client for e in done}),
        )
        heard = [n for n, ending in zip(downloads, endings, strict=True) if ending.online]
        return state, self._told(state, done, labels, uploads, heard)

    def _told(
        self, state: AsyncState, done: list[_Ending], labels: list[int], uploads: list[int], heard: list[int]
    ) -> Round:
        trained = [self.trained[ending.client, ending.cycle] for ending in done]
        return Round(
            trained,
            row_of=lambda i: self.table[done[i].client * self.k + labels[i]],
            labels=labels,
            upload_models=uploads,
            download_models=heard,
            forwards_of=lambda i: self.k * trained[i].size,
            seconds=state.clock - self.state.clock,
            extra={"message_age": float(np.mean(self.ages))} if self.ages else {},
        )

    def _train(self, endings: list[_Ending]) -> None:
        """Assign and train all clients that have begun and will end in this round: nothing can change their input."""
        clients = [ending.client for ending in endings]
        labels = self.method.assign(clients, self.t, self.fed)
        self.labels[clients] = torch.tensor(labels, dtype=self.labels.dtype)
        places = [client * self.k + label for client, label in zip(clients, labels, strict=True)]
        jobs = (
            replace(self.method.job(e.client, self.table[place], self.t, self.fed), cycle=e.cycle)
            for e, place in zip(endings, places, strict=True)
        )
        for ending, result in zip(endings, self.method.train(jobs, places, self.t, self.fed), strict=True):
            self.trained[ending.client, ending.cycle] = result

    def _send(self, ending: _Ending) -> int:
        """Put a client's trained model on its way to every neighbour; return how many were sent."""
        receivers = self.neighbours[ending.client]
        if not receivers or not self.trained[ending.client, ending.cycle].seen["usable"]:
            return 0
        draw = rng(self.fed.seed, "messages", ending.client, ending.cycle)
        delays = (
            draw.exponential(self.method.latency, len(receivers)) if self.method.latency else [0.0] * len(receivers)
        )
        arrives = draw.random(len(receivers)) >= self.method.topology.link_failure
        cluster, slot = int(self.labels[ending.client]), self._free_slot()
        self._slot(slot)[slot % len(self.neighbours)] = self.table[ending.client * self.k + cluster]
        for receiver, delay, ok in zip(receivers, delays, arrives, strict=True):
            if ok:
                self.mail.append([ending.time + float(delay), receiver, cluster, slot, ending.time])
        self.sent += len(receivers)
        self.lost += int((~arrives).sum())
        return len(receivers)

    def _take_in(self, ending: _Ending) -> int:
        """Average what has arrived at a client, in order of arrival; one that is offline loses it. Return how many."""
        mine = sorted(m for m in self.mail if m[1] == ending.client and m[0] <= ending.time)
        self.mail = [m for m in self.mail if m[1] != ending.client or m[0] > ending.time]
        if not ending.online:
            self.lost += len(mine)
            return 0
        heard = dict.fromkeys(range(self.k), 0)
        for _, _, cluster, slot, sent in mine:
            place = ending.client * self.k + int(cluster)
            heard[int(cluster)] += 1
            message = self._slot(int(slot))[int(slot) % len(self.neighbours)]
            self.table[place] = running_average(self.table[place], message, heard[int(cluster)])
            self.ages.append(ending.time - sent)
        return len(mine)

    def _slot(self, slot: int) -> Table:
        """Return the table that holds a message; there are as many tables of N rows as are needed."""
        return self.fed.table(f"messages{slot // len(self.neighbours)}")

    def _free_slot(self) -> int:
        used = {int(m[3]) for m in self.mail}
        return next(slot for slot in range(len(used) + 1) if slot not in used)
