"""A study's figures, drawn from its runs; ``None`` means that no run has anything to draw."""

import math

from matplotlib.figure import Figure

from flcluster.records.columns import column
from flcluster.report.curves import cluster_sizes
from flcluster.report.figures.bars import Bars, Values, bars_figure
from flcluster.report.figures.drift import draw_sizes
from flcluster.report.study.against import against_figure
from flcluster.report.study.file import Picture, Runs, Study
from flcluster.report.study.lines import difference_figure, lines_figure
from flcluster.report.study.looks import chosen, styles
from flcluster.report.study.series import grouped
from flcluster.report.study.values import known_means, printed_rows, score_of
from flcluster.report.style import hue


def draw(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw one figure of a study from the runs that are there."""
    kinds = {"lines": lines_figure, "difference": difference_figure, "sizes": sizes_figure, "bars": column_figure}
    kinds |= {"against": against_figure}
    return kinds[picture.kind](study, picture, runs)


def sizes_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Stack the clusters' sizes over rounds, a panel for each variant (its first seed)."""
    first = {name: runs[name][min(runs[name])] for name in chosen(study, picture, runs)}
    shown = {name: run for name, run in first.items() if len(cluster_sizes(run)[0])}
    if not shown:
        return None
    wide = len(shown) if len(shown) < 4 else math.ceil(len(shown) / math.ceil(len(shown) / 3))
    tall = math.ceil(len(shown) / wide)
    figure = Figure(figsize=(4.6 * wide + 0.4, 3.2 * tall + 0.6), layout="constrained")
    for at, (name, run) in enumerate(shown.items(), start=1):
        draw_sizes(figure.add_subplot(tall, wide, at), run, name)
    note = "each colour a cluster, numbered anew at a re-clustering (dotted line)"
    figure.suptitle(f"{picture.title or study.title}\n{note}", fontsize=11)
    return figure


def column_figure(study: Study, picture: Picture, runs: Runs) -> Figure | None:
    """Draw one column of the table as bars: one a variant, or in groups, where black marks are a paper's numbers."""
    (y,) = picture.columns
    values = known_means(study, runs, y)
    title, label = picture.title or study.title, column(y, score_of(runs)).label
    if not picture.groups:
        look = styles(study)
        plain = {name: {name: values[name]} for name in chosen(study, picture, runs) if name in values}
        faint = [name for name in look if look[name][1] == "--"]
        return bars_figure([Bars(title, label, plain)], {name: ink for name, (ink, _) in look.items()}, faint)
    bars = grouped(picture.of or list(study.variants), picture.groups)

    def placed(found: Values) -> dict[str, Values]:
        """Give every name its place in every group, also where it has no number."""
        none = (math.nan, math.nan)
        return {g: {n: found.get(bars[n].get(g, ""), none) for n in bars} for g in picture.groups}

    papers: dict[str, dict[str, tuple[float, float]]] = {}
    for variant in runs:
        for row in printed_rows(study, runs, variant):
            if row.metric == y:
                papers.setdefault(row.source, {})[variant] = row.mean, row.std
    marks = {paper: placed(said) for paper, said in papers.items()}
    return bars_figure([Bars(title, label, placed(values), marks)], {name: hue(i) for i, name in enumerate(bars)})
