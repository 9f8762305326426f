"""What a script gets back of a run: its numbers, models and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from lightning import LightningModule

from flcluster import records
from flcluster.data import FederatedDataModule
from flcluster.engine.saved import Saved
from flcluster.errors import UserError
from flcluster.federation.ranks import is_main_process
from flcluster.protocol.base import Algorithm
from flcluster.script.untouched import untouched


@dataclass(frozen=True, eq=False, repr=False)
class Run(records.Run):
    """A run: ``summary`` is a dict, ``metrics`` and ``clients`` are columns as NumPy arrays, by name."""

    data: FederatedDataModule | None = None
    """The data, where they were given as an object; else, like model and method, they are as ``config.yaml`` says."""
    module: LightningModule | None = None
    """The model as given, without what was learnt; see ``model``."""
    algorithm: Algorithm[Any] | None = None
    """The method, where it was given as an object."""

    @property
    def dir(self) -> Path:
        """The run's directory."""
        return self.path

    @property
    def status(self) -> str:
        """``finished``, or ``stopped: why``."""
        return str(self.summary["status"])

    @property
    def is_main(self) -> bool:
        """Whether this process is the one to print and draw; false in others that torchrun or SLURM started."""
        return is_main_process()

    def __repr__(self) -> str:
        return f"<{self.label}: {self.summary.get('updates')} updates, {self.status}, in {self.path}>"

    def frame(self, of: Literal["metrics", "clients"] = "metrics") -> Any:
        """Return the metrics (a row a session) or the clients' exchanges (a row an upload) as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise UserError(
                f"run.frame() needs pandas: pip install pandas; run.{of} has the same columns as NumPy arrays"
            ) from None
        return pandas.DataFrame(self.metrics if of == "metrics" else self.clients)

    def model(self, cluster: int | None = None, client: int | None = None) -> LightningModule:
        """Return a module with the weights of a cluster's model, of a client's, or of the only one there is."""
        with untouched():
            saved = Saved.load(self.path, data=self.data, model=self.module, algorithm=self.algorithm)
            return saved.module(cluster, client)

    def figures(self) -> list[Path]:
        """Draw the run into its directory; return the pictures."""
        from flcluster.report.figures.of_run import run_pictures

        return run_pictures(self)

    def table(self) -> None:
        """Print the run beside what papers print of the same setting."""
        Runs([self]).table()


class Runs(Sequence[Run]):
    """Several runs, in the order in which they were made."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> "Runs": ...

    def __getitem__(self, index: int | slice) -> "Run | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._runs))

    def table(self) -> None:
        """Print a row for each method, or for all runs that differ in their seeds, and what papers print of them."""
        from flcluster.report.report import print_tables

        print_tables(self._runs)

    def report(self, output: str | Path) -> list[Path]:
        """Write ``report.md``, ``report.csv`` and the figures of all runs into a folder; return what was written."""
        from flcluster.report.report import write_report

        return write_report(self._runs, output)


def load(
    run_dir: str | Path,
    *,
    data: FederatedDataModule | None = None,
    model: LightningModule | None = None,
    algorithm: Algorithm[Any] | None = None,
) -> Run:
    """Return a run of a directory, whoever made it.

    ``data``, ``model`` and ``algorithm`` are needed only for ``run.model()``, and only where ``config.yaml`` says under
    ``objects`` that it cannot tell them.
    """
    return replace(Run.load(run_dir), data=data, module=model, algorithm=algorithm)
