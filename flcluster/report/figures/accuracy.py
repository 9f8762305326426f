"""The papers' pictures, drawn from runs. ``*_figure`` builds and ``None`` means nothing to draw; the others save."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from flcluster.records.reader import Key, Run, family, key_of, number, order
from flcluster.report.curves import has
from flcluster.report.style import colour, legend, save, shade, tidy
from flcluster.report.summaries import mean_std, ratios, repeats

Values = Mapping[Key, tuple[float, float]]


def accuracy_over_time(runs: Sequence[Run], path: str | Path) -> Path | None:
    """Save clients' accuracy before and after the server's reply, and the clusters' models', over updates."""
    return save(accuracy_figure(runs), path)


def accuracy_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw one row of two panels for each dataset and K among the runs."""
    groups = repeats(run.summary for run in runs)
    settings = list(dict.fromkeys(key[:2] for key in groups))
    figure = Figure(figsize=(10, 3.9 * max(len(settings), 1) + 0.6), layout="constrained")
    for i, (dataset, K) in enumerate(settings):
        left, right = (figure.add_subplot(len(settings), 2, 2 * i + j) for j in (1, 2))
        here = [run for run in runs if key_of(run.summary)[:2] == (dataset, K)]
        if any(has(run, "acc_global") for run in here):
            _both_tests(left, right, dataset, here)
            continue
        tidy(left, f"{dataset}, K = {K}: clients", "updates (server epochs)", "client accuracy")
        tidy(right, f"{dataset}, K = {K}: cluster models", "updates (server epochs)", "mean cluster accuracy")
        for run in here:
            _client_lines(left, run)
            _line(right, run, "cluster_acc", "-")
        if not right.lines:
            right.text(0.5, 0.5, "no cluster models", transform=right.transAxes, ha="center", color="0.4")
            right.set(xticks=[], yticks=[])
    handles = [Line2D([], [], color=colour(m), linewidth=2, label=m) for m in dict.fromkeys(key[2] for key in groups)]
    grey = partial(Line2D, [], [], color="0.4")
    drawn = [str(line.get_label()).rpartition(" ")[2] for axes in figure.axes for line in axes.lines]
    handles += [grey(linewidth=2.2, label="mean over all clients")] if "client_acc" in drawn else []
    if {"acc_local_dropouts", "acc_global_dropouts"} & set(drawn):
        handles += [grey(linestyle="-", label="clients that stay"), grey(linestyle="--", label="dropouts")]
    if {"client_acc_after", "client_acc_before"} & set(drawn) or not {"client_acc", "acc_global"} & set(drawn):
        handles += [grey(linestyle="-", label="client after"), grey(linestyle="--", label="client before")]
    legend(figure, handles)
    return figure if drawn else None


def _both_tests(left: Axes, right: Axes, dataset: str, runs: Sequence[Run]) -> None:
    """Draw how good clients' models are on their own test data and on all classes alike, dropouts' dashed."""
    for axes, name, where in ((left, "acc_local", "clients' own test data"), (right, "acc_global", "global test set")):
        tidy(axes, f"{dataset}\n{where}", "updates (server epochs)", "mean accuracy")
        axes.title.set_fontsize(10)
        for run in runs:
            _line(axes, run, name, "-")
            _line(axes, run, f"{name}_dropouts", "--")


def _client_lines(axes: Axes, run: Run) -> None:
    """Draw what is known of the clients: all of them if they were measured, else those that uploaded."""
    if _line(axes, run, "client_acc", "-", linewidth=2.2):
        return
    single = family(run.summary["algorithm"]) == "Local"  # one accuracy: solid, whichever name it was recorded under
    if not (_line(axes, run, "client_acc_after", "-") and single):
        _line(axes, run, "client_acc_before", "-" if single else "--")


def _line(axes: Axes, run: Run, column: str, style: str, linewidth: float = 1.5) -> bool:
    x = run.metrics["update"]
    y = run.metrics.get(column, np.full(len(x), math.nan))
    if not (known := np.isfinite(x) & np.isfinite(y)).any():
        return False
    ink = colour(run.summary["algorithm"])
    marker = "o" if known.sum() < 3 else None
    label = f"{run.label}: {column}"
    axes.plot(x[known], y[known], style, color=ink, marker=marker, label=label, linewidth=linewidth)
    return True


def mixtures(run: Run, path: str | Path) -> Path | None:
    """Save estimated against true mixtures of the uploads that came with an estimate."""
    return save(mixtures_figure(run), path)


def mixtures_figure(run: Run) -> Figure | None:
    """Draw every upload's shares as points, and the last uploads' as pairs of stacked bars (true, estimated)."""
    K = key_of(run.summary)[1]
    none = np.full(len(run.clients["client"]), math.nan)
    true, estimate = (np.stack([run.clients.get(f"{kind}_{k}", none) for k in range(K)], 1) for kind in ("true", "est"))
    known = (np.isfinite(true) & np.isfinite(estimate)).all(1)
    if not known.any():
        return None
    inks = [shade(k) for k in range(K)]
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.8))
    _scatter(left, true[known], estimate[known], inks)
    last = np.flatnonzero(known)[-20:]
    _bar_pairs(right, true[last], estimate[last], run.clients["client"][last], inks)
    legend(figure, [Patch(color=ink, label=f"cluster {k}") for k, ink in enumerate(inks)])
    figure.suptitle(run.label, fontsize=12)
    return figure


