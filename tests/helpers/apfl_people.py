"""AP-FL's clients, written down: four that stay and two that dropped out, and its global model replayed in float64.

Batches are larger than what anyone holds, so that training is plain gradient descent, whatever the order of samples.
"""

import math

import numpy as np
import torch
from replay import begun, descended, right

from flcluster.algorithms.personal.semantics import OneHot
from flcluster.devices.schedule import Arrivals, Schedule

CLASSES, PIXELS, LR = 5, 6, 0.2
MEAN, STD = 0.3, 0.4
STAYS, DROPOUTS, UNSEEN = (0, 2, 3, 5), (1, 4), 4
SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
HELD = {
    0: [0] * 10 + [1] * 4,
    1: [4] * 9 + [0] * 3,
    2: [1] * 8 + [2] * 8,
    3: [0] * 3 + [3] * 11,
    4: [4] * 5 + [2] * 7 + [3] * 2,
    5: [2] * 6 + [3] * 6 + [1],
}
"""Class 4 is with dropouts only."""
LATER = {1: {0: [2] * 7, 5: [0] * 4}, 2: HELD, 3: {m: [m % CLASSES] * (2 + m) for m in range(6)}}
"""Other data in the second of three rounds, ``HELD`` in the third, and others still after that."""
TINY = {
    "local_epochs": 2,
    "batch_size": 64,
    "semantics": OneHot(),
    "noise_dim": 3,
    "project_dim": 4,
    "generator_hidden": 4,
    "generator_steps": 6,
    "generator_batch": 8,
    "generator_lr": 0.01,
    "per_class": 7,
    "friend_epochs": 3,
    "finetune_epochs": 4,
}
UPLOADS = (0, 2, 0, 0, 1, 0, 2, 3, 3, 3, 1, 0)
"""Three rounds of four: client 0 three times in the first, client 5 at the end of the second and twice in the third."""


def people(script, held=None, dropouts=DROPOUTS, tested=True, later=None):
    """Clients with these labels (others from later rounds on), some of which dropped out, and a balanced test set."""

    class People(script):
        mean, std = (MEAN,), (STD,)
        class_names = ("zero", "one", "two", "three", "four")

    return People({0: held or HELD, **(later or {})}, classes=CLASSES, dropouts=dropouts, tested=tested)


class Listed(Arrivals):
    """Uploads as the test has them; numbers count the clients that stay."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def schedule(self, clients, total, seed, work):
        assert clients > max(self.numbers)
        return Schedule(np.array(self.numbers[:total]), np.arange(1.0, total + 1))


def played(algorithm, fed):
    loop = begun(algorithm, fed)
    while loop.position < loop.total:
        loop.advance()
    return loop


def held_by(fed, client):
    return fed.data.shard(client, fed.data.num_clients).train.tensors()


def both(row, client, fed):
    return right(row, fed.data.global_test()), right(row, fed.data.shard(client, 0).test)


def close(found, expected, atol=2e-6):
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


class Asynchronous:
    """FedAsync: θ ← (1 − η_s) θ + η_s θ_k with η_s = η (1 + s)^−a; s counts uploads since the client's last one."""

    def __init__(self, fed, first, lr=0.6, exponent=0.5, epochs=2, silent=()):
        self.fed, self.model, self.lr, self.exponent = fed, first.double(), lr, exponent
        self.epochs, self.silent = epochs, silent
        self.version, self.versions = 0, dict.fromkeys(STAYS, 0)
        self.held, self.local = dict.fromkeys(STAYS, self.model), {}

    def upload(self, client):
        """Return how many versions old it is."""
        if client in self.silent:
            return None
        self.local[client] = descended(self.held[client], held_by(self.fed, client), self.epochs, LR)
        stale = self.version - self.versions[client]
        step = self.lr / (1 + stale) ** self.exponent
        self.model = (1 - step) * self.model + step * self.local[client]
        self.version += 1
        self.versions[client], self.held[client] = self.version, self.model
        return stale


def by_largest_remainder(counts, total):
    exact = [total * count / sum(counts) for count in counts]
    found = [math.floor(value) for value in exact]
    for _ in range(total - sum(found)):
        i = max(range(len(counts)), key=lambda i: exact[i] - found[i])
        found[i] += 1
    return found
