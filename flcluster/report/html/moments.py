"""What is known of every client at some moments of a run: its cluster and its accuracy, as told last."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.records.reader import Run
from flcluster.report.html.blocks import thin

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


MOST = 60
"""Most moments that are looked at."""


class History(NamedTuple):
    """All clients at some moments."""

    updates: Floats
    """The update of each moment, ascending."""
    epochs: Floats
    labels: Ints
    """``[moments, clients]``; −1 where none is known."""
    accuracies: Floats
    """``[moments, clients]``; NaN where none is known."""


NOTHING = History(np.empty(0), np.empty(0), np.empty((0, 0), dtype=np.int64), np.empty((0, 0)))


def history(run: Run, most: int = MOST) -> History:
    """Return what was known of all clients at some of a run's moments, evenly chosen.

    ``population.csv`` tells it of methods that measure all clients, else the uploads do: a client's last one, its
    cluster being the one that it was assigned to, or the largest share of its estimate.
    """
    told = told_by_population(run) or told_by_uploads(run)
    if told is None or not len(told[0]):
        return NOTHING
    updates, epochs, clients, labels, accuracies = told
    count = max(int(run.summary.get("num_clients") or 0), int(clients.max()) + 1)
    at = moments_of(run, updates)[thin(len(moments_of(run, updates)), most)]
    found = History(at, _epochs(at, updates, epochs), np.full((len(at), count), -1), np.full((len(at), count), np.nan))
    label, accuracy, row = np.full(count, -1), np.full(count, np.nan), 0
    for moment, update in enumerate(at):
        while row < len(updates) and updates[row] <= update:
            if labels[row] >= 0:
                label[clients[row]] = labels[row]
            if np.isfinite(accuracies[row]):
                accuracy[clients[row]] = accuracies[row]
            row += 1
        found.labels[moment], found.accuracies[moment] = label, accuracy
    return found


Told = tuple[Floats, Floats, Ints, Ints, Floats]
"""Rows in order of time: update, epoch, client, cluster, accuracy."""


def told_by_population(run: Run) -> Told | None:
    """Return the rows of ``population.csv``; None where there are none."""
    rows = run.population
    if rows is None or not len(rows["client"]):
        return None
    clients, labels = (rows[name].astype(np.int64) for name in ("client", "label"))
    return rows["update"], rows["epoch"], clients, labels, rows["accuracy"]


def told_by_uploads(run: Run) -> Told | None:
    """Return the rows of ``clients.csv``; None where there are none."""
    rows = run.clients
    count = len(rows["client"])
    if not count:
        return None
    none = np.full(count, np.nan)
    after, before = (rows.get(f"acc_{when}", none) for when in ("after", "before"))
    accuracies = np.where(np.isfinite(after), after, before)
    updates = rows.get("update", np.arange(1.0, count + 1))
    return updates, rows.get("epoch", updates), rows["client"].astype(np.int64), _clusters(run, none), accuracies


def _clusters(run: Run, none: Floats) -> Ints:
    label = run.clients.get("label", none)
    names = [name for name in run.clients if name.startswith("est_")]
    estimates = np.stack([run.clients[name] for name in names], 1) if len(names) > 1 else none[:, None]
    known = np.asarray(np.isfinite(estimates).all(axis=1))
    likely = np.where(known, np.where(known[:, None], estimates, 0.0).argmax(1), -1)
    found: Ints = np.where(np.isfinite(label), np.nan_to_num(label, nan=-1), likely if len(names) > 1 else -1)
    return found.astype(np.int64)


def moments_of(run: Run, updates: Floats) -> Floats:
    """Return the moments to look at: the sessions from the first row on, or the rows themselves without sessions."""
    sessions = np.unique(run.metrics["update"])
    sessions = sessions[(sessions >= updates[0]) & (sessions <= updates[-1])]
    return np.union1d(sessions, updates[-1:]) if len(sessions) else np.unique(updates)


def _epochs(at: Floats, updates: Floats, epochs: Floats) -> Floats:
    found: Floats = epochs[np.minimum(np.searchsorted(updates, at, side="right"), len(updates)) - 1]
    return found
