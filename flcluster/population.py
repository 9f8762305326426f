"""What all clients get, whether or not they take part: how good their models are and how alike those who share one."""

from math import nan

import numpy as np
from numpy.typing import NDArray

from flcluster.distances import L1
from flcluster.federation import Federation
from flcluster.metrics import matched_purity
from flcluster.represent import shares
from flcluster.rounds import SHOWN_SIZES, Served
from flcluster.silhouette import mean_distances


def measured(served: Served, t: int, fed: Federation) -> dict[str, float]:
    """Measure every client with the model it is served, on the data it holds in round ``t``.

    ``heterogeneity`` is the mean client distance: for each client that holds data the mean L1 distance of its label
    shares to those of the others with the same model, then the mean over clients. ``purity`` is the share of clients
    whose cluster is the one most of their samples come from, after the best one-to-one matching.
    """
    labels, holding = served.labels, np.flatnonzero(fed.data.sizes(t))
    holding = holding[labels[holding] >= 0]
    accuracies = fed.client_accuracies(served.models, labels if served.model_of is None else served.model_of, t)
    known = accuracies[~np.isnan(accuracies)]
    points = shares(fed.data.label_counts(holding, t))
    apart = mean_distances(points, labels[holding], L1()) if len(holding) else np.zeros(0)
    sizes = np.bincount(labels[labels >= 0])
    return {
        "client_acc": float(known.mean()) if len(known) else nan,
        "client_acc_std": float(known.std()) if len(known) else nan,
        "clusters": float((sizes > 0).sum()),
        "purity": matched_purity(labels[holding], true_clusters(holding, t, fed)) if fed.data.num_clusters > 1 else nan,
        "heterogeneity": float(apart.mean()) if len(apart) else nan,
        **{f"cluster_size_{k}": float(size) for k, size in enumerate(sizes[:SHOWN_SIZES])},
    }


def true_clusters(clients: NDArray[np.int64], t: int, fed: Federation) -> NDArray[np.int64]:
    """Return the cluster that most of each client's samples come from."""
    mixtures = (fed.data.shard(client, t).mixture for client in clients.tolist())
    return np.array([int(mixture.argmax()) for mixture in mixtures], dtype=np.int64)
