"""Waymo Open as Ekya makes a classification task of it: one client a camera of a segment."""

from pathlib import Path

from flcluster.datamodules.traces.manifest import ManifestLine, read_csv
from flcluster.errors import UserError

CLASSES = ["vehicle", "pedestrian", "sign", "cyclist"]
"""In the order of Ekya's numbers; Waymo's own are one higher, with 0 for unknown."""


COLUMNS = ("image name", "class", "segment", "frame index", "camera name")


def waymo(source: Path) -> tuple[list[ManifestLine], list[str]]:
    """Read Ekya's sample lists of Waymo Open; a client is a camera of a segment, its time the frame index.

    ``source`` is Ekya's ``waymo_classification_images``: ``sample_lists/citywise/*_labels.csv`` with (among others) the
    columns image name, class, segment, frame index and camera name, and the cut-out objects as
    ``<segment>/<camera name>/<image name>``. The lists overlap (one of a whole city, others of some of its segments):
    an image counts once.

    Read in Ekya's code, not in data, and the code leaves open how classes are numbered: its reader demands 0 to 3, its
    writer puts down Waymo's 0 to 4. Numbers are taken as Waymo's if there is a 4 or no 0, else as 0 to 3 for vehicle,
    pedestrian, sign and cyclist; objects of unknown kind are left out. Which segments make up FIELDING's 212 clients
    is not published: all that the lists name are taken.
    """
    lists = sorted((source / "sample_lists" / "citywise").glob("*_labels.csv"))
    if not lists:
        raise UserError(f"{source.resolve()} has no sample_lists/citywise/*_labels.csv, which Ekya's scripts write")
    found = {row.image: row for path in lists for row in _listed(path)}
    numbers = {int(row.label) for row in found.values()}
    first = 1 if 4 in numbers or 0 not in numbers else 0
    rows = [row._replace(label=CLASSES[int(row.label) - first]) for row in found.values() if int(row.label) >= first]
    return sorted(rows, key=lambda row: (row.client, int(row.time), row.image)), CLASSES


def _listed(path: Path) -> list[ManifestLine]:
    rows = []
    for line, (image, label, segment, frame, camera) in read_csv(path, COLUMNS):
        try:
            if not 0 <= int(label) <= len(CLASSES):
                raise ValueError(f"there is no class {label}")
            if not (image and segment and camera):
                raise ValueError("image name, segment and camera name must be given")
            client = f"{segment}/{camera}"
            rows.append(ManifestLine(f"{client}/{image}", str(int(label)), client, str(int(frame))))
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {error}") from error
    return rows
