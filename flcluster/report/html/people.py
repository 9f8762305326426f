"""How good each client's model is: at the end, from the worst client to the best, and on the way there."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcluster.records.columns import plus_minus
from flcluster.records.reader import Run
from flcluster.report.html.blocks import Block, choice, label, plot, rounded, section, table, thin, tint, words
from flcluster.report.html.group import Group
from flcluster.report.html.moments import history
from flcluster.report.summaries import mean_std
from flcluster.report.tables import Grid
from flcluster.score import Score

Floats = NDArray[np.float64]


MOST = 300
"""Most clients drawn one by one; of more, so many are chosen evenly from worst to best."""


BINS = 20


def clients_section(groups: Sequence[Group], score: Score) -> Block | None:
    """Return the distribution over clients, in numbers and pictures."""
    found = {group.name: (group, [finals(run) for run in group.runs]) for group in groups}
    known = {name: pair for name, pair in found.items() if any(np.isfinite(each).any() for each in pair[1])}
    if not known:
        return None
    last = {name: [each[np.isfinite(each)] for each in finals] for name, (_, finals) in known.items()}
    views = {
        "from the worst client to the best": [_sorted_plot(known, score)],
        "how many clients are how good": [_histogram(known, last, score)],
        "over the run": [choice("run", {name: [_over_time(group, score)] for name, (group, _) in known.items()})],
    }
    blocks = [table(_numbers(last, known, score)), choice("view", views)]
    intro = "Each client with the model that it used last. The worst decile is the mean of the worst tenth of clients."
    return section("clients", "Clients", blocks, intro)


def finals(run: Run) -> Floats:
    """Return every client's last known accuracy, NaN where there is none."""
    moments = history(run)
    return moments.accuracies[-1] if len(moments.accuracies) else np.empty(0)


def worst_first(values: Floats, score: Score) -> Floats:
    """Return values in order, the worst first.

    >>> worst_first(np.array([0.9, 0.1]), Score("rmse", higher=False)).tolist()
    [0.9, 0.1]
    """
    return np.sort(values) if score.higher else np.sort(values)[::-1]


def worst_decile(values: Floats, score: Score) -> float:
    """Return the mean of the worst tenth, at least one; NaN of nothing.

    >>> worst_decile(np.array([0.9, 0.1, 0.8, 0.7]), Score())
    0.1
    """
    return float(worst_first(values, score)[: max(1, len(values) // 10)].mean()) if len(values) else math.nan


def _numbers(last: dict[str, list[Floats]], known: dict[str, tuple[Group, list[Floats]]], score: Score) -> Grid:
    kinds: Mapping[str, Callable[[Floats], Any]] = {
        "Mean": np.mean,
        "Worst decile": partial(worst_decile, score=score),
        "Median": np.median,
        "Best": lambda values: worst_first(values, score)[-1],
    }
    rows = []
    for name, values in last.items():
        held = [each for each in values if len(each)]
        cells = {title: plus_minus(*mean_std([float(of(each)) for each in held])) for title, of in kinds.items()}
        lowest = _order(known[name][1][0], score)
        told = ", ".join(map(str, lowest[:5].tolist()))
        rows.append({"Method": name, "Clients": str(len(held[0])), **cells, "Worst clients": told})
    return Grid("", rows, "± standard deviation over seeds; the worst clients are those of the first run.")


def _sorted_plot(known: dict[str, tuple[Group, list[Floats]]], score: Score) -> Block | None:
    traces = []
    for name, (group, finals) in known.items():
        if len(finals) == 1:
            x, y, said = _one_by_one(finals[0], score)
        else:
            x = np.linspace(0, 100, 101)
            y = np.mean([_at_shares(each[np.isfinite(each)], x / 100, score) for each in finals if len(each)], 0)
            said = [f"worst {share:.0f} % of clients (mean of {len(finals)} seeds)" for share in x]
        texts = [f"{words(name)}: {value:.3f}<br>{words(text)}" for value, text in zip(y, said, strict=True)]
        dots = {"mode": "lines+markers", "marker": {"size": 5}} if len(x) <= 60 else {"mode": "lines"}
        line = {"color": group.ink, "width": 2}
        traces.append(
            {
                "type": "scatter",
                "name": label(name),
                "x": rounded(x),
                "y": rounded(y),
                "line": line,
                "text": texts,
                "hoverinfo": "text",
                **dots,
            }
        )
    tenth = {"type": "rect", "xref": "x", "yref": "paper", "x0": 0, "x1": 10, "y0": 0, "y1": 1}
    shapes = [{**tenth, "fillcolor": tint("ink", 8), "line": {"width": 0}, "layer": "below"}]
    return plot(
        "",
        traces,
        "clients, worst first (%; the worst decile is shaded)",
        f"client {score.text}",
        shapes=shapes,
        xaxis={"range": [0, 100]},
    )


def _order(values: Floats, score: Score) -> NDArray[np.int64]:
    """Return the clients whose value is known, the worst first."""
    clients = np.flatnonzero(np.isfinite(values))
    return clients[np.argsort(values[clients] if score.higher else -values[clients], kind="stable")]


def _at_shares(values: Floats, shares: Floats, score: Score) -> Floats:
    """Return the value below which a share of the clients do worse."""
    found: Floats = np.quantile(values, shares if score.higher else 1 - shares)
    return found


def _one_by_one(values: Floats, score: Score) -> tuple[Floats, Floats, list[str]]:
    order = _order(values, score)
    chosen = thin(len(order), MOST)
    shares = 100 * (chosen + 0.5) / len(order)
    return shares, values[order][chosen], [f"client {client}" for client in order[chosen].tolist()]


def _histogram(
    known: dict[str, tuple[Group, list[Floats]]], last: dict[str, list[Floats]], score: Score
) -> Block | None:
    every = np.concatenate([values for each in last.values() for values in each])
    low, high = float(every.min()), float(every.max())
    edges = np.linspace(low, high if high > low else low + 1e-3, BINS + 1)
    middle, traces = (edges[1:] + edges[:-1]) / 2, []
    for name, values in last.items():
        counts = np.mean([np.histogram(each, edges)[0] for each in values], 0)
        traces.append(
            {
                "type": "bar",
                "name": label(name),
                "x": rounded(middle),
                "y": rounded(counts),
                "marker": {"color": known[name][0].ink},
            }
        )
    return plot("", traces, f"client {score.text}", "clients", barmode="group", bargap=0.1)


def _over_time(group: Group, score: Score) -> Block | None:
    """Return how the clients' accuracies spread out over a run: its first seed's."""
    moments = history(group.first)
    kept = np.isfinite(moments.accuracies).any(1)
    if kept.sum() < 2:
        return None
    values, x = moments.accuracies[kept], rounded(moments.updates[kept])
    low, middle, high = (rounded(np.nanpercentile(values, p, axis=1)) for p in (10, 50, 90))
    worst = rounded([worst_decile(row[np.isfinite(row)], score) for row in values])
    band: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "line": {"width": 0, "color": group.ink},
        "showlegend": False,
    }
    line: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": x}
    traces = [
        {**band, "y": low, "hoverinfo": "skip"},
        {
            **band,
            "y": high,
            "fill": "tonexty",
            "fillcolor": tint(group.ink, 18),
            "showlegend": True,
            "name": "10 % to 90 % of clients",
            "hoverinfo": "skip",
        },
        {**line, "y": middle, "name": "median client", "line": {"color": group.ink, "width": 2}},
        {**line, "y": worst, "name": "worst decile", "line": {"color": group.ink, "width": 2, "dash": "dash"}},
    ]
    return plot("", traces, "client updates", f"client {score.text}")
