"""Gossip between clients that are written down: their graphs, their tables of models, and steps with momentum."""

import numpy as np
import torch
from replay import gradient

from flcluster.topology.families import EdgeList, ErdosRenyi

CLASSES, PIXELS, WIDTH = 4, 6, 28
CLOSE = {"rtol": 0, "atol": 1e-6}


def two_kinds(n, each=2):
    """What clients of different sizes hold; the odd ones call the classes by other names."""
    return {m: ([0, 1, 2, 3] * each + [m % 4] * (m + 1), m % 2) for m in range(n)}


def graph(tmp_path, n, p, seed):
    """A random graph as a file, and as a matrix."""
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    if not upper.any():
        return ErdosRenyi(p=0.0), upper
    path = tmp_path / f"graph{n}_{p}_{seed}.txt"
    path.write_text("\n".join(f"{i} {j}" for i, j in zip(*np.nonzero(upper), strict=True)) + "\n")
    return EdgeList(path=str(path)), upper | upper.T


def contents(table):
    return np.stack([table[i].double().numpy() for i in range(len(table))])


def filled(table, rows):
    for i, row in enumerate(rows):
        table[i] = torch.tensor(row, dtype=torch.float32)
    return table


def rows_of(algorithm, fed):
    """All models of all clients."""
    return contents(algorithm.models(fed))


def scatter(algorithm, fed, seed=0):
    """Give every client random models of its own, so that choices differ."""
    table = algorithm.models(fed)
    filled(table, 0.5 * np.random.default_rng(seed).normal(size=(len(table), table.width)))


def heavy_ball(start, batches, lr, theta):
    """y^{q+1} = y^q − η g(y^q) + θ (y^q − y^{q−1}), y^{−1} = y^0."""
    y = before = start.double()
    for batch in batches:
        y, before = y - lr * gradient(y, *batch) + theta * (y - before), y
    return y