def _scatter(axes: Axes, true: np.ndarray, estimate: np.ndarray, inks: Sequence[str]) -> None:
    tidy(axes, f"all {len(true)} uploads with an estimate", "true share", "estimated share")
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle=":")
    for k, ink in enumerate(inks):
        axes.scatter(true[:, k], estimate[:, k], s=14, color=ink, alpha=0.3 if len(true) > 200 else 0.8, linewidths=0)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")


def _bar_pairs(axes: Axes, true: np.ndarray, estimate: np.ndarray, clients: np.ndarray, inks: Sequence[str]) -> None:
    tidy(axes, f"last {len(true)}: true (left bar), estimated (right, hatched)", "client", "share")
    at = np.arange(len(true))
    for shares, shift, hatch in ((true, -0.2, None), (estimate, 0.2, "////")):
        floor = np.zeros(len(at))
        for k, ink in enumerate(inks):
            axes.bar(at + shift, shares[:, k], 0.38, floor, color=ink, hatch=hatch, edgecolor="white", linewidth=0.3)
            floor += shares[:, k]
    axes.set_xticks(at, [f"{client:.0f}" for client in clients], rotation=90 if len(at) > 10 else 0)
    axes.set(xlim=(-0.6, len(at) - 0.4), ylim=(0, 1.02))


def kl_per_method(runs: Sequence[Run], path: str | Path) -> Path | None:
    """Save the KL divergence from true to estimated mixtures, also relative to FedSoft-Async where that ran."""
    return save(kl_figure(runs), path)


def kl_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw mean KL over seeds as bars, one a method."""
    groups = repeats(run.summary for run in runs)
    values = {key: mean_std(number(s, "kl") for s in group) for key, group in groups.items()}
    units = {key: values.get((*key[:2], "FedSoft-Async"), (math.nan,))[0] for key in values}
    scaled = {key: (mean / units[key], std / units[key]) for key, (mean, std) in values.items() if units[key] > 0}
    ratio = ("KL relative to FedSoft-Async", "ratio (FedSoft-Async = 1)", scaled)
    return _bar_figure([("KL(true ‖ estimated mixture)", "KL (nats)", values), ratio])


def overheads(runs: Sequence[Run], path: str | Path) -> Path | None:
    """Save download and client computation per update relative to CDFL (to CCFL where CDFL was not run)."""
    return save(overheads_figure(runs), path)


def overheads_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw both overheads for each dataset and K that has a CDFL or CCFL run."""
    groups = repeats(run.summary for run in runs)
    bases = {"CDFL" if (*key[:2], "CDFL") in groups else "CCFL" for key in groups if key[2] in ("CDFL", "CCFL")}
    unit = f"ratio ({' or '.join(sorted(bases, reverse=True))} = 1)"
    titles = {"download_bytes": "Download per update", "client_compute": "Client computation per update"}
    values = {name: {key: mean_std(ratios(groups, key, name)) for key in groups} for name in titles}
    return _bar_figure([(title, unit, values[name]) for name, title in titles.items()])


def _bar_figure(panels: Sequence[tuple[str, str, Values]]) -> Figure | None:
    finite = [{key: pair for key, pair in values.items() if math.isfinite(pair[0])} for *_, values in panels]
    kept = [(title, unit, values) for (title, unit, _), values in zip(panels, finite, strict=True) if values]
    if not kept:
        return None
    keys = {key for *_, values in kept for key in values}
    width = max(4.5, 1 + 0.45 * (len(keys) + 1.4 * len({key[:2] for key in keys})))
    rows, columns = (1, len(kept)) if width < 9 else (len(kept), 1)
    figure = Figure(figsize=(width * columns, 3.6 * rows + 0.6), layout="constrained")
    for axes, (title, unit, values) in zip(figure.subplots(rows, columns, squeeze=False).flat, kept, strict=True):
        tidy(axes, title, "", unit)
        _bars(axes, values)
    legend(figure, [Patch(color=colour(m), label=m) for m in dict.fromkeys(k[2] for k in sorted(keys, key=order))])
    return figure


def _bars(axes: Axes, values: Values) -> None:
    at, ticks = 0.0, dict[str, list[float]]()
    for key, (mean, std) in sorted(values.items(), key=lambda item: order(item[0])):
        setting = f"{key[0]}\nK = {key[1]}"
        at += 1.0 if setting in ticks else 2.4
        ticks.setdefault(setting, []).append(at)
        error = std if math.isfinite(std) else None
        bar = axes.bar(at, mean, 0.85, color=colour(key[2]), label=key[2], yerr=error, capsize=3)
        axes.bar_label(bar, fmt="%.3g", fontsize=8)
    axes.set_xticks([float(np.mean(places)) for places in ticks.values()], list(ticks), fontsize=9)
    axes.margins(y=0.12)
