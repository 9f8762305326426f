"""What all clients get, whether or not they take part: how good their models are and how alike those who share one."""

from math import nan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flcluster.clustering.agreement import matched_purity
from flcluster.clustering.distances import L1
from flcluster.clustering.points import shares
from flcluster.clustering.silhouette import mean_distances
from flcluster.federation.federation import Federation
from flcluster.protocol.base import Algorithm
from flcluster.protocol.outcome import Served
from flcluster.records.columns import SHOWN_SIZES
from flcluster.records.recorder import worst_tenth

S = TypeVar("S")


BOTH = ("acc_global", "acc_local", "acc_global_dropouts", "acc_local_dropouts")
"""How good the clients' models are on all classes alike and on what clients hold themselves."""


def local_accuracies(served: Served, t: int, fed: Federation) -> NDArray[np.float64]:
    """Return each client's accuracy on its own test data with the model it is served; NaN without either."""
    return fed.client_accuracies(served.models, served.which, t)


def both_accuracies(served: Served, local: NDArray[np.float64], fed: Federation) -> dict[str, float]:
    """Average over clients that stay, and over dropouts: accuracy on the global test set, and on their own.

    Nothing for data without a global test set.
    """
    test = fed.data.global_test()
    if test is None:
        return {}
    models = np.unique(served.which[served.which >= 0]).tolist()
    found = {k: fed.accuracy(served.models[k].to(fed.device), test) for k in models}
    everywhere = np.array([found.get(k, nan) for k in served.which.tolist()])
    groups = {"": fed.data.participants, "_dropouts": np.array(fed.data.dropouts, dtype=np.int64)}
    return {
        f"acc_{name}{group}": _mean(values[clients])
        for name, values in (("global", everywhere), ("local", local))
        for group, clients in groups.items()
    }


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else nan


def measured(served: Served, accuracies: NDArray[np.float64], t: int, fed: Federation) -> dict[str, float]:
    """Measure all clients, knowing the accuracy of each with the model it is served, on the data of round ``t``.

    ``heterogeneity`` is the mean client distance: for each client that holds data the mean L1 distance of its label
    shares to those of the others with the same model, then the mean over clients; NaN for data without classes.
    ``purity`` is the share of clients whose cluster is the one most of their samples come from, after the best
    one-to-one matching.
    """
    labels, holding = served.labels, fed.data.with_samples(t)
    holding = holding[labels[holding] >= 0]
    known = accuracies[~np.isnan(accuracies)]
    apart = np.zeros(0)
    if len(holding) and fed.data.knows_classes:
        apart = mean_distances(shares(fed.data.label_counts(holding, t)), labels[holding], L1())
    sizes = np.bincount(labels[labels >= 0])
    return {
        "client_acc": _mean(accuracies),
        "client_acc_worst": worst_tenth(known, fed.score.higher),
        "client_acc_std": float(known.std()) if len(known) else nan,
        "clusters": float((sizes > 0).sum()),
        "purity": matched_purity(labels[holding], true_clusters(holding, t, fed)) if fed.data.num_clusters > 1 else nan,
        "heterogeneity": float(apart.mean()) if len(apart) else nan,
        **{f"cluster_size_{k}": float(size) for k, size in enumerate(sizes[:SHOWN_SIZES])},
    }


def newcomers_accuracies(algorithm: Algorithm[S], state: S, t: int, fed: Federation) -> dict[str, float]:
    """Let the clients join that were held out of training, and score each with what it gets, on its own test data."""
    clients = fed.data.newcomers.tolist()
    if not clients:
        return {}
    fed.note(f"{len(clients)} clients that were held out of training join")
    tests = [fed.shard(client, t).test for client in clients]
    rows = algorithm.newcomers(state, clients, t, fed)
    found = [fed.accuracy(row.to(fed.device), test) for row, test in zip(rows, tests, strict=True) if len(test)]
    if not found:
        return {}
    worst = worst_tenth(found, fed.score.higher)
    return {"unseen_acc": _mean(np.array(found)), "unseen_acc_std": float(np.std(found)), "unseen_acc_worst": worst}


def true_clusters(clients: NDArray[np.int64], t: int, fed: Federation) -> NDArray[np.int64]:
    """Return the cluster that most of each client's samples come from."""
    mixtures = (fed.shard(client, t).mixture for client in clients.tolist())
    return np.array([int(mixture.argmax()) for mixture in mixtures], dtype=np.int64)
