"""What a step costs follows the clients that take part, not those that are registered. Work is counted, not timed."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from federations import Blobs, make_mlp

from flcluster.algorithms import CDFL, FedAvg, Fielding
from flcluster.clustering.kmeans import KMeansBySilhouette
from flcluster.engine.arguments import EngineConfig, FabricConfig
from flcluster.engine.fit import fabric_of
from flcluster.engine.process import Interrupt
from flcluster.engine.run import ActiveRun, Experiment

MANY, TAKING, STEPS = 5_000, 10, 3
LOCAL = {"local_epochs": 1, "batch_size": 50}
ROUNDS = {**LOCAL, "rounds": 100, "participants": TAKING}
METHODS = {
    "FedAvg": (FedAvg(**ROUNDS), TAKING * STEPS),
    "CDFL": (CDFL(**LOCAL, cycles=1, pretrain_epochs=1), STEPS),
    "Fielding": (
        Fielding(**ROUNDS, measure="participants", clusterer=KMeansBySilhouette(max_clusters=3, n_init=1, sample=100)),
        TAKING * STEPS,
    ),
}
"""Method -> how many turns of a client its steps consist of."""


class Asked(Blobs):
    """Blobs that count what they are asked."""

    def __init__(self, num_clients, **kwargs):
        super().__init__(num_clients=num_clients, **kwargs)
        self.asked = Counter()

    def size(self, client, cycle=0):
        self.asked["size"] += 1
        return super().size(client, cycle)

    def shard(self, client, cycle=0):
        self.asked["shard"] += 1
        return super().shard(client, cycle)

    def drifted(self, cycle):
        """Says who did: nobody."""
        return super().drifted(cycle)

    @property
    def dropouts(self):
        self.asked["dropouts"] += 1
        return ()

    def label_counts(self, clients, cycle):
        self.asked["label_counts"] += len(clients)
        return np.eye(3, dtype=np.int64)[clients % 3]


def spent(method, data, folder):
    """Take some steps of a run that has begun; return what the data were asked, and how many functions were called."""
    engine = EngineConfig(threads=1, progress=False, checkpoint_minutes=10**6, max_updates=1)
    exp = Experiment(0, FabricConfig("cpu"), engine, data, make_mlp(), method, {}, Path(folder))
    run, calls = ActiveRun(exp, fabric_of(exp), Interrupt()), Counter()
    run.begin()
    run.drive()  # the first step learns who is there
    data.asked.clear()
    engine.max_updates = 1 + STEPS

    def count(frame, event, argument):
        calls[event] += 1

    sys.setprofile(count)
    try:
        run.drive()
    finally:
        sys.setprofile(None)
    run.close()
    return data.asked, calls["call"] + calls["c_call"]


@pytest.mark.parametrize("name", METHODS)
def test_a_step_asks_those_who_take_part(name):
    method, turns = METHODS[name]
    asked, calls = spent(method, Asked(MANY), "many")
    assert asked["size"] <= 2 * turns and asked["shard"] <= turns and asked["label_counts"] <= turns
    assert asked["dropouts"] <= 10 * turns
    _, few = spent(method, Asked(100), "few")
    assert calls < 1.2 * few, (calls, few)
