"""Messages under way in virtual time, and the rows of the bank that hold the models they carry."""

import heapq
from collections import Counter, defaultdict
from typing import NamedTuple

import torch
from torch import Tensor

from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation


class Message(NamedTuple):
    """A model on its way to one client."""

    arrival: float
    receiver: int
    cluster: int
    slot: int
    """Which kept row it carries; a model that goes to many clients is kept once."""
    sent: float


class Mail:
    """Messages that were not yet averaged, by receiver. Models lie in as many tables of N rows as are needed."""

    def __init__(self, fed: Federation, saved: Tensor) -> None:
        self.fed, self.size = fed, fed.data.num_clients
        self.waiting: dict[int, list[Message]] = defaultdict(list)
        self.uses: Counter[int] = Counter()
        for arrival, receiver, cluster, slot, sent in saved.tolist():
            self._put(Message(arrival, int(receiver), int(cluster), int(slot), sent))
        self.slots = max(self.uses, default=-1) + 1
        self.free = [slot for slot in range(self.slots) if slot not in self.uses]

    def _put(self, message: Message) -> None:
        self.waiting[message.receiver].append(message)
        self.uses[message.slot] += 1

    def send(self, model: Tensor, cluster: int, sent: float, arrivals: dict[int, float]) -> None:
        """Put one model on its way to some receivers, each with its time of arrival."""
        if not arrivals:
            return
        slot = heapq.heappop(self.free) if self.free else self.slots
        self.slots = max(self.slots, slot + 1)
        self._table(slot)[slot % self.size] = model
        for receiver, arrival in arrivals.items():
            self._put(Message(arrival, receiver, cluster, slot, sent))

    def take(self, receiver: int, now: float) -> list[Message]:
        """Take out what has arrived at a client before now, in order of arrival."""
        here = self.waiting[receiver]
        self.waiting[receiver] = [message for message in here if message.arrival >= now]
        return sorted(message for message in here if message.arrival < now)

    def model(self, message: Message) -> Tensor:
        """Return the model that a message carries."""
        return self._table(message.slot)[message.slot % self.size]

    def drop(self, message: Message) -> None:
        """Forget a message that was taken out; the row of its model is free after the last one."""
        self.uses[message.slot] -= 1
        if self.uses[message.slot] == 0:
            del self.uses[message.slot]
            heapq.heappush(self.free, message.slot)

    def _table(self, slot: int) -> Table:
        return self.fed.table(f"messages{slot // self.size}")

    def save(self) -> Tensor:
        """Return all messages as ``[messages, 5]``; the models are in the bank."""
        found = [message for receiver in sorted(self.waiting) for message in self.waiting[receiver]]
        return torch.tensor(found, dtype=torch.float64).reshape(-1, 5)
