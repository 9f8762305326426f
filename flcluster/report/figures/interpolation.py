"""How good models are that are part friend and part own, against the friend's share."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.records.reader import Run, read_columns
from flcluster.report.study.series import setting
from flcluster.report.style import legend, panels, shade, tidy

SWEEP = ("client", "dropout", "friend_share", "acc_global", "acc_local")


PANELS = {"acc_global": "global test set", "acc_local": "clients' own test data"}


def interpolation_figure(run: Run) -> Figure | None:
    """Draw ``interpolation.csv``: accuracy against the friend's share; None for a run without the file.

    A line is the mean over the clients that stay, or over dropouts, with a band of one standard deviation.
    """
    path = run.path / "interpolation.csv"
    if not path.exists():
        return None
    try:
        columns = read_columns(path, SWEEP)
    except UserError as error:
        raise UserError(f"{error} Or delete the file to do without {path.stem}.png.") from error
    at = columns["friend_share"].round(9)
    places = np.unique(at[np.isfinite(at)])
    if not len(places):
        return None
    groups = {"clients that stay": columns["dropout"] == 0, "dropouts": columns["dropout"] == 1}
    figure, panes = panels(2)
    drawn: dict[str, Line2D] = {}
    marks = configured_shares(run)
    for axes, (column, where) in zip(panes, PANELS.items(), strict=True):
        tidy(axes, where, "the friend's share", f"mean {run.score.text}")
        axes.set_xticks(np.arange(len(places)), [f"{place:g}" for place in places])
        for i, (name, members) in enumerate(groups.items()):
            for line in _line(axes, places, at[members], columns[column][members], shade(i), name):
                drawn[name] = line
        drawn |= _marks(axes, places, marks)
    figure.suptitle(f"{run.label}: personal models, part friend, part own", fontsize=12)
    legend(figure, list(drawn.values()))
    return figure


def _line(
    axes: Axes, places: NDArray[np.float64], at: NDArray[np.float64], values: NDArray[np.float64], ink: str, name: str
) -> list[Line2D]:
    """Draw one group's mean at every place, with a band where it has several clients."""
    known = np.isfinite(values)
    groups = {x: values[known & (at == place)] for x, place in enumerate(places)}
    x = [place for place, group in groups.items() if len(group)]
    if not x:
        return []
    mean, std = (np.array([getattr(groups[place], kind)() for place in x]) for kind in ("mean", "std"))
    if max(len(groups[place]) for place in x) > 1:
        axes.fill_between(x, mean - std, mean + std, color=ink, alpha=0.18, linewidth=0)
    return list(axes.plot(x, mean, "-o", color=ink, linewidth=1.5, markersize=4, label=name))


def _marks(axes: Axes, places: NDArray[np.float64], marks: dict[str, float]) -> dict[str, Line2D]:
    """Draw vertical lines at shares that were tried."""
    drawn = {}
    for (name, share), style in zip(marks.items(), ("--", ":", "-."), strict=False):
        found = np.flatnonzero(np.isclose(places, share, atol=1e-9))
        if len(found):
            drawn[name] = axes.axvline(float(found[0]), color="0.35", linestyle=style, linewidth=1.2, label=name)
    return drawn


def configured_shares(run: Run) -> dict[str, float]:
    """Return the friend's share by this run's reading of the paper, by the other one, and dropouts' own if it is set.

    Nothing if it is not known.
    """
    names = ("interpolation", "reading", "dropout_interpolation")
    coefficient, reading, dropouts = (setting(run.settings or {}, f"algorithm.{name}") for name in names)

    def share_of(value: float) -> float:
        return float(value) if reading != "literal" else 1 - float(value)

    if not isinstance(coefficient, int | float):
        return {}
    share = share_of(coefficient)
    found = {f"configured ({share:g})": share, f"the other reading ({1 - share:g})": 1 - share}
    if isinstance(dropouts, int | float):
        found[f"configured for dropouts ({share_of(dropouts):g})"] = share_of(dropouts)
    return found
