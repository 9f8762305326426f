"""What a selection is told of clients, and how often it picks them."""

from collections import Counter

import numpy as np

from flcluster.algorithms.rounds.selection import Asked


def per_client(values):
    return lambda clients: np.asarray(values, dtype=np.float64)[clients]


def look(clients, distance=None, seconds=None, work=None):
    ones = np.ones(clients)
    return Asked(*(per_client(ones if v is None else v) for v in (distance, seconds, work)))


def ids(*clients):
    return np.array(clients, dtype=np.int64)


def shares(pick, times):
    """How often each client is picked, over many draws of one generator."""
    draw = np.random.default_rng(1)
    counted = Counter(int(client) for _ in range(times) for client in pick(draw))
    return {client: count / times for client, count in counted.items()}
