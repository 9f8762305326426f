"""DFCA's rounds in NumPy: assignment by loss, and Eq. 7 over the graph."""

import numpy as np
from gossip import CLOSE, rows_of, two_kinds
from replay import mean_loss

COMMON = {"local_epochs": 2, "batch_size": 8}


def eq7(rows, k, adjacency, labels, clients):
    """Average model j of every participant with the neighbours that trained j; ``labels`` are the senders'."""
    out = rows.copy()
    for i in clients:
        for j in range(k):
            heard = [m for m, label in labels.items() if adjacency[i, m] and label == j]
            out[i * k + j] = (rows[i * k + j] + sum(rows[m * k + j] for m in heard)) / (1 + len(heard))
    return out


def assigned(rows, k, clients, t, fed, loss=mean_loss):
    """The first of the models with the smallest loss on a client's training data of round t."""
    found = {}
    for i in clients:
        losses = [loss(rows[i * k + j], fed.data.shard(i, t).train) for j in range(k)]
        found[i] = losses.index(min(losses))
    return found


def between(adjacency, clients):
    inside = np.isin(np.arange(len(adjacency)), list(clients))
    return np.asarray(adjacency, dtype=bool) & inside[:, None] & inside[None]


def people(script, n=9, more=None):
    """Clients of different sizes; the odd ones call the classes by other names, and all change at round 1."""
    later = {m: ([m % 4, (m + 1) % 4] * 6, 1 - m % 2) for m in range(n)}
    return script({0: two_kinds(n), 1: later, **(more or {})})


def play(algorithm, state, t, fed, log, adjacency, clients, k, silent=(), loss=mean_loss):
    """Run round t and replay it: who trains what from where, and every row afterwards."""
    before = rows_of(algorithm, fed)
    log.clear()
    after, done = algorithm.step(state, t, fed)
    labels = assigned(before, k, clients, t, fed, loss)
    assert [job.client for job, _ in log] == sorted(clients) == [r.client for r in done.results]
    half = before.copy()
    for job, row in log:
        place = job.client * k + labels[job.client]
        assert np.array_equal(job.start.double().numpy(), before[place])
        assert not np.array_equal(row.double().numpy(), before[place])
        if job.client not in silent:
            half[place] = row.double().numpy()
    sent = {i: j for i, j in labels.items() if i not in silent}
    links = between(adjacency, clients)
    np.testing.assert_allclose(rows_of(algorithm, fed), eq7(half, k, links, sent, clients), **CLOSE)
    idle = [i * k + j for i in range(fed.data.num_clients) if i not in clients for j in range(k)]
    assert np.array_equal(rows_of(algorithm, fed)[idle], before[idle])
    assert list(done.cohort.labels) == [labels[i] for i in sorted(clients)]
    assert [int(after.labels[i]) for i in sorted(clients)] == [labels[i] for i in sorted(clients)]
    used = links[sorted(clients)][:, sorted(sent)]
    assert after.messages - state.messages == used.sum()
    assert list(done.downloads) == used.sum(1).tolist()
    uploads = {i: int(links[i].sum()) if i in sent else 0 for i in sorted(clients)}
    assert list(done.uploads) == list(uploads.values())
    return after, done, labels
