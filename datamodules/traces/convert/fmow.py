"""Functional Map of the World: one client a UTM zone, days from 2015 on (FIELDING's setting)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flcluster.datamodules.traces.manifest import ManifestLine, parse_date, read_csv
from flcluster.errors import UserError

START = np.datetime64("2015-01-01")


BANDS = "CDEFGHJKLMNPQRSTUVWX"
"""Letters of the latitude bands, 8 degrees each from 80 degrees south."""


_ZONE = re.compile(r"([1-9]|[1-5]\d|60)[C-HJ-NP-X]")


def fmow(source: Path) -> tuple[list[ManifestLine], list[str]]:
    """Read FMoW as WILDS publishes it, or as fMoW-rgb.

    WILDS (``fmow_v1.1``): ``rgb_metadata.csv`` with the columns split, category, timestamp, lat and lon, and
    ``images/rgb_img_<row>.png``, counted from 0; sequestered rows are left out as WILDS does. It has no UTM zone, so
    that is worked out from the coordinates.
    fMoW-rgb: ``{train,val}/<category>/<place>/*_rgb.json`` with the keys timestamp, utm and bounding_boxes, beside the
    images ``*_rgb.jpg``; the whole image is taken, labelled with its first box that is no false detection.

    Both layouts were read in the publishers' code, not in their data. Classes are all categories that occur, by name.
    """
    table = source / "rgb_metadata.csv"
    folders = [source / split for split in ("train", "val") if (source / split).is_dir()]
    if table.is_file():
        found = list(_wilds(table))
    elif folders:
        found = [
            row for folder in folders for path in sorted(folder.rglob("*_rgb.json")) for row in _place(source, path)
        ]
    else:
        raise UserError(f"{source.resolve()} has neither rgb_metadata.csv (WILDS) nor the folders train and val (fMoW)")
    rows = [row for row in found if parse_date(row.time) >= START]
    return sorted(rows, key=lambda row: (row.client, row.time, row.image)), sorted({row.label for row in found})


def utm_zone(latitude: float, longitude: float) -> str:
    """Return the UTM zone and latitude band of a place, with the exceptions for Norway and Svalbard.

    >>> utm_zone(48.85, 2.35), utm_zone(60.4, 5.3), utm_zone(-33.9, 151.2)
    ('31U', '32V', '56H')
    """
    band = BANDS[min(max(int((latitude + 80) // 8), 0), len(BANDS) - 1)]
    zone = int((longitude + 180) // 6) % 60 + 1
    if band == "V" and zone == 31 and longitude >= 3:
        zone = 32
    elif band == "X" and 0 <= longitude < 42:
        zone = 31 + 2 * int((longitude + 3) // 12)
    return f"{zone}{band}"


def _wilds(table: Path) -> Iterator[ManifestLine]:
    columns = ("split", "category", "timestamp", "lat", "lon")
    for index, (line, (split, category, timestamp, *place)) in enumerate(read_csv(table, columns)):
        if split == "seq":
            continue
        try:
            latitude, longitude = map(float, place)
            if not category or not (abs(latitude) <= 90 and abs(longitude) <= 180):
                raise ValueError("category, lat (-90 to 90) and lon (-180 to 180) must be given")
            parse_date(timestamp)
        except ValueError as error:
            raise UserError(f"{table}, line {line}: {error}") from error
        yield ManifestLine(f"images/rgb_img_{index}.png", category, utm_zone(latitude, longitude), timestamp)


def _place(source: Path, path: Path) -> Iterator[ManifestLine]:
    """Read the metadata file of one image; an image of false detections only is left out."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        boxes: list[dict[str, Any]] = held["bounding_boxes"]
        found = [box["category"] for box in (boxes if isinstance(boxes, list) else [boxes])]
        parse_date(held["timestamp"])
        image, zone = path.with_suffix(".jpg").relative_to(source).as_posix(), held["utm"].strip().upper()
        if not all(isinstance(category, str) and category for category in found) or not _ZONE.fullmatch(zone):
            raise ValueError(f"categories must be words, and utm a zone such as 31U, not {held['utm']!r}")
        for category in [category for category in found if category != "false_detection"][:1]:
            yield ManifestLine(image, category, zone, held["timestamp"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is no metadata of fMoW with timestamp, utm and a category ({error!r})") from error
