"""What a generator draws of every class."""

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.records.reader import Run
from flcluster.report.style import OKABE_ITO

Bools = NDArray[np.bool_]


ROWS, COLUMNS = 30, 12
"""Most classes, and most samples of each, that a picture shows."""


GAP = 2
"""Pixels between two samples."""


UNSEEN = OKABE_ITO[1]
"""Colour of the names of classes that no teacher held."""


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
