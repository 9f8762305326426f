"""What the columns of a run's files, and the settings drawn against, are called and how they are shown: once."""

import math
from dataclasses import dataclass, replace

from flcluster.score import Score, is_score

LAST = "_last"
"""End of the name of a column that is the mean of another's last rows."""
TIME_TO = "time to "
"""Beginning of the name of a column that is the simulated time to another variant's final accuracy."""


@dataclass(frozen=True)
class Column:
    """A number that runs are told by; what is not said is made from its name."""

    name: str
    """In metrics.csv, summary.json, study files and the papers' tables alike."""
    title: str = ""
    """Head of a table's column."""
    label: str = ""
    """On the axis of a picture."""
    digits: int = 3
    whole: bool = False
    """Whether one run's number is whole, so that digits are for means alone."""
    scale: float = 1.0
    """What tables multiply it by: 100 for shares in per cent."""
    unit: str = ""
    """What follows the number in tables."""
    shown: bool = True
    """Whether a report's table has it; its CSV file, and a study that names it, have any column."""

    def __post_init__(self) -> None:
        plain = self.name.replace("_", " ")
        for field in ("title", "label"):
            object.__setattr__(self, field, getattr(self, field) or plain)

    def text(self, mean: float, std: float = math.nan, finer: int = 0, runs: int = 2) -> str:
        """Return the cell of a table for the mean of some runs; nothing for NaN.

        >>> column("fresh_share").text(0.75, 0.01), column("clusters").text(3, runs=1)
        ('75.0 ±1.0', '3')
        """
        digits = 0 if self.whole and runs == 1 else self.digits
        text = plus_minus(self.scale * mean, self.scale * std, digits, finer)
        return text and text + self.unit


def plus_minus(mean: float, std: float = math.nan, digits: int = 3, finer: int = 0) -> str:
    """Return ``mean ±std``, the deviation with some digits more; nothing for what is NaN."""
    spread = f" ±{std:.{digits + finer}f}" if math.isfinite(std) else ""
    return f"{mean:.{digits}f}{spread}" if math.isfinite(mean) else ""


_COLUMNS = (
    Column("acc_global", "Global test", "accuracy on the global test set"),
    Column("acc_local", "Local test", "accuracy on clients' own test data"),
    Column("friend_acc_global", "Friends, global test", "friends' accuracy on the global test set"),
    Column("friend_acc_local", "Friends, local test", "friends' accuracy on clients' own test data", shown=False),
    Column("acc_global_dropouts", "Dropouts, global test", "dropouts' accuracy on the global test set"),
    Column("acc_local_dropouts", "Dropouts, local test", "dropouts' accuracy on their own test data"),
    Column("friend_acc_global_dropouts", "Dropouts' friends, global test", "dropouts' friends on the global test set"),
    Column(
        "friend_acc_local_dropouts",
        "Dropouts' friends, local test",
        "dropouts' friends on their own test data",
        shown=False,
    ),
    Column("global_model_acc", "Global model", "global model's accuracy"),
    Column("client_acc", "Accuracy", "mean client accuracy"),
    Column("client_acc_std", label="accuracy's deviation across clients", shown=False),
    Column("client_acc_before", "Client before", "client accuracy before the reply"),
    Column("client_acc_after", "Client after", "client accuracy after the reply"),
    Column("client_acc_worst", "Worst 10 %", "accuracy of the worst tenth of clients"),
    Column("unseen_acc", "Unseen", "accuracy of clients that joined at the end"),
    Column("unseen_acc_worst", "Unseen, worst 10 %", shown=False),
    Column("cluster_acc", "Cluster", "mean cluster accuracy"),
    Column("cluster_acc_mean", "Cluster, mean over rows", shown=False),
    Column("ifca_style_acc", "Accuracy, IFCA style", "client accuracy (model chosen by test loss)", shown=False),
    Column("purity", "Purity", "purity of assignments"),
    Column("heterogeneity", "Heterogeneity", "mean client distance"),
    Column("reclusterings", "Re-clusterings", "global re-clusterings so far", digits=1, whole=True),
    Column("kl", "KL", "KL (nats)"),
    Column("fresh_share", "Fresh, %", digits=1, scale=100),
    Column("deprecated_share", "Depr., %", digits=1, scale=100),
    Column("download_ratio", "Download, ratio", digits=2),
    Column("wall_seconds", "Wall time, s", digits=0),
    Column("updates", "Updates", digits=1, whole=True, shown=False),
    Column("refused", "Refused", digits=1, whole=True, shown=False),
    Column("undone", "Undone", "rounds undone so far", digits=1, whole=True, shown=False),
    Column("clusters", "Clusters", digits=1, whole=True, shown=False),
    Column("lost", "Lost", "clients lost", digits=1, whole=True, shown=False),
    Column("moved", "Moved", "clients moved", digits=1, whole=True, shown=False),
    Column("changed", "Drifted", "clients whose data changed", digits=1, whole=True, shown=False),
    Column("splits", digits=1, whole=True, shown=False),
    Column("drifts", digits=1, whole=True, shown=False),
    Column("merges", digits=1, whole=True, shown=False),
    Column("requests", digits=1, whole=True, shown=False),
    Column("isolated", "Isolated", "clients without a neighbour", digits=1, whole=True, shown=False),
    Column("messages", "Models sent", "models sent so far", digits=0, shown=False),
    Column("lost_messages", "Models lost", "models that never arrived so far", digits=0, shown=False),
    Column("message_age", label="mean age of models when averaged", shown=False),
    Column("disagreement", "Disagreement", "disagreement (mean squared distance)", shown=False),
    Column("staleness", shown=False),
    Column("generator_loss", "Generator's loss", "generator's loss", shown=False),
    Column("distillation_loss", shown=False),
    Column("delta", label="threshold Δ", shown=False),
    Column("max_distance", label="largest distance in a cluster", shown=False),
    Column("p95_distance", label="95th percentile of distances", shown=False),
    Column("coordinator_seconds", "Coordinator, s", "coordinator's time (s)", shown=False),
    Column("upload_bytes", "Bytes sent", "bytes sent by clients so far", digits=0, shown=False),
    Column("download_bytes", "Bytes received", "bytes received by clients so far", digits=0, shown=False),
    Column("report_bytes", "Bytes of reports", "bytes of reports", digits=0, shown=False),
    Column("report_compute", digits=0, shown=False),
    Column("client_compute", digits=0, shown=False),
    Column("server_compute", digits=0, shown=False),
    Column("clamped", shown=False),
    Column("filtered", shown=False),
    Column("tta", "Time to target", "time to accuracy", digits=1),
    Column("speedup", "Speed-up", "speed-up (target = 1)", digits=2, unit="×"),
    Column("swing", "Change per session", digits=1, scale=100, unit=" points"),
    Column("gain", "Gain, points", "accuracy gain (percentage points)", digits=1),
    Column("target", "Target"),
    Column("epoch", label="round"),
    Column("update", label="client trainings"),
    Column("algorithm.topology.p", label="edge probability p"),
    Column("algorithm.noise_dim", label="dimensions of the generator's noise"),
    Column("algorithm.per_class", label="synthetic samples per class"),
    Column("algorithm.interpolation", label="interpolation coefficient λ"),
    Column("data.partition.alpha", label="Dirichlet α"),
)


