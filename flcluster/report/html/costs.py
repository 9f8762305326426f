"""What runs sent, computed and took."""

from collections.abc import Sequence

from flcluster.records.columns import plus_minus
from flcluster.records.reader import number
from flcluster.report.html.blocks import Block, label, plot, rounded, section, table, tint
from flcluster.report.html.group import Group
from flcluster.report.printed import units
from flcluster.report.summaries import Groups, mean_std, ratios
from flcluster.report.tables import Grid

TOTALS = {
    "Sent by clients, MB": ("upload_bytes", 1e-6),
    "Received, MB": ("download_bytes", 1e-6),
    "Reports, MB": ("report_bytes", 1e-6),
    "Client passes, thousands": ("client_compute", 1e-3),
    "Server passes, thousands": ("server_compute", 1e-3),
    "Models sent": ("messages", 1.0),
    "Wall time, s": ("wall_seconds", 1.0),
    "Peak memory, GB": ("peak_memory_gb", 1.0),
}
"""Head of a column -> a total of the summary, and what it is multiplied by."""


RATIOS = {"Received per update, ratio": "download_bytes", "Client passes per update, ratio": "client_compute"}


PANELS = {
    "Traffic": ("MB", {"sent by clients": ("upload_bytes", 1e-6), "received by clients": ("download_bytes", 1e-6)}),
    "Computation": ("samples passed", {"clients": ("client_compute", 1.0), "server": ("server_compute", 1.0)}),
}


def costs_section(groups: Sequence[Group]) -> Block | None:
    """Return the totals of communication and computation, as numbers and bars."""
    keyed: Groups = {group.key: group.runs for group in groups}
    rows = []
    for group in groups:
        row = {"Method": group.name}
        for head, (name, scale) in TOTALS.items():
            row[head] = _text([scale * number(run.summary, name) for run in group.runs])
        if len(groups) > 1:
            row |= {head: _text(ratios(keyed, group.key, name, units(name))) for head, name in RATIOS.items()}
        rows.append(row)
    bases = dict.fromkeys(method for name in RATIOS.values() for method in units(name))
    said = f" Ratios: to {' or '.join(bases)}, where that was run." if len(groups) > 1 else ""
    grid = Grid(
        "Totals",
        rows,
        "A pass is one sample through the model; a training step counts three." + said,
        empty=("", "0.00", "0.00 ±0.00"),
    )
    blocks = [table(grid), *(_bars(groups, title) for title in PANELS)]
    return section("costs", "Communication and computation", blocks)


def _text(values: list[float]) -> str:
    mean, std = mean_std(values)
    return plus_minus(mean, std, digits=0 if abs(mean) >= 100 else 2)


def _bars(groups: Sequence[Group], title: str) -> Block | None:
    unit, kinds = PANELS[title]
    found = {}
    for kind, (name, scale) in kinds.items():
        found[kind] = [mean_std(scale * number(run.summary, name) for run in group.runs) for group in groups]
    if not any(mean > 0 for values in found.values() for mean, _ in values):
        return None
    names = [label(group.name, 18) for group in groups]
    colours = {kind: [tint(group.ink, 100 - 50 * at) for group in groups] for at, kind in enumerate(kinds)}
    traces = []
    for kind, values in found.items():
        spread = rounded(std for _, std in values)
        error = {"type": "data", "array": [std or 0 for std in spread], "visible": any(spread), "thickness": 1}
        traces.append(
            {
                "type": "bar",
                "name": kind,
                "x": names,
                "y": rounded(mean for mean, _ in values),
                "marker": {"color": colours[kind]},
                "error_y": error,
            }
        )
    layout = {"barmode": "group", "bargap": max(0.2, 0.8 - 0.15 * len(groups)), "showlegend": False}
    layout["xaxis"] = {"type": "category", "automargin": True}
    strong, pale = kinds
    return plot(f"{title}: full colour {strong}, pale {pale}", traces, "", unit, 300, **layout)
