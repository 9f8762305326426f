"""Lists of word vectors as word2vec, GloVe and fastText publish them, text or binary, read for a few words."""

import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError

from .vector_files import Vectors, unit_vectors

Vector = NDArray[np.float32]


Words = dict[str, Vector]


def name_vectors(path: Path, names: Sequence[str]) -> Vectors:
    """Return for each name the mean of its words' vectors, of length 1 each.

    A word is looked up as it is written, then in small letters, then in capitals (lists may leave out a small ``a`` as
    they do other words without meaning); a name whose words are not all in the list is refused.
    """
    words = {name: re.findall(r"\w+", name.replace("_", " ")) for name in names}
    known = read_words(path, {form for found in words.values() for word in found for form in _forms(word)})
    rows, missing = [], []
    for name in names:
        found = [next((known[form] for form in _forms(word) if form in known), None) for word in words[name]]
        if not found or any(vector is None for vector in found):
            missing.append(name)
        else:
            rows.append(np.mean([vector for vector in found if vector is not None], axis=0))
    if missing:
        raise UserError(f"{path} lacks words of the names {', '.join(missing)}: use other names, or another list")
    return unit_vectors(np.stack(rows), str(path))


def _forms(word: str) -> tuple[str, str, str]:
    return word, word.lower(), word.upper()


def read_words(path: Path, wanted: Collection[str]) -> Words:
    """Read the vectors of some words, of a list larger than memory too; a name with ``.bin`` in it says binary."""
    try:
        with _open(path) as file:
            return dict(_binary(file, wanted) if ".bin" in path.suffixes else _text(file, wanted))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: it must be a list of word vectors (.txt, .vec or .bin)") from None
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read as a list of word vectors ({error})") from error


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _text(file: BinaryIO, wanted: Collection[str]) -> Iterator[tuple[str, Vector]]:
    """Yield the entries of a text list: a word and its numbers a line; word2vec and fastText begin with two sizes."""
    width = None
    for at, raw in enumerate(file, start=1):
        line = raw.decode("utf-8", errors="replace").rstrip()
        if at == 1 and line.count(" ") == 1:
            width = int(line.split()[1])
            continue
        width = width or line.count(" ")
        word, *numbers = line.rsplit(" ", width)  # a few words of GloVe's have blanks in them
        if word in wanted:
            vector = np.array(numbers, dtype=np.float32)
            if len(vector) != width:
                raise ValueError(f"line {at} has {len(vector)} numbers instead of {width}")
            yield word, vector


def _binary(file: BinaryIO, wanted: Collection[str]) -> Iterator[tuple[str, Vector]]:
    """Yield the entries of word2vec's binary format: a word, a blank, and float32 numbers."""
    count, width = map(int, file.readline().split())
    for _ in range(count):
        word = b"".join(iter(lambda: _exactly(file, 1), b" ")).decode("utf-8", errors="replace").lstrip("\n")
        numbers = _exactly(file, 4 * width)
        if word in wanted:
            yield word, np.frombuffer(numbers, dtype="<f4")


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) < count:
        raise EOFError("it ends too early")
    return found
