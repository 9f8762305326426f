"""The pictures of one run."""

from pathlib import Path

from flcluster.records.reader import Run
from flcluster.report.figures.accuracy import accuracy_over_time, mixtures
from flcluster.report.figures.drift import drift_figure
from flcluster.report.figures.network import network_figure
from flcluster.report.figures.synthetic import interpolation_figure, synthetic_figure
from flcluster.report.style import save


def run_pictures(run: Run) -> list[Path]:
    """Draw a run into its own directory; return the pictures that had something to show."""
    drawn = [accuracy_over_time([run], run.path / "accuracy.png"), mixtures(run, run.path / "mixtures.png")]
    others = {"drift": drift_figure, "network": network_figure}
    others |= {"synthetic": synthetic_figure, "interpolation": interpolation_figure}
    drawn += [save(figure(run), run.path / f"{name}.png") for name, figure in others.items()]
    return [path for path in drawn if path is not None]
