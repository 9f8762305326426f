"""Cityscapes as Ekya makes a classification task of it: objects cut out of the frames."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from flcluster.datamodules.traces.manifest import ManifestLine, read_csv
from flcluster.errors import UserError

CLASSES = ["person", "car", "truck", "bus", "bicycle", "motorcycle"]
"""In the order of Ekya's numbers."""


SMALLEST = 50
"""Objects must be wider and higher than this, in pixels."""


PER_CLIENT = 100


SUFFIX = "_leftImg8bit.png"


_NAME = re.compile(r"(?P<city>.+)_(?P<sequence>\d{6})_(?P<frame>\d{6})_leftImg8bit\.png")


class Crop(NamedTuple):
    """An object in a frame; crops sort by city and time."""

    city: str
    sequence: int
    frame: int
    image: str
    order: int
    label: int
    box: str


def cityscapes(source: Path) -> tuple[list[ManifestLine], list[str]]:
    """Read Ekya's sample lists, or make the same from the annotations; a client is 100 successive objects of a city.

    Ekya's ``sample_lists/citywise/<city>_fine.csv`` has no header and the columns idx, imgpath (below ``leftImg8bit``),
    class, x0, y0, x1, y1. Without those lists, ``gtFine/{train,val}/<city>/*_gtFine_polygons.json`` is read by Ekya's
    rule: persons, cars, trucks, buses, bicycles and motorcycles whose bounding box is over 50 pixels wide and high.
    Within a city, objects follow each other by the sequence and frame numbers of ``<city>_<sequence>_<frame>`` in the
    file names.

    FIELDING has one client "per 100 consecutive frames per segment", 217 in all. The 3,475 annotated frames of 21
    cities make 43 such clients, so frames are taken here to mean cut-out objects, and segments cities; that is a guess,
    and ``cityscapes_frames`` is the other reading. Both layouts were read in Ekya's code, not in data.
    """
    return _rows(source, by_frame=False), CLASSES


def cityscapes_frames(source: Path) -> tuple[list[ManifestLine], list[str]]:
    """Read the same, but a client is the objects of 100 successive annotated frames of a city."""
    return _rows(source, by_frame=True), CLASSES


def _rows(source: Path, by_frame: bool) -> list[ManifestLine]:
    lists = sorted((source / "sample_lists" / "citywise").glob("*_fine.csv"))
    polygons = [p for s in ("train", "val") for p in sorted((source / "gtFine" / s).glob("*/*_gtFine_polygons.json"))]
    if lists:
        crops = sorted(crop for path in lists for crop in _listed(path))
    elif polygons:
        crops = sorted(crop for path in polygons for crop in _annotated(source, path))
    else:
        raise UserError(
            f"{source.resolve()} has neither sample_lists/citywise/*_fine.csv (Ekya) nor "
            "gtFine/{train,val}/*/*_gtFine_polygons.json beside leftImg8bit (Cityscapes)"
        )
    rows, city, count, last = [], "", 0, ""
    for crop in crops:
        if crop.city != city:
            city, count, last = crop.city, 0, ""
        count += not by_frame or crop.image != last
        last = crop.image
        time = str(crop.sequence * 10**6 + crop.frame)
        client = f"{city}_{(count - 1) // PER_CLIENT}"
        rows.append(ManifestLine(f"leftImg8bit/{crop.image}", CLASSES[crop.label], client, time, crop.box))
    return rows


def _crop(image: str, order: int, label: int, box: str) -> Crop:
    """Read city and time off the name of a frame."""
    found = _NAME.fullmatch(Path(image).name)
    if found is None:
        raise ValueError(f"{image} is not named <city>_<sequence>_<frame>{SUFFIX}")
    return Crop(found["city"], int(found["sequence"]), int(found["frame"]), image, order, label, box)


def _listed(path: Path) -> Iterator[Crop]:
    """Read one of Ekya's sample lists; classes above the six are left out, as Ekya does."""
    header = ("idx", "imgpath", "class", "x0", "y0", "x1", "y1")
    for line, (index, image, label, *box) in read_csv(path, header, header=header):
        if line == 1 and label == "class":
            continue
        try:
            edges = [float(edge) for edge in box]
            if int(label) < 0 or not all(map(math.isfinite, edges)):
                raise ValueError("the class must be at least 0, and x0, y0, x1, y1 finite numbers")
            if int(label) < len(CLASSES):
                yield _crop(image, int(index), int(label), " ".join(f"{edge:g}" for edge in edges))
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {error}") from error


def _annotated(source: Path, path: Path) -> Iterator[Crop]:
    """Cut the objects out of one annotated frame, by Ekya's rule."""
    stem = path.name.removesuffix("_gtFine_polygons.json")
    image = path.parent.relative_to(source / "gtFine") / f"{stem}{SUFFIX}"
    try:
        objects = json.loads(path.read_text(encoding="utf-8"))["objects"]
        for order, found in enumerate(objects):
            if found["label"] in CLASSES:
                x, y = zip(*found["polygon"], strict=True)
                if not all(map(math.isfinite, (*x, *y))):
                    raise ValueError(f"object {order} has a corner that is no finite number")
                if max(x) - min(x) > SMALLEST and max(y) - min(y) > SMALLEST:
                    box = f"{min(x)} {min(y)} {max(x)} {max(y)}"
                    yield _crop(image.as_posix(), order, CLASSES.index(found["label"]), box)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path} is no annotation of Cityscapes ({error!r})") from error
