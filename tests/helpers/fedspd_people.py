"""FedSPD's clients, and the division of their samples by loss, in NumPy."""

from collections import Counter

import numpy as np
from replay import scores

COMMON = {"local_epochs": 1, "batch_size": 8, "min_samples": 1, "align_every": 0}


def division(rows, k, client, t, fed):
    """The first of a client's models with the smallest loss, for each of its samples."""
    view = fed.data.shard(client, t).train
    return np.stack([scores(rows[client * k + s], view)[0] for s in range(k)]).argmin(0)


def samples(view):
    """Which samples a view has, and how often."""
    return Counter((id(source), i) for source, index in view.parts for i in index.tolist())


def people(script, n=8, each=6):
    """Clients that hold samples of all classes; some of them call them by other names."""
    return script({0: {m: ([0, 1, 2, 3] * each + [m % 4] * m, m % 3) for m in range(n)}})
