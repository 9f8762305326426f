"""What a run leaves behind in numbers: clients.csv, metrics.csv and summary.json."""

import math
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from flcluster.records.csv_file import CsvFile
from flcluster.records.exchange import Exchange
from flcluster.records.population import Population, PopulationFile

REPLIES = ("client_acc_before", "client_acc_after")
"""Accuracies of clients before and after what they got back: a row has the mean over clients of each one's last."""


MEASURED = (*REPLIES, "client_acc_worst", "cluster_acc", "kl", "fresh_share", "deprecated_share")


TOTALS = ("refused", "undone", "upload_bytes", "download_bytes", "client_compute", "server_compute")


RECENT = 5


def worst_tenth(scores: ArrayLike, higher: bool = True) -> float:
    """Return the mean over the worst tenth of the clients, at least one of them; NaN where none was measured.

    >>> worst_tenth([0.9] * 18 + [0.25, 0.5])
    0.375
    """
    found = np.asarray(scores, dtype=np.float64)
    known = found[~np.isnan(found)] * (1 if higher else -1)
    count = max(1, len(known) // 10)
    worst = np.partition(known, count - 1)[:count].tolist() if len(known) else []  # cheaper than to sort all
    return (1 if higher else -1) * math.fsum(worst) / len(worst) if worst else math.nan


def known_mean(values: torch.Tensor) -> float:
    """Return the mean of what is known, NaN if nothing is."""
    return float(values[~values.isnan()].mean())


class Recorder:
    """Collects exchanges into files and running totals. Everything it must remember is in ``save``."""

    def __init__(
        self, num_clients: int, num_clusters: int, extra: tuple[str, ...], last: int = RECENT, phased: bool = False
    ) -> None:
        self.K, self.extra, self.last_rows, self.phased = num_clusters, extra, last, phased
        self.higher = True
        """Whether a higher score is better, and the worst therefore the lowest."""
        self.updates = 0
        self.totals = dict.fromkeys(TOTALS, 0)
        self.counts = {"fresh": 0, "deprecated": 0, "estimates": 0}
        self.kl_sum = 0.0
        self.last = torch.full((2, num_clients), torch.nan, dtype=torch.float64)
        self.cluster_sum, self.sessions = 0.0, 0
        self.cluster_last: float | None = None
        self.gauges: dict[str, float] = {}
        self.recent: list[float] = []
        """Accuracy over all clients at the last few sessions."""
        self.pending: dict[str, list[float]] = {}
        self.shown: dict[str, float] = {}
        self.population = PopulationFile()

    def open(self, folder: Path | None, positions: dict[str, Sequence[int]] | None) -> None:
        """Open the files, new or where a checkpoint left them; without a folder (other ranks) nothing is written."""
        K = range(self.K)
        per_client = "update,epoch,time,client,cycle,samples,staleness,status,fresh,label,acc_before,acc_after,loss,kl"
        columns = [*per_client.split(","), *(f"true_{k}" for k in K), *(f"est_{k}" for k in K)]
        session = [
            "update",
            "epoch",
            "time",
            *(["phase"] if self.phased else []),
            *MEASURED,
            *TOTALS,
            *self.extra,
            *(f"cluster_acc_{k}" for k in K),
        ]
        at = {name: (at,) if isinstance(at, int) else at for name, at in (positions or {}).items()}  # once a length
        self.clients = CsvFile(folder and folder / "clients.csv", columns, at.get("clients"))
        self.metrics = CsvFile(folder and folder / "metrics.csv", session, at.get("metrics"))
        self.population.open(folder, at.get("population"))

    def close(self) -> None:
        """Close the files that are open: a run may have failed before, or between them."""
        for name in ("clients", "metrics"):
            if hasattr(self, name):
                getattr(self, name).close()
        self.population.close()

    def add(self, exchange: Exchange, epoch: int) -> None:
        """Take in one exchange."""
        self.updates += 1
        self._totals(exchange)
        values = {
            "client_acc_before": exchange.acc_before,
            "client_acc_after": exchange.acc_after,
            "kl": exchange.kl,
            "fresh_share": float(exchange.fresh),
            "deprecated_share": float(exchange.status == "deprecated"),
            **(exchange.extra or {}),
        }
        for name, value in values.items():
            if not math.isnan(value):
                self.pending.setdefault(name, []).append(value)
        self._write_client(exchange, epoch)

    def _totals(self, exchange: Exchange) -> None:
        self.last[:, exchange.client] = torch.tensor([exchange.acc_before, exchange.acc_after], dtype=torch.float64)
        self.totals["refused"] += exchange.status == "refused"
        self.totals["undone"] += exchange.status == "undone"
        self.totals["upload_bytes"] += exchange.uploaded
        self.totals["download_bytes"] += exchange.downloaded
        self.totals["client_compute"] += exchange.client_compute
        self.totals["server_compute"] += exchange.server_compute
        self.counts["fresh"] += exchange.fresh
        self.counts["deprecated"] += exchange.status == "deprecated"
        if exchange.estimate is not None:
            self.counts["estimates"] += 1
            self.kl_sum += exchange.kl

    def _write_client(self, exchange: Exchange, epoch: int) -> None:
        row = {**vars(exchange), "update": self.updates, "epoch": epoch, "kl": exchange.kl}
        row["fresh"] = int(exchange.fresh)
        row |= {f"true_{k}": float(v) for k, v in enumerate(exchange.true)}
        if exchange.estimate is not None:
            row |= {f"est_{k}": float(v) for k, v in enumerate(exchange.estimate)}
        self.clients.write(row)

    def end_session(
        self, epoch: int, time: float, clusters: list[float], gauges: dict[str, float] | None = None, phase: str = ""
    ) -> dict[str, float]:
        """Write one row of metrics and return what loggers should get: all but the name of the phase."""
        self._keep(gauges or {})
        means = {name: sum(v) / len(v) for name, v in self.pending.items() if name not in REPLIES} | self._of_clients()
        if clusters:
            stood_for = [acc for acc in clusters if not math.isnan(acc)]  # fewer models than clusters leave some out
            means |= {f"cluster_acc_{k}": acc for k, acc in enumerate(clusters)}
            means["cluster_acc"] = self.cluster_last = sum(stood_for) / len(stood_for)
            if self.updates:
                self.cluster_sum, self.sessions = self.cluster_sum + self.cluster_last, self.sessions + 1
        means |= self.gauges
        row = {"update": self.updates, "epoch": epoch, "time": time, **means, **self.totals}
        self.metrics.write({**row, "phase": phase})
        self.flush()
        self.pending = {}
        self.shown = {**self.shown, **means}
        return {k: float(v) for k, v in row.items()}

    def _of_clients(self) -> dict[str, float]:
        """Return what is known of the clients after a session in which some were measured: as the summary has it."""
        found = {name: known_mean(row) for name, row in zip(REPLIES, self.last, strict=True) if name in self.pending}
        if REPLIES[1] in found:
            found["client_acc_worst"] = worst_tenth(self.last[1], self.higher)
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def meet(self, epoch: int, now: Population, everyone: bool) -> None:
        """Keep who is in which cluster: everyone, or those who moved."""
        self.population.write(self.updates, epoch, now, everyone)

    def flush(self) -> None:
        """Show readers of the files what is known, so that a run can be watched."""
        for file in (self.clients, self.metrics):
            file.flush()

    def _keep(self, gauges: dict[str, float]) -> None:
        self.gauges = gauges
        if not math.isnan(gauges.get("client_acc", math.nan)):
            self.recent = [*self.recent, gauges["client_acc"]][-self.last_rows :]

    def summary(self) -> dict[str, Any]:
        """Return the final numbers: clients at their last cycle, clusters at the end and on average."""
        n = max(self.updates, 1)

        def over_clients(row: int) -> tuple[float | None, float | None]:
            seen = self.last[row][~self.last[row].isnan()]
            return (known_mean(self.last[row]), float(seen.std(correction=0))) if len(seen) else (None, None)

        before, before_std = over_clients(0)
        after, after_std = over_clients(1)
        return {
            "updates": self.updates,
            "client_acc_before": before,
            "client_acc_before_std": before_std,
            "client_acc_after": after,
            "client_acc_after_std": after_std,
            "client_acc_worst": None if after is None else worst_tenth(self.last[1], self.higher),
            "cluster_acc": self.cluster_last,
            "cluster_acc_mean": self.cluster_sum / self.sessions if self.sessions else None,
            "kl": self.kl_sum / self.counts["estimates"] if self.counts["estimates"] else None,
            **self.totals,
            "fresh_share": self.counts["fresh"] / n,
            "deprecated_share": self.counts["deprecated"] / n,
            **{name: None if math.isnan(value) else value for name, value in self.gauges.items()},
            **({"client_acc_last": sum(self.recent) / len(self.recent)} if self.recent else {}),
        }

    def nothing_learnt(self) -> str | None:
        """Say so, and what the likely cause is, if no update was taken in."""
        lost = self.totals["refused"] + self.totals["undone"]
        if not self.updates or lost < self.updates:
            return None
        return (
            f"nothing was learnt: none of {self.updates} updates was taken in ({self.totals['refused']} refused, "
            f"{self.totals['undone']} undone), because numbers were not finite: try a lower learning rate (model.lr)"
        )

    def save(self) -> dict[str, Any]:
        """Return what a checkpoint must hold, file positions included."""
        names = ("updates", "totals", "counts", "kl_sum", "cluster_sum", "sessions", "cluster_last", "shown", "recent")
        kept: dict[str, Any] = {name: deepcopy(getattr(self, name)) for name in (*names, "last", "pending", "gauges")}
        kept["positions"] = {"clients": self.clients.position(), "metrics": self.metrics.position()}
        if (position := self.population.position) is not None:
            kept["positions"]["population"] = position
        return kept | {"population": self.population.save()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped (open the files with its positions)."""
        for name, value in saved.items():
            if name == "population":
                self.population.restore(value)
            elif name != "positions":
                setattr(self, name, value)