COLUMNS = {column.name: column for column in _COLUMNS}
"""All that is known by name, in the order of a report's table; a method's own columns need no entry."""


def column(name: str, score: Score | None = None) -> Column:
    """Return how a column is shown, also one that no one has described, or the mean of its last rows.

    Where a run is scored by something else than accuracy, columns of the score are called by its name.

    >>> column("purity_last").title, column("my_loss").title
    ('Purity, last 5 rows', 'my loss')
    >>> rmse = Score("val_rmse", False)
    >>> column("client_acc", rmse).title, column("cluster_acc", rmse).title, column("client_acc_after", rmse).label
    ('val_rmse', 'Cluster, val_rmse', 'client val_rmse (lower is better) after the reply')
    """
    if name.startswith(TIME_TO):
        return Column(name, f"Time to {name.removeprefix(TIME_TO)}'s accuracy", digits=0, scale=1 / 60, unit=" min")
    if name in COLUMNS or not name.endswith(LAST):
        known = COLUMNS.get(name) or Column(name)
        return known if score is None or score.plain else _scored(known, score)
    rows = column(name.removesuffix(LAST), score)
    return replace(rows, name=name, title=f"{rows.title}, last 5 rows", label=f"{rows.label} (last 5 rows)")


def _scored(shown: Column, score: Score) -> Column:
    """Call a column of the score by the score's name; what is in percentage points otherwise is in the score's unit."""
    if shown.name == "gain":
        unit = ", points" if score.is_accuracy else f" in {score.name}"
        digits = shown.digits if score.is_accuracy else 3
        return replace(shown, title=f"Gain{unit}", label=f"gain{unit}", digits=digits)
    if shown.name == "tta":
        return replace(shown, label=f"time to {score.name}")
    if not is_score(shown.name) and not shown.name.endswith("acc_std"):
        return shown
    label = shown.label.replace("accuracy", score.text) if "accuracy" in shown.label else f"{shown.label}, {score.text}"
    named = "Accuracy" in shown.title
    title = shown.title.replace("Accuracy", score.name) if named else f"{shown.title}, {score.name}"
    return replace(shown, title=title, label=label)


SHOWN_SIZES = 10


POPULATION = (
    *("client_acc", "client_acc_std", "clusters", "purity", "heterogeneity", "lost"),
    *(f"cluster_size_{k}" for k in range(SHOWN_SIZES)),
)
"""What is measured of all clients together; sizes are shown of the first ten clusters."""
