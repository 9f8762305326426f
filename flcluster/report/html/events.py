"""What happened on the way, for the axis of the curves: data drifted, clusters were made anew, split or merged."""

import numpy as np

from flcluster.records.reader import Run
from flcluster.report.html.blocks import Block

SO_FAR = {"reclusterings": "clusters made anew", "splits": "split", "merges": "merged", "drifts": "drift found"}
"""Columns that count from the start."""


MOST = 80


def happened(run: Run) -> list[tuple[float, str]]:
    """Return what happened by the update of its row of metrics.

    The first row is the start: what it counts belongs to making the first state.
    """
    updates = run.metrics["update"]
    found: list[tuple[float, str]] = []
    changed = run.metrics.get("changed", np.empty(0))
    for at in np.flatnonzero(np.nan_to_num(changed) > 0):
        found.append((float(updates[at]), f"data of {changed[at]:.0f} clients changed"))
    for name, said in SO_FAR.items():
        counts = np.nan_to_num(run.metrics.get(name, np.empty(0)))
        for at in np.flatnonzero(np.diff(counts) > 0) + 1:
            times = counts[at] - counts[at - 1]
            found.append((float(updates[at]), said if times == 1 else f"{said} ({times:.0f} times)"))
    return found


def events(run: Run, grid: np.ndarray) -> list[Block]:
    """Return what happened, by the place on a grid of updates where it shows, the last of them if there are many."""
    told: dict[int, list[str]] = {}
    for update, said in sorted(happened(run), key=lambda event: event[0]):
        at = min(int(np.searchsorted(grid, update)), len(grid) - 1)
        told.setdefault(at, []).append(said)
    return [{"at": at, "text": "; ".join(dict.fromkeys(said))} for at, said in list(told.items())[-MOST:]]
