"""The graph of a run without a server, and who was assigned to which cluster, at its start and at its end."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flcluster.records.reader import Run
from flcluster.report.figures.network import (
    Floats,
    Moment,
    grouped,
    has_network,
    moments,
    panel_title,
    read_network,
    with_partners,
)
from flcluster.report.html.blocks import Block, choice, plot, rounded, section, thin, tint
from flcluster.report.html.group import Group
from flcluster.report.style import shade
from flcluster.topology.files import Edges

LINKS = 4000
"""Most links that are drawn."""


def network_section(groups: Sequence[Group]) -> Block | None:
    """Return both moments of each group's first run that has a graph."""
    views = {group.name: network_plots(group.first) for group in groups}
    intro = "Clients lie in their true cluster; colours are the clusters that they are assigned to, matched at the end."
    return section("network", "Network", [choice("run", views)], intro)


def network_plots(run: Run) -> list[Block | None]:
    """Return a plot of the start and one of the end; nothing for a run without a graph or assignments."""
    if not has_network(run):
        return []
    start, end = moments(run)
    graphs = read_network(run, len(end.labels))
    positions, _ = grouped(end.truth)
    partners = with_partners(start, end)
    names = ("Start", "End")
    return [
        _plot(f"{name}: {panel_title(moment, *graph)}", positions, moment, graph[1], partners)
        for name, moment, graph in zip(names, (start, end), graphs, strict=True)
    ]


def _plot(title: str, positions: Floats, moment: Moment, edges: Edges, partners: Mapping[int, int]) -> Block | None:
    kept = edges[thin(len(edges), LINKS)]
    said = f"{title}; {len(kept)} links drawn" if len(kept) < len(edges) else title
    bare = {"visible": False, "scaleanchor": "x"}
    layout = {"xaxis": {"visible": False}, "yaxis": bare, "hovermode": "closest"}
    return plot(said, [_links(positions, kept, len(edges)), *_dots(positions, moment, partners)], "", "", 420, **layout)


def _links(positions: Floats, edges: Edges, count: int) -> dict[str, Any]:
    ends = np.full((len(edges), 3, 2), np.nan)
    ends[:, :2] = positions[edges]
    x, y = ends.reshape(-1, 2).T
    faint = int(np.clip(3000 / max(count, 1), 6, 35))
    line = {"width": 0.7, "color": tint("ink", faint)}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": rounded(x, 3),
        "y": rounded(y, 3),
        "line": line,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _dots(positions: Floats, moment: Moment, partners: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the clients of each cluster, with an outline where it is not the true one."""
    traces = []
    size = float(np.clip(160 / np.sqrt(len(positions)), 4, 14))
    for label in [*partners, -1]:
        members = np.flatnonzero(moment.labels == label)
        if not len(members):
            continue
        partner = partners.get(label, -1)
        wrong = (moment.truth[members] >= 0) & (moment.truth[members] != partner) & (label >= 0)
        edges = {"width": np.where(wrong, 1.8, 0.5).tolist(), "color": np.where(wrong, "ink", "paper").tolist()}
        dots = {"size": round(size, 1), "color": shade(partner) if label >= 0 else "faint", "line": edges}
        x, y = positions[members].T
        text = [_said(client, moment, int(label), partner) for client in members.tolist()]
        name = f"cluster {label}" if label >= 0 else "never took part"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "marker": dots,
                "hoverinfo": "text",
                "x": rounded(x, 3),
                "y": rounded(y, 3),
                "text": text,
            }
        )
    return traces


def _said(client: int, moment: Moment, label: int, partner: int) -> str:
    if label < 0:
        return f"client {client}: never took part"
    truth = int(moment.truth[client])
    told = "" if truth < 0 or truth == partner else f", truly of {truth}"
    return f"client {client}: cluster {label}{told}"
