"""Whole runs on drifting digits: FIELDING ahead of what stands still, gradients that see swaps, resumed runs."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sklearn.metrics import adjusted_rand_score

from flcluster.algorithms import Fielding, StaticClustering
from flcluster.algorithms.drift.representations import Gradient, InputEmbedding, LabelHistogram
from flcluster.cli import main
from flcluster.clustering.distances import L2
from flcluster.datamodules import LabelBuckets, LabelSwaps, StreamDigits
from flcluster.engine.run import make_loop

# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("seed", [0, 1])
def test_fielding_is_ahead_after_everything_has_changed(seed, federate):
    """Two of ten labels a client, others every five rounds: whoever shared labels does so no more.

    Until the first change both methods do the same; after the third FIELDING's clients have models for their labels.
    """
    runs = {}
    for kind in (Fielding, StaticClustering):
        plan = LabelBuckets(samples=(120, 160), gap=5, buckets=5)
        data = StreamDigits(num_clients=15, window=5, arrivals=plan, seed=seed)
        algorithm = kind(rounds=20, participants=10, local_steps=3, batch_size=10)
        loop = make_loop(algorithm, federate(data, lr=0.02, seed=seed), None, None)
        loop.begin()
        runs[kind] = []
        for _ in range(20):
            loop.advance()
            runs[kind].append(loop.gauges())
    ours, static = ([row["client_acc"] for row in runs[kind]] for kind in (Fielding, StaticClustering))
    assert ours[:5] == static[:5]
    assert ours[4] > ours[0] + 0.1
    assert np.mean(ours[-5:]) > np.mean(static[-5:]) + 0.08
    assert ours[5] > static[5] + 0.2  # right after a change
    assert runs[Fielding][-1]["heterogeneity"] < runs[StaticClustering][-1]["heterogeneity"] - 0.2
    assert runs[Fielding][-1]["reclusterings"] >= 1
    assert runs[StaticClustering][-1]["reclusterings"] == runs[StaticClustering][-1]["moved"] == 0


def swapping(federate, representation, seed):
    """Twenty clients with the same three labels, twenty samples of each; at round 2 three quarters swap two of them.

    Returns how well the clusters after that agree with who swapped what (1: exactly), and the coordinator's counts.
    """
    plan = LabelBuckets(samples=(60, 60), labels_per_client=(3, 3), groups=1, group_noise=0.0, concentration=None)
    more = {"static": True, "test_share": 0.0, "proxy_per_class": 20, "shift": LabelSwaps(share=0.75, at=(2,))}
    data = StreamDigits(num_clients=20, arrivals=plan, seed=seed, **more)
    fed = federate(data, hidden=(16,), seed=seed)
    algorithm = Fielding(local_steps=2, batch_size=10, representation=representation, distance=L2())
    state = algorithm.init(fed)
    for t in (1, 2):
        state, _ = algorithm.follow(state, t, fed)
    named = [
        str(sorted(set(zip(*(data.shard(m, t).train.tensors()[1].tolist() for t in (0, 2)), strict=True))))
        for m in range(20)
    ]
    assert len(set(named)) == 4  # three swaps, and none
    return adjusted_rand_score(named, state.labels.numpy()), algorithm.gauges(state)


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_find_swapped_labels_and_histograms_cannot(seed, federate):
    """Clients with the same swap end up in one cluster, and no two different ones, by gradients alone."""
    agreement, counts = swapping(federate, Gradient(epochs=20), seed)
    assert agreement == 1
    assert counts["reclusterings"] == 1
    for blind in (LabelHistogram(), InputEmbedding(epochs=5)):
        agreement, counts = swapping(federate, blind, seed)
        assert agreement < 0.3
        assert counts["reclusterings"] == counts["moved"] == 0


def test_everyone_is_measured_as_they_see_their_own_data(federate):
    """Half of the clients see two labels swapped: each is scored under its own names, one model for all or several."""
    plan = LabelBuckets(samples=(60, 90), labels_per_client=(3, 3), groups=2)
    data = StreamDigits(num_clients=8, arrivals=plan, static=True, test_share=0.4, shift=LabelSwaps(at=(1,)), seed=3)
    fed = federate(data, lr=0.2)
    rows, labels = 3 * fed.init_rows(2), np.array([0, 1, 1, 0, 0, 1, 0, 1])
    differ = 0
    for t in (0, 1):
        found = fed.client_accuracies(rows, labels, t)
        for m in range(8):
            x, y = data.shard(m, t).test.tensors()
            fed.layout.load(rows[labels[m]])
            with torch.no_grad():
                expected = float((fed.worker.module.eval()(x).argmax(1) == y).double().mean())
            assert found[m] == pytest.approx(expected, abs=1e-9)
            differ += not torch.equal(y, data.shard(m, 0).test.tensors()[1])
    assert differ == 4


# ---------------------------------------------------------------------------------------------------------------- runs

STREAM = {"num_clients": 10, "window": 4, "proxy_per_class": 3, "test_share": 0.3}
BUCKETS = {"class_path": "LabelBuckets", "init_args": {"samples": [40, 70], "gap": 3, "buckets": 5}}
DEVICES = {"class_path": "flcluster.devices.profiles.SyntheticDevices", "init_args": {"online_share": 0.7}}
ROUNDS = {"rounds": 7, "participants": 6, "local_steps": 3, "batch_size": 10, "measure": "all"}
FEW = {"class_path": "flcluster.clustering.kmeans.KMeansBySilhouette", "init_args": {"max_clusters": 4, "n_init": 2}}


def config(method, **options):
    """A small stream of digits and a softmax regression."""
    return {
        "seed_everything": 0,
        "data": {"class_path": "StreamDigits", "init_args": {**STREAM, "arrivals": BUCKETS}},
        "model": {"class_path": "MLP", "init_args": {"hidden": [], "lr": 0.1}},
        "algorithm": {"class_path": method, "init_args": {**ROUNDS, **options}},
        "engine": {"pictures": False, "table": False, "progress": False, "threads": 1},
    }


def part(name, **arguments):
    return {"class_path": name, "init_args": arguments}


def fit(folder, settings, *flags):
    Path("run.yaml").write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", "run.yaml", "--run_dir", folder, *flags]) == 0
    return json.loads(Path(folder, "summary.json").read_text())


def numbers(folder):
    """Both tables, apart from the column of real seconds."""
    with open(Path(folder, "metrics.csv")) as file:
        metrics = [{k: v for k, v in row.items() if k != "coordinator_seconds"} for row in csv.DictReader(file)]
    return metrics, Path(folder, "clients.csv").read_text()


def untimed(summary):
    real = ("wall_seconds", "updates_per_second", "peak_memory_gb", "coordinator_seconds")
    return {name: value for name, value in summary.items() if name not in real}


METHODS = {
    "fielding": config("Fielding", clusterer=FEW, server=part("Yogi"), selection=part("Oort"), devices=DEVICES),
    "gradients": config(
        "Fielding",
        clusterer=FEW,
        representation=part("flcluster.algorithms.drift.representations.Gradient", epochs=2),
        distance=part("flcluster.clustering.distances.L2"),
    ),
    "selected": config("SelectedOnly", clusterer=FEW, devices=DEVICES),
    "losses": config("LossTriggeredFielding", clusterer=FEW, rise=0.0, devices=DEVICES),
    "analysis": config("FieldingAnalysis", local_steps=1, devices=DEVICES),
    "flexcfl": config("FlexCFL", num_clusters=3, pretrain_steps=5, founders=2),
    "auxo": config("Auxo", server=part("Yogi")),
    "feddrift": config("FedDrift", local_epochs=1),
    "fair": config("QFedAvg", selection=part("DistanceSelection")),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_run_gives_the_numbers_of_a_whole_one(name):
    """Stopped after four of seven rounds, between two drifts."""
    whole = fit("whole", METHODS[name])
    fit("cut", METHODS[name], "--engine.max_updates", "4")
    assert len(numbers("cut")[0]) == 5
    assert main(["fit", "--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    assert numbers("cut") == numbers("whole")
    assert untimed(json.loads(Path("cut/summary.json").read_text())) == untimed(whole)
    metrics = numbers("whole")[0]
    assert [int(row["epoch"]) for row in metrics] == list(range(8))
    assert whole["client_acc"] == float(metrics[-1]["client_acc"])
    last = [float(row["client_acc"]) for row in metrics[-5:]]
    assert whole["client_acc_last"] == pytest.approx(np.mean(last), rel=1e-12)


def test_what_a_run_shows():
    """Every column that drift figures and tables read, with numbers in it; times ascend; sizes add up."""
    summary = fit("run", config("Fielding", clusterer=FEW, devices=DEVICES))
    metrics = numbers("run")[0]
    shown = "client_acc client_acc_std clusters delta reclusterings heterogeneity max_distance p95_distance moved"
    shown += " report_bytes report_compute lost cluster_size_0"
    for row in metrics:
        assert all(row[name] != "" for name in shown.split())
        assert 0 <= float(row["p95_distance"]) <= float(row["max_distance"]) <= 2
        sizes = [float(row[f"cluster_size_{k}"] or 0) for k in range(10)]
        assert sum(sizes) == 10
        assert sum(size > 0 for size in sizes) == float(row["clusters"])
    times = [float(row["time"]) for row in metrics]
    assert times == sorted(set(times))
    assert summary["reclusterings"] == float(metrics[-1]["reclusterings"]) >= 1
    assert summary["report_compute"] == 0
    assert {"coordinator_seconds", "heterogeneity", "client_acc_last"} <= set(summary)


@pytest.mark.slow
def test_two_ranks_give_the_numbers_of_one():
    fit("one", METHODS["gradients"])
    Path("two.yaml").write_text(yaml.safe_dump(METHODS["gradients"]))
    command = [sys.executable, "-m", "flcluster", "fit", "--config", "two.yaml", "--run_dir", "two"]
    ranks = ["--fabric.devices", "2", "--fabric.accelerator", "cpu"]
    subprocess.run([*command, *ranks], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, timeout=300)
    assert numbers("one") == numbers("two")


OWN = '''
from dataclasses import dataclass

import numpy as np

from flcluster.algorithms import Representation


@dataclass(frozen=True)
class Parity(Representation):
    """The share of even labels, and that of odd ones, times a factor."""

    factor: float = 1.0
    passes = 0.5

    def of(self, clients, t, shared, fed):
        counts = fed.data.label_counts(clients, t)
        even = counts[:, ::2].sum(1) / counts.sum(1)
        return (self.factor * np.stack([even, 1 - even], 1)).astype(np.float32)
'''


def test_a_representation_of_ones_own(monkeypatch, tmp_path):
    """A class in a file, named by its class_path, with an argument: two numbers a report, so eight bytes."""
    Path("parity.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    summary = fit("own", config("Fielding", clusterer=FEW, representation=part("parity.Parity", factor=0.5)))
    assert summary["report_bytes"] % 8 == 0
    assert summary["report_bytes"] >= 8 * 10
    assert summary["report_compute"] > 0
    assert summary["max_distance"] <= 1
    saved = yaml.safe_load(Path("own/config.yaml").read_text())["algorithm"]["init_args"]["representation"]
    assert saved == {"class_path": "parity.Parity", "init_args": {"factor": 0.5}}
