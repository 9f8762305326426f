"""How alike the clients of a cluster are by different representations, while one global model trains (FIELDING)."""

import csv
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable
from torch import Tensor

from flcluster.clustering.distances import L1, L2
from flcluster.clustering.kmeans import Clusterer, KMeansBySilhouette
from flcluster.clustering.points import Points, shares
from flcluster.clustering.silhouette import mean_distances
from flcluster.engine.callbacks import Callback
from flcluster.errors import UserError, at_least
from flcluster.federation.federation import Federation
from flcluster.files import replacing
from flcluster.protocol import RoundAlgorithm
from flcluster.protocol.needs import CLASSES, FEATURES, GRADIENT, require
from flcluster.report.paper_tables import paper_table
from flcluster.report.tables import wide_console

from .representations import Gradient, LabelHistogram

ONE_MODEL = "needs a method with one global model, such as FedAvg"
COLUMNS = ("rounds", "clustering", "label_L1", "embedding_sqL2")


class HeterogeneityProbe(Callback):
    """After some rounds of one global model, cluster all clients by gradients and by labels and compare the clusters.

    Gradients and embeddings are those of the global model at that moment. Writes ``heterogeneity.csv`` into the run's
    directory and prints it at the end beside the paper's table.

    Args:
        rounds: When; each must be the end of a session (``engine.session``).
        clusterer: How clients are clustered.
        layer: Name prefix of the parameters whose gradient counts; null for all of them.
    """

    def __init__(self, rounds: list[int], clusterer: Clusterer | None = None, layer: str | None = "head") -> None:
        for at in rounds:
            at_least("rounds", at, 1, prefix="")
        self.rounds = rounds
        self.clusterer = clusterer or KMeansBySilhouette()
        self.gradient = Gradient(layer=layer)
        self.rows: list[dict[str, Any]] = []

    def on_fit_start(self, loop: Any) -> None:
        """Refuse rounds that would be passed over, and data and models that tell too little."""
        if not isinstance(loop.algorithm, RoundAlgorithm):
            raise UserError(f"callbacks: HeterogeneityProbe {ONE_MODEL}; this one has no rounds")
        require(loop.fed, "HeterogeneityProbe", CLASSES, FEATURES, GRADIENT)
        if missed := [at for at in self.rounds if at % loop.session]:
            told = f"no session ends there, engine.session is {loop.session}"
            raise UserError(f"callbacks: HeterogeneityProbe.rounds {missed}: {told}")

    def on_session_end(self, loop: Any, metrics: dict[str, float]) -> None:
        """Measure, if this is one of the rounds."""
        if loop.position not in self.rounds:
            return
        t, fed = loop.position - 1, loop.fed
        models = loop.algorithm.served(loop.state, t, fed).models
        if len(models) != 1:
            raise UserError(f"callbacks: HeterogeneityProbe {ONE_MODEL}")
        self.rows += [{"rounds": loop.position, **row} for row in self.measure(models[0], t, fed)]
        if fed.is_main:
            self._write(loop)

    def measure(self, model: Tensor, t: int, fed: Federation) -> list[dict[str, Any]]:
        """Return the mean distances of label shares and embeddings without clusters and in both kinds of clusters."""
        clients = fed.data.with_samples(t)
        labels = shares(fed.data.label_counts(clients, t))
        views = [fed.shard(client, t).train for client in clients.tolist()]
        embeddings = fed.represent(lambda worker, view: worker.features(model, view).mean(0), views)
        gradients = self.gradient.of(clients, t, model, fed)
        found = {
            "none": np.zeros(len(clients), dtype=np.int64),
            "gradient": self.clusterer.cluster(gradients, L2(), fed.seed, t).labels,
            "label": self.clusterer.cluster(LabelHistogram().of(clients, t, None, fed), L1(), fed.seed, t).labels,
        }
        return [
            {
                "clustering": name,
                "label_L1": float(mean_distances(labels, group, L1()).mean()),
                "embedding_sqL2": float(mean_squares(embeddings, group).mean()),
            }
            for name, group in found.items()
        ]

    def _write(self, loop: Any) -> None:
        with replacing(loop.run_dir / "heterogeneity.csv") as draft, open(draft, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows)

    def on_fit_end(self, loop: Any) -> None:
        """Print what was measured, and the paper's table."""
        if not loop.fed.is_main or not self.rows:
            return
        table = RichTable(*COLUMNS, title="Heterogeneity of clusters (OURS)")
        for row in self.rows:
            table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
        wide_console().print(table, paper_table("fielding_table7_heterogeneity"))

    def state_dict(self) -> dict[str, Any]:
        """What was measured so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.rows = list(state["rows"])


def mean_squares(points: Points, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each point's mean squared Euclidean distance to the others of its cluster; 0 for a point alone.

    Example:
        >>> mean_squares(np.array([[0.0], [1.0], [3.0]], dtype=np.float32), np.array([0, 0, 0])).tolist()
        [5.0, 2.5, 6.5]
    """
    out = np.zeros(len(points))
    for k in np.unique(labels):
        mine = labels == k
        x = points[mine].astype(np.float64)
        x = x - x.mean(0)  # distances stay, products get small
        square = (x**2).sum(1)
        total = len(x) * square + square.sum() - 2 * x @ x.sum(0)
        out[mine] = total / max(len(x) - 1, 1)
    return out
