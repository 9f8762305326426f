"""Manifests: a CSV file that says of every image its label, its client and its time."""

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flcluster.datamodules.sources.checks import check_classes_told, whole_number
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError
from flcluster.files import read_text, replacing

NEEDED = ("image", "label", "client")


OPTIONAL = ("time", "box")


LATEST = 1e15
"""Times are below it, so that rounds can be counted."""


_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")


_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?(?:Z|[+-]00:?00)?")


class ManifestLine(NamedTuple):
    """One line of a manifest."""

    image: str
    """Path of the image file, relative to the manifest."""
    label: str
    """Name of the class, or its number from 0."""
    client: str
    """Any name."""
    time: str = ""
    """A number, or a date with or without a time of day (UTC); the order of lines if the column is missing."""
    box: str = ""
    """``left top right bottom`` in pixels of what is cut out of the image; all of it if empty."""


@dataclass(frozen=True, eq=False)
class Manifest:
    """A manifest as arrays, one entry a line."""

    path: Path
    images: list[str]
    boxes: list[str]
    labels: Ints
    clients: Ints
    """Clients by number, in the order in which they first appear."""
    times: NDArray[np.float64]
    """Numbers as they are; dates as days since 1970."""
    classes: list[str]
    client_names: list[str]
    lines: list[int]
    """Where each entry stands in the file."""

    def __len__(self) -> int:
        return len(self.images)


def classes_file(manifest: Path) -> Path:
    """Return where a manifest's class names lie, one a line in the order of their numbers."""
    return manifest.with_name(f"{manifest.stem}.classes.txt")


def write_manifest(path: Path, rows: Iterable[ManifestLine], classes: Sequence[str]) -> None:
    """Write a manifest and its class names."""
    with replacing(classes_file(path)) as draft:
        draft.write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(ManifestLine._fields)
        writer.writerows(rows)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; a line that cannot be used is named in the error."""
    found: list[ManifestLine] = []
    numbers: list[int] = []
    for number, values in read_csv(path, NEEDED, OPTIONAL):
        if not all(values[:3]):
            raise UserError(f"{path}, line {number}: image, label and client must not be empty")
        found.append(ManifestLine(*values))
        numbers.append(number)
    if not found:
        raise UserError(f"{path} has no images")
    images, labels, clients, times, boxes = (list(column) for column in zip(*found, strict=True))
    classes = _read_classes(path, labels, numbers)
    names = {name: i for i, name in enumerate(dict.fromkeys(clients))}
    return Manifest(
        path,
        images,
        boxes,
        _label_numbers(path, labels, classes, numbers),
        np.array([names[client] for client in clients], dtype=np.int64),
        _read_times(path, times, numbers),
        classes,
        list(names),
        numbers,
    )


def read_csv(
    path: Path, needed: Sequence[str], optional: Sequence[str] = (), header: Sequence[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the wanted columns of each line; ``header`` names the columns of a file without one."""
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""))
        names = list(header or next(reader, []))
        wanted = (*needed, *optional)
        if missing := [name for name in needed if name not in names]:
            raise UserError(f"{path} has no column {missing[0]!r}: it must have {','.join(needed)}")
        if twice := [name for name in wanted if names.count(name) > 1]:
            raise UserError(f"{path} has the column {twice[0]!r} more than once")
        places = [names.index(name) if name in names else -1 for name in wanted]
        for values in reader:
            if not values:
                continue
            if len(values) != len(names):
                raise UserError(f"{path}, line {reader.line_num}: {len(values)} values for {len(names)} columns")
            yield reader.line_num, [values[place].strip() if place >= 0 else "" for place in places]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from error


def parse_date(text: str) -> np.datetime64:
    """Return a moment from an ISO date, with or without a time of day; raises ValueError for anything else.

    >>> str(parse_date("2016-05-29T16:36:54Z"))
    '2016-05-29T16:36:54.000000'
    """
    return np.datetime64(_bare_date(text), "us")


def days_since_1970(moments: Any) -> Any:
    """Return moments as numbers of days."""
    return (moments - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")


def _bare_date(text: str) -> str:
    """Return a date as NumPy reads it, without a time zone."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date such as 2016-05-29 or 2016-05-29T16:36:54Z")
    return f"{found[1]}T{found[2]}" if found[2] else found[1]


def _read_classes(path: Path, labels: list[str], numbers: list[int]) -> list[str]:
    file = classes_file(path)
    if os.path.lexists(file):
        names = [line.strip() for line in read_text(file).splitlines() if line.strip()]
        if len(set(names)) != len(names) or not names:
            raise UserError(f"{file} must hold each class name once, one a line")
        return names
    told = [whole_number(label) for label in labels]
    if all(label is None for label in told) and not any(_NUMBER.fullmatch(label) for label in labels):
        return sorted(set(labels))
    for number, label, found in zip(numbers, labels, told, strict=True):
        if found is None:
            raise UserError(
                f"{path}, line {number}: the label {label!r} is no whole number from 0, but others are; names of "
                f"classes that look like numbers belong into {file.name}"
            )
        check_classes_told(found, f"{path}, line {number}", f"if it is no mistake, list the classes in {file.name}")
    return [str(i) for i in range(1 + max(label for label in told if label is not None))]


def _label_numbers(path: Path, labels: list[str], classes: list[str], numbers: list[int]) -> Ints:
    known = {name: i for i, name in enumerate(classes)}
    for label, number in zip(labels, numbers, strict=True):
        if label not in known:
            found = whole_number(label)
            if found is None or found >= len(classes):
                raise UserError(f"{path}, line {number}: there is no class {label!r} in {classes_file(path).name}")
            known[label] = found
    return np.array([known[label] for label in labels], dtype=np.int64)


def _read_times(path: Path, texts: list[str], numbers: list[int]) -> NDArray[np.float64]:
    """Read all times as numbers, or all as dates: the first line decides."""
    if not any(texts):
        return np.arange(len(texts), dtype=np.float64)
    dated = _DATE.fullmatch(texts[0]) is not None
    try:
        out = _read_dates(texts) if dated else np.array(texts, dtype=np.float64)
    except ValueError:
        bad = next(i for i, text in enumerate(texts) if not _reads(text, dated))
        kind = "date such as 2016-05-29 or 2016-05-29T16:36:54Z" if dated else "number"
        raise UserError(f"{path}, line {numbers[bad]}: the time {texts[bad]!r} is no {kind}") from None
    if len(wrong := np.flatnonzero(~(np.abs(out) < LATEST))):
        at = int(wrong[0])
        raise UserError(f"{path}, line {numbers[at]}: the time {texts[at]} is no number below {LATEST:g}")
    return out


def _read_dates(texts: list[str]) -> NDArray[np.float64]:
    days: NDArray[np.float64] = days_since_1970(np.array([_bare_date(text) for text in texts], dtype="datetime64[us]"))
    return days


def _reads(text: str, dated: bool) -> bool:
    try:
        parse_date(text) if dated else float(text)
    except ValueError:
        return False
    return True
