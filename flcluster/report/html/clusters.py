"""How large clusters were over time, and who moved from which to which."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from flcluster.report.html.blocks import Block, choice, plot, rounded, section, thin, tint
from flcluster.report.html.group import Group
from flcluster.report.html.moments import History, history
from flcluster.report.style import shade

COLUMNS = 5
"""Moments between which moves are drawn."""


EASE = (1 - np.cos(np.linspace(0, np.pi, 9))) / 2


WHOLE = {"rangemode": "tozero", "tickformat": ",d"}


NAMED = 12
"""Most clients that a label names."""


def clusters_section(groups: Sequence[Group]) -> Block | None:
    """Return the clusters' sizes and moves, of each group's first run."""
    views = {}
    for group in groups:
        moments = history(group.first)
        if len(moments.labels) and len(np.unique(moments.labels[moments.labels >= 0])) > 1:
            views[group.name] = [sizes_plot(moments), flows_plot(moments), moves_plot(moments)]
    intro = "A client's cluster is the one it is assigned to or, where shares are estimated, its largest."
    return section("clusters", "Clusters", [choice("run", views)], intro)


def sizes_plot(moments: History) -> Block | None:
    """Return how many clients were in each cluster, stacked."""
    traces = []
    for k in np.unique(moments.labels[moments.labels >= 0]).tolist():
        line = {"width": 0.5, "color": shade(k), "shape": "hv"}
        counts = (moments.labels == k).sum(1)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "stackgroup": "sizes",
                "name": f"cluster {k}",
                "line": line,
                "x": rounded(moments.updates),
                "y": rounded(counts),
                "fillcolor": tint(shade(k), 75),
            }
        )
    return plot("Sizes", traces, "client updates", "clients")


def moves_plot(moments: History) -> Block | None:
    """Return how many clients changed their cluster by each moment, and which."""
    x, counts, said = [], [], []
    for (before, after), update in zip(pairwise(moments.labels), moments.updates[1:], strict=True):
        who = np.flatnonzero((before >= 0) & (after != before))
        x.append(float(update))
        counts.append(len(who))
        said.append(f"{len(who)} moved{': clients ' if len(who) else ''}{_named(who.tolist())}")
    bars: dict[str, Any] = {
        "type": "bar",
        "x": x,
        "y": counts,
        "text": said,
        "hoverinfo": "x+text",
        "textposition": "none",
    }
    if not any(counts):
        return None
    bars |= {"width": 0.7 * float(np.diff(moments.updates).min()), "marker": {"color": shade(0)}}
    axes = {
        "xaxis": {"range": moments.updates[[0, -1]].tolist()},
        "yaxis": {**WHOLE, **({"dtick": 1} if max(counts) < 6 else {})},
    }
    return plot("Moves", [bars], "client updates", "clients moved", 220, **axes)


def _named(clients: Sequence[int]) -> str:
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    return ", ".join(map(str, clients[:NAMED])) + more


def flows_plot(moments: History) -> Block | None:
    """Return who went where between a few moments: bars are clusters, ribbons the clients that go."""
    chosen = thin(len(moments.updates), COLUMNS)
    labels = moments.labels[chosen]
    if len(labels) < 2:
        return None
    traces = [ribbon for at in range(len(labels) - 1) for ribbon in ribbons(labels[at], labels[at + 1], at)]
    traces += [bar for at, here in enumerate(labels) for bar in bars(here, at)]
    names = [f"{update:.0f}" for update in moments.updates[chosen]]
    ticks: dict[str, Any] = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "showgrid": False,
    }
    layout: dict[str, Any] = {
        "xaxis": {**ticks, "range": [-0.1, len(names) - 0.9]},
        "hovermode": "closest",
        "showlegend": False,
    }
    return plot("Who moved", traces, "client updates", "clients", yaxis={"showgrid": False}, **layout)


def floors(labels: np.ndarray) -> dict[int, int]:
    """Return where each cluster begins in a stack of all, by its number; those without one (−1) are at the bottom.

    >>> floors(np.array([1, 0, 1, -1]))
    {-1: 0, 0: 1, 1: 2}
    """
    clusters, sizes = np.unique(labels, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return dict(zip(clusters.tolist(), starts.tolist(), strict=True))


def flows(before: np.ndarray, after: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """Return which clients went from each cluster to each.

    >>> {pair: who.tolist() for pair, who in flows(np.array([0, 0, 1]), np.array([0, 1, 1])).items()}
    {(0, 0): [0], (0, 1): [1], (1, 1): [2]}
    """
    pairs = sorted(set(zip(before.tolist(), after.tolist(), strict=True)))
    return {(a, b): np.flatnonzero((before == a) & (after == b)) for a, b in pairs}


def ribbons(before: np.ndarray, after: np.ndarray, at: int) -> list[dict[str, Any]]:
    """Return a ribbon for each pair of clusters that clients went between, as wide as they are many."""
    left, right, drawn = floors(before), floors(after), []
    for (a, b), who in flows(before, after).items():
        x, ease = at + 0.03 + 0.94 * np.linspace(0, 1, len(EASE)), EASE
        low = left[a] + (right[b] - left[a]) * ease
        left[a], right[b] = left[a] + len(who), right[b] + len(who)
        outline = np.concatenate([x, x[::-1]]), np.concatenate([low, (low + len(who))[::-1]])
        said = "stayed in" if a == b else f"went from {_cluster(a)} to"
        text = f"{len(who)} {said} {_cluster(b)}" + ("" if a == b else f": {_named(who.tolist())}")
        drawn.append({**_shape(*outline, tint(_ink(a), 25 if a == b else 60)), "text": text})
    return drawn


def bars(labels: np.ndarray, at: int) -> list[dict[str, Any]]:
    """Return a bar for each cluster at one moment."""
    drawn = []
    for k, low in floors(labels).items():
        size = int((labels == k).sum())
        x, y = [at - 0.03, at + 0.03, at + 0.03, at - 0.03], [low, low, low + size, low + size]
        drawn.append({**_shape(np.array(x), np.array(y), _ink(k)), "text": f"{_cluster(k)}: {size} clients"})
    return drawn


def _shape(x: np.ndarray, y: np.ndarray, colour: str) -> dict[str, Any]:
    line = {"width": 0.5, "color": "paper"}
    places = {"x": rounded(x), "y": rounded(y)}
    return {
        "type": "scatter",
        "mode": "lines",
        "fill": "toself",
        "fillcolor": colour,
        "line": line,
        **places,
        "hoveron": "fills",
        "hoverinfo": "text",
        "name": "",
    }


def _cluster(k: int) -> str:
    return f"cluster {k}" if k >= 0 else "no cluster"


def _ink(k: int) -> str:
    return shade(k) if k >= 0 else "faint"
