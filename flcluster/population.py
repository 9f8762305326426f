"""What all clients get, whether or not they take part: how good their models are and how alike those who share one."""

import numpy as np

from flcluster.distances import L1
from flcluster.federation import Federation
from flcluster.represent import shares
from flcluster.rounds import SHOWN_SIZES, Served
from flcluster.silhouette import mean_distances


def measured(served: Served, t: int, fed: Federation) -> dict[str, float]:
    """Measure every client with the model it is served, on the data it holds in round ``t``.

    ``heterogeneity`` is the mean client distance: for each client that holds data the mean L1 distance of its label
    shares to those of the others with the same model, then the mean over clients.
    """
    labels, holding = served.labels, np.flatnonzero(fed.data.sizes(t))
    holding = holding[labels[holding] >= 0]
    accuracies = fed.client_accuracies(served.models, labels, t)
    known = accuracies[~np.isnan(accuracies)]
    points = shares(fed.data.label_counts(holding, t))
    apart = mean_distances(points, labels[holding], L1()) if len(holding) else np.zeros(0)
    sizes = np.bincount(labels[labels >= 0], minlength=len(served.models))
    return {
        "client_acc": float(known.mean()) if len(known) else float("nan"),
        "client_acc_std": float(known.std()) if len(known) else float("nan"),
        "clusters": float((sizes > 0).sum()),
        "heterogeneity": float(apart.mean()) if len(apart) else float("nan"),
        **{f"cluster_size_{k}": float(size) for k, size in enumerate(sizes[:SHOWN_SIZES])},
    }
