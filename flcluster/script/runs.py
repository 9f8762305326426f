"""What a script gets back of a run: its numbers, models and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from lightning import LightningModule

from flcluster import records
from flcluster.data import FederatedDataModule
from flcluster.engine.finished.saved import Saved
from flcluster.engine.process import is_main_process
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.script.untouched import untouched

if TYPE_CHECKING:
    from flcluster.engine.finished.predicting import Split


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
            return self._saved().module(cluster, client)

    def predict(
        self, data: Any = None, cluster: int | None = None, client: int | None = None, split: "Split" = "test"
    ) -> Any:
        """Return what a model's ``predict_step`` says of data, all batches joined.

        Args:
            data: A DataLoader, dataset, datamodule, tensor or array; if not given, the run's own data: the client's or
                the cluster's samples, or all where there is one model.
            cluster: Whose model: a cluster's.
            client: Whose model: a client's.
            split: Which samples of the run's own data: train, val or test.
        """
        from flcluster.engine.finished.predicting import Asked, predicted

        with untouched():
            return predicted(self._saved(), Asked(cluster, client, data, split))

    def _saved(self) -> Saved:
        """Read the run back, with what was given as objects."""
        return Saved.load(self.path, data=self.data, model=self.module, algorithm=self.algorithm)

    def figures(self) -> list[Path]:
        """Draw the run into its directory; return the pictures."""
        from flcluster.report.figures.of_run import run_pictures

        return run_pictures(self)

    def table(self) -> None:
        """Print the run beside what papers print of the same setting."""
        Runs([self]).table()

    def page(self, path: str | Path) -> Path:
        """Write the run as one page that opens in a browser without a network."""
        return Runs([self]).page(path)


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

    def significance(self) -> None:
        """Print paired tests of the final accuracy over the seeds that methods share, and say so if there is none."""
        from flcluster.report.report import print_significance

        print_significance(self._runs)

    def report(self, output: str | Path) -> list[Path]:
        """Write ``report.md``, ``report.csv`` and the figures of all runs into a folder; return what was written."""
        from flcluster.report.report import write_report

        return write_report(self._runs, output)

    def page(self, path: str | Path) -> Path:
        """Write all runs as one page that opens in a browser without a network; return where."""
        from flcluster.report.html.page import write_page

        return write_page(self._runs, path)


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
