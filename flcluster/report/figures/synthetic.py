"""What AP-FL's generator draws of every class, and how good models are that are part friend and part own."""

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.records.reader import Run, read_columns
from flcluster.report.study.series import setting
from flcluster.report.style import OKABE_ITO, legend, panels, shade, tidy

Bools = NDArray[np.bool_]


ROWS, COLUMNS = 30, 12
"""Most classes, and most samples of each, that a picture shows."""


GAP = 2
"""Pixels between two samples."""


UNSEEN = OKABE_ITO[1]
"""Colour of the names of classes that no teacher held."""


SWEEP = ("client", "dropout", "friend_share", "acc_global", "acc_local")


PANELS = {"acc_global": "global test set", "acc_local": "clients' own test data"}


class Synthetic(NamedTuple):
    """Some synthetic samples of every class."""

    images: NDArray[np.uint8]
    """``[classes, samples, channels, height, width]``"""
    names: NDArray[np.str_]
    seen: Bools
    """Whether a teacher held the class."""


def synthetic_figure(run: Run) -> Figure | None:
    """Draw what ``synthetic.npz`` holds, a row of samples for each class; None for a run without the file."""
    path = run.path / "synthetic.npz"
    if not path.exists():
        return None
    held = read_synthetic(path)
    rows = shown_classes(held.seen)
    picture = mosaic(held.images[rows, :COLUMNS])
    figure = Figure(figsize=(8, 1.0 + 6.4 * len(picture) / picture.shape[1]), layout="compressed")
    axes = figure.subplots()
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.spines[:].set_visible(False)
    height = len(picture) / len(rows)
    names = [
        str(name) if held.seen[row] else f"{name} (unseen)" for row, name in zip(rows, held.names[rows], strict=True)
    ]
    axes.set(xticks=[], yticks=(np.arange(len(rows)) + 0.5) * height)
    axes.set_yticklabels(names, fontsize=9)
    axes.tick_params(length=0)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color("black" if held.seen[row] else UNSEEN)
    figure.suptitle(_title(run, len(rows), held.seen), fontsize=11)
    return figure


def _title(run: Run, rows: int, seen: Bools) -> str:
    said = [run.label, f"synthetic samples, semantics: {run.summary.get('semantics', 'unknown')}"]
    if not seen.all():
        said[1] += f"; {int((~seen).sum())} of {len(seen)} classes unseen in training"
    if rows < len(seen):
        said.append(f"{rows} of {len(seen)} classes: unseen ones first, the others evenly chosen")
    return "\n".join(said)


def shown_classes(seen: Bools, most: int = ROWS) -> NDArray[np.int64]:
    """Choose the classes to show: all, or else unseen ones first and then others, evenly by label.

    >>> shown_classes(np.array([True, True, False, True, True, True]), most=3).tolist()
    [2, 0, 5]
    """
    if len(seen) <= most:
        return np.arange(len(seen))
    unseen = _evenly(np.flatnonzero(~seen), most)
    return np.concatenate([unseen, _evenly(np.flatnonzero(seen), most - len(unseen))])


def _evenly(labels: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    if len(labels) <= most:
        return labels
    return labels[np.linspace(0, len(labels) - 1, most).round().astype(np.int64)]


def mosaic(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay samples ``[rows, columns, channels, height, width]`` out as one picture, grey or in colours."""
    rows, columns, channels, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=255)
    sheet = padded.transpose(0, 3, 1, 4, 2).reshape(rows * (height + GAP), columns * (width + GAP), channels)
    return sheet if channels == 3 else sheet[..., 0]


def read_synthetic(path: Path) -> Synthetic:
    """Read a run's ``synthetic.npz``; whatever is wrong with it is one message that names the file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = Synthetic(*(archive[name] for name in Synthetic._fields))
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise _broken(path, str(error)) from error
    if held.images.ndim != 5 or held.images.dtype != np.uint8 or 0 in held.images.shape:
        raise _broken(path, f"images are {held.images.dtype} {list(held.images.shape)}")
    if held.images.shape[2] not in (1, 3):
        raise _broken(path, f"images have {held.images.shape[2]} channels, not 1 or 3")
    classes = (len(held.images),)
    if held.names.shape != classes or held.seen.shape != classes or held.seen.dtype != np.bool_:
        raise _broken(path, f"{classes[0]} classes, but names {held.names.shape} and seen {held.seen.shape}")
    return held


def _broken(path: Path, why: str) -> UserError:
    return UserError(f"{path} cannot be drawn ({why}): restore the file, or delete it to do without {path.stem}.png")


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
        tidy(axes, where, "the friend's share", "mean accuracy")
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
    path = run.path / "config.yaml"
    try:
        config: Any = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read ({' '.join(str(error).split())}): restore it") from error
    names = ("interpolation", "reading", "dropout_interpolation")
    coefficient, reading, dropouts = (setting(config or {}, f"algorithm.{name}") for name in names)

    def share_of(value: float) -> float:
        return float(value) if reading != "literal" else 1 - float(value)

    if not isinstance(coefficient, int | float):
        return {}
    share = share_of(coefficient)
    found = {f"configured ({share:g})": share, f"the other reading ({1 - share:g})": 1 - share}
    if isinstance(dropouts, int | float):
        found[f"configured for dropouts ({share_of(dropouts):g})"] = share_of(dropouts)
    return found
