"""The pictures of one run."""

from pathlib import Path

from matplotlib.figure import Figure

from flcluster.records.reader import Run
from flcluster.report.figures.accuracy import accuracy_figure
from flcluster.report.figures.drift import drift_figure
from flcluster.report.figures.interpolation import interpolation_figure
from flcluster.report.figures.mixtures import mixtures_figure
from flcluster.report.figures.network import network_figure
from flcluster.report.figures.synthetic import synthetic_figure
from flcluster.report.style import inks, save
from flcluster.report.summaries import repeats


def accuracy_of(run: Run) -> Figure | None:
    """Draw one run's accuracies."""
    groups = repeats([run])
    return accuracy_figure(groups, inks(key[2] for key in groups))


FIGURES = {"accuracy": accuracy_of, "mixtures": mixtures_figure, "drift": drift_figure, "network": network_figure}


FIGURES |= {"synthetic": synthetic_figure, "interpolation": interpolation_figure}


def run_pictures(run: Run) -> list[Path]:
    """Draw a run into its own directory; return the pictures that had something to show."""
    drawn = [save(figure(run), run.path / f"{name}.png") for name, figure in FIGURES.items()]
    return [path for path in drawn if path is not None]
