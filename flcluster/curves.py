"""Columns of a run's metrics as curves: which points there are, what they are called, in which units."""

import math
from collections.abc import Iterable

import numpy as np

from flcluster.reading import Run

LABELS = {
    "epoch": "round",
    "update": "client trainings",
    "client_acc": "mean client accuracy",
    "client_acc_std": "accuracy's deviation across clients",
    "client_acc_last": "mean client accuracy (last 5 rows)",
    "client_acc_after": "client accuracy after the reply",
    "client_acc_before": "client accuracy before the reply",
    "clusters": "clusters",
    "delta": "threshold Δ",
    "reclusterings": "global re-clusterings so far",
    "heterogeneity": "mean client distance",
    "max_distance": "largest distance in a cluster",
    "p95_distance": "95th percentile of distances",
    "moved": "clients moved",
    "lost": "clients lost",
    "coordinator_seconds": "coordinator's time (s)",
    "report_bytes": "bytes of reports",
    "upload_bytes": "bytes sent by clients so far",
    "download_bytes": "bytes received by clients so far",
    "purity": "purity of assignments",
    "disagreement": "disagreement (mean squared distance)",
    "messages": "models sent so far",
    "isolated": "clients without a neighbour",
    "lost_messages": "models that never arrived so far",
    "message_age": "mean age of models when averaged",
    "ifca_style_acc": "client accuracy (model chosen by test loss)",
    "acc_global": "accuracy on the global test set",
    "acc_local": "accuracy on clients' own test data",
    "acc_global_dropouts": "dropouts' accuracy on the global test set",
    "acc_local_dropouts": "dropouts' accuracy on their own test data",
    "friend_acc_global": "friends' accuracy on the global test set",
    "friend_acc_local": "friends' accuracy on clients' own test data",
    "friend_acc_global_dropouts": "dropouts' friends on the global test set",
    "friend_acc_local_dropouts": "dropouts' friends on their own test data",
    "global_model_acc": "global model's accuracy",
    "generator_loss": "generator's loss",
    "algorithm.topology.p": "edge probability p",
    "algorithm.noise_dim": "dimensions of the generator's noise",
    "algorithm.per_class": "synthetic samples per class",
    "algorithm.interpolation": "interpolation coefficient λ",
    "data.partition.alpha": "Dirichlet α",
    "tta": "time to accuracy",
    "speedup": "speed-up (target = 1)",
    "gain": "accuracy gain (percentage points)",
}
"""What columns and settings are called in pictures."""


def label_of(column: str) -> str:
    """Return a column's name for an axis."""
    return LABELS.get(column, column.replace("_", " "))


def points(run: Run, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of a run's metrics where both were measured; nothing if one is absent."""
    none = np.full(len(run.metrics["update"]), math.nan)
    xs, ys = run.metrics.get(x, none), run.metrics.get(y, none)
    known = np.isfinite(xs) & np.isfinite(ys)
    return xs[known], ys[known]


def has(run: Run, column: str) -> bool:
    """Say whether a column of the metrics holds anything."""
    return bool(np.isfinite(run.metrics.get(column, np.empty(0))).any())


def counts_rounds(run: Run) -> bool:
    """Say whether a run's time only counts its rounds: no devices were simulated."""
    rounds, times = points(run, "epoch", "time")
    return bool((np.abs(times - rounds) <= 1).all())


def time_unit(runs: Iterable[Run]) -> tuple[float, str]:
    """Return what to divide times by, and the axis' label with its unit: s, min or h by the longest run."""
    runs = list(runs)
    if all(counts_rounds(run) for run in runs):
        return 1.0, "time (rounds)"
    longest = max(points(run, "time", "time")[0].max(initial=0.0) for run in runs)
    unit, name = (1.0, "s") if longest < 600 else (60.0, "min") if longest < 6 * 3600 else (3600.0, "h")
    return unit, f"simulated time ({name})"


def cluster_sizes(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds and sizes ``[clusters, rounds]`` of a run's clusters, without those never used."""
    none = np.full(len(run.metrics["update"]), math.nan)
    columns = sorted(
        (name for name in run.metrics if name.startswith("cluster_size_")), key=lambda name: int(name[13:])
    )
    rounds, sizes = run.metrics.get("epoch", none), np.nan_to_num(np.stack([none, *(run.metrics[n] for n in columns)]))
    rows = np.isfinite(rounds) & (sizes.sum(0) > 0)
    return rounds[rows], sizes[sizes.sum(1) > 0][:, rows]
