"""Estimated against true mixtures, upload by upload."""

from collections.abc import Sequence

from flcluster.records.reader import Run
from flcluster.report.figures.mixtures import shares
from flcluster.report.html.blocks import Block, choice, plot, rounded, section, thin, tint
from flcluster.report.html.group import Group
from flcluster.report.style import shade

POINTS = 1500
"""Most uploads whose shares are drawn."""


LAST = 20


def mixtures_section(groups: Sequence[Group]) -> Block | None:
    """Return the mixtures of each group's first run."""
    views = {group.name: [scatter(group.first), pairs(group.first)] for group in groups}
    intro = "What part of a client's data comes from which cluster: as it is, and as the method estimates it."
    return section("mixtures", "Mixtures", [choice("run", views)], intro)


def scatter(run: Run) -> Block | None:
    """Return every share as a point; evenly chosen uploads where there are too many."""
    true, estimate, clients, updates = shares(run)
    kept = thin(len(true), POINTS)
    if not len(kept):
        return None
    said = [f"client {c:.0f}, update {u:.0f}" for c, u in zip(clients[kept], updates[kept], strict=True)]
    line = {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "showlegend": False, "hoverinfo": "skip"}
    traces = [{**line, "line": {"color": "faint", "dash": "dot", "width": 1}}]
    for k in range(true.shape[1]):
        dots = {"size": 5, "color": tint(shade(k), 45 if len(kept) > 200 else 85)}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"cluster {k}",
                "marker": dots,
                "x": rounded(true[kept, k], 3),
                "y": rounded(estimate[kept, k], 3),
                "text": said,
            }
        )
    title = f"{len(true)} uploads with an estimate" + (f", {len(kept)} of them drawn" if len(kept) < len(true) else "")
    both = {"range": [-0.03, 1.03]}
    return plot(title, traces, "true share", "estimated share", 380, xaxis=both, yaxis=both)


def pairs(run: Run) -> Block | None:
    """Return the last uploads as bars in pairs: true on the left, estimated on the right and paler."""
    true, estimate, clients, _ = shares(run)
    at = range(max(0, len(true) - LAST), len(true))
    if not len(at):
        return None
    traces = []
    for k in range(true.shape[1]):
        for kind, values, colour in (("true", true, shade(k)), ("estimated", estimate, tint(shade(k), 55))):
            x = [place + (-0.2 if kind == "true" else 0.2) for place in range(len(at))]
            text = [f"client {clients[i]:.0f}, {kind}: {values[i, k]:.3f} of cluster {k}" for i in at]
            traces.append(
                {
                    "type": "bar",
                    "x": x,
                    "y": rounded(values[list(at), k], 3),
                    "width": 0.36,
                    "marker": {"color": colour},
                    "text": text,
                    "hoverinfo": "text",
                    "textposition": "none",
                    "name": f"cluster {k}",
                    "showlegend": kind == "true",
                }
            )
    names = [f"{clients[i]:.0f}" for i in at]
    ticks = {"tickmode": "array", "tickvals": list(range(len(at))), "ticktext": names}
    title = f"The last {len(at)}: true (left), estimated (right, paler)"
    return plot(title, traces, "client", "share", barmode="stack", xaxis=ticks, yaxis={"range": [0, 1.02]})
