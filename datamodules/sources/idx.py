"""Files of MNIST's format (idx), looked at before they are read: no reader of theirs compares images with labels."""

import struct
from pathlib import Path

from flcluster.errors import UserError

from .checks import check_counts


def check_idx(images: Path, labels: Path) -> None:
    """Refuse a broken file, and one that does not belong to the other; what is missing is told elsewhere."""
    if images.is_file() and labels.is_file():
        check_counts(_shape(images, 3)[0], _shape(labels, 1)[0], f"{images} and {labels.name}")


def _shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """Return the shape that a header tells, which the file's size must agree with."""
    length = 4 * (1 + dimensions)
    try:
        with path.open("rb") as file:
            header = file.read(length)
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})") from error
    if len(header) < length or header[:4] != bytes([0, 0, 8, dimensions]):
        raise UserError(f"{path} is no idx file of bytes in {dimensions} dimensions: replace it")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    told = 1
    for number in shape:
        told *= number
    if size != length + told:
        told_as = " x ".join(map(str, shape))
        raise UserError(f"{path} is broken: it tells of {told_as} bytes, but {size - length} follow: replace it")
    return shape
