"""Estimated against true mixtures of a run's uploads."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from flcluster.records.reader import Run, key_of
from flcluster.report.style import legend, shade, tidy


def mixtures_figure(run: Run) -> Figure | None:
    """Draw every upload's shares as points, and the last uploads' as pairs of stacked bars (true, estimated)."""
    true, estimate, clients, _ = shares(run)
    if not len(true):
        return None
    inks = [shade(k) for k in range(true.shape[1])]
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.8))
    _scatter(left, true, estimate, inks)
    _bar_pairs(right, true[-20:], estimate[-20:], clients[-20:], inks)
    legend(figure, [Patch(color=ink, label=f"cluster {k}") for k, ink in enumerate(inks)])
    figure.suptitle(run.label, fontsize=12)
    return figure


def shares(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return true and estimated shares ``[uploads, K]`` of the uploads that have both, their clients and numbers."""
    K = key_of(run.summary)[1]
    none = np.full(len(run.clients["client"]), math.nan)
    true, estimate = (np.stack([run.clients.get(f"{kind}_{k}", none) for k in range(K)], 1) for kind in ("true", "est"))
    known = (np.isfinite(true) & np.isfinite(estimate)).all(1)
    return true[known], estimate[known], run.clients["client"][known], run.clients.get("update", none)[known]


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
