"""Manifests from the files that datasets are published as."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from flcluster.datamodules.sources.checks import stays_inside
from flcluster.datamodules.traces.convert.cityscapes import cityscapes, cityscapes_frames
from flcluster.datamodules.traces.convert.fmow import fmow
from flcluster.datamodules.traces.convert.open_images import open_images
from flcluster.datamodules.traces.convert.waymo import waymo
from flcluster.datamodules.traces.manifest import ManifestLine, classes_file, write_manifest
from flcluster.errors import UnwritableError, UserError

Converter = Callable[[Path], tuple[list[ManifestLine], list[str]]]
"""Reads a dataset's folder; returns rows whose images are relative to that folder, and the class names."""


KINDS: dict[str, Converter] = {
    "fmow": fmow,
    "cityscapes": cityscapes,
    "cityscapes_frames": cityscapes_frames,
    "waymo": waymo,
    "open_images": open_images,
}


def convert(kind: str, source: str | Path, output: str | Path) -> Path:
    """Write the manifest of a dataset, and the names of its classes beside it.

    Args:
        kind: Which dataset: fmow, cityscapes, cityscapes_frames, waymo or open_images.
        source: The folder that holds its files.
        output: The CSV file to write. It names images relative to itself, so it may not be moved without them.

    Returns:
        The manifest that was written.
    """
    if kind not in KINDS:
        raise UserError(f"there is no converter for {kind!r}: choose from {', '.join(KINDS)}")
    source, output = Path(source).expanduser(), Path(output).expanduser()
    if not source.is_dir():
        raise UserError(f"there is no folder {source.resolve()}")
    if output.suffix.lower() != ".csv":
        raise UserError(f"the output {output} must be a .csv file")
    rows, classes = KINDS[kind](source)
    if not rows:
        raise UserError(f"nothing in {source.resolve()} could be used for {kind}")
    _check_images(source, rows)
    try:
        away = os.path.relpath(source.resolve(), output.parent.resolve())
        write_manifest(output, (row._replace(image=_join(away, row.image)) for row in rows), classes)
    except (UnwritableError, OSError) as error:
        raise UserError(f"cannot write {output} and {classes_file(output).name} ({error})") from error
    return output


def _join(folder: str, image: str) -> str:
    return Path(os.path.normpath(os.path.join(folder, image))).as_posix()


def _check_images(source: Path, rows: Iterable[ManifestLine]) -> None:
    """Refuse to write a manifest that could not be used."""
    for image in dict.fromkeys(row.image for row in rows):
        if not stays_inside(os.path.join(source, image), source):
            raise UserError(f"the metadata in {source} name the image {image}, which lies outside: take it out of them")
        if not (source / image).is_file():
            raise UserError(f"the image {source / image} is missing: put it there, or take it out of the metadata")
