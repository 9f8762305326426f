"""Harms that make a good folder bad: of any file, of columns, of JSON, of images, of arrays; and what must be noticed.

Every reader of ``good_data.recipes`` has a folder; every file of it can be harmed in every way that its kind allows.
A new reader is covered by its recipe, a new harm reaches all readers.
"""

import csv
import gzip
import io
import json
import pickle
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from good_data import Recipe, recipes
from PIL import Image

Harm = Callable[[Path, np.random.Generator], Any]
"""Harms a file; returns False if it could not (nothing of the kind is in it)."""

TEXT = ("csv", "json", "txt")


class Payload:
    """What a pickle that is opened would do: leave a file behind."""

    def __reduce__(self) -> Any:
        return (open, ("executed", "w"))


@dataclass(frozen=True)
class Case:
    """A folder and one harm."""

    recipe: Recipe
    file: str
    """The harmed file, relative to the folder."""
    harm: str
    must: bool
    """Whether a reader must notice; otherwise it cannot, or need not."""


def kind_of(file: str) -> str:
    """Return the format of a file, by its name."""
    name = Path(file).name
    if name.endswith("-ubyte"):
        return "idx"
    suffix = Path(file).suffix.lower().lstrip(".")
    return (
        suffix
        if suffix in ("bz2", "mat", "png", "jpg", "json", "csv", "npy", "npz", "pt", "pkl", "txt", "arrow")
        else "digest"
    )


# ------------------------------------------------------------------------------------------------------- any file


def _flipped(path: Path, rng: np.random.Generator) -> None:
    raw = bytearray(path.read_bytes())
    for at in rng.integers(0, len(raw), 16):
        raw[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(raw)


def _folder(path: Path, rng: np.random.Generator) -> None:
    path.unlink()
    path.mkdir()


def _linked(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _inserted(path: Path, rng: np.random.Generator, what: bytes) -> None:
    raw = path.read_bytes()
    at = int(rng.integers(1, max(len(raw) - 1, 2)))
    path.write_bytes(raw[:at] + what + raw[at:])


def _write(text: bytes) -> Harm:
    return lambda path, rng: path.write_bytes(text)


ANY: dict[str, Harm] = {
    "emptied": _write(b""),
    "halved": lambda path, rng: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a byte short": lambda path, rng: path.write_bytes(path.read_bytes()[:-1]),
    "ten bytes left": lambda path, rng: path.write_bytes(path.read_bytes()[:10]),
    "bits flipped": _flipped,
    "noise": lambda path, rng: path.write_bytes(rng.bytes(path.stat().st_size)),
    "zeros": lambda path, rng: path.write_bytes(bytes(path.stat().st_size)),
    "an error page": _write(b"<html><body><h1>404 Not Found</h1></body></html>\n" * 9),
    "a folder instead": _folder,
    "removed": lambda path, rng: path.unlink(),
    "a link to itself": lambda path, rng: _linked(path, path),
    "a link to nothing": lambda path, rng: _linked(path, path.with_name("gone")),
    "more at its end": lambda path, rng: path.write_bytes(path.read_bytes() + b"\n\0more"),
    "twice": lambda path, rng: path.write_bytes(path.read_bytes() * 2),
    "a pickle": lambda path, rng: path.write_bytes(pickle.dumps(Payload())),
    "packed": lambda path, rng: path.write_bytes(gzip.compress(path.read_bytes())),
}

OF_TEXT: dict[str, Harm] = {
    "UTF-16": lambda path, rng: path.write_bytes(path.read_text().encode("utf-16")),
    "a byte of Latin-1": lambda path, rng: _inserted(path, rng, b"\xe9"),
    "a zero byte": lambda path, rng: _inserted(path, rng, b"\0"),
}


# -------------------------------------------------------------------------------------------------------- columns

LONG = "9" * 5000

CELLS: dict[str, tuple[str, ...]] = {
    "number": ("nan", "inf", "-inf", "soon", "1e999"),
    "speed": ("nan", "inf", "0", "-1", "soon", "", "1e999"),
    "label": ("-1", "1000000000000", "soon", "nan", "1.5", "", LONG),
    "client": ("",),
    "time": ("nan", "inf", "soon", "1e999", "1e300", "2015-13-45", LONG),
    "image": ("", "gone.png", "../../../etc/hostname", "/etc/hostname", "a\tb.png"),
    "box": ("nan 0 4 4", "inf 0 4 4", "soon", "1 2 3", "4 4 1 1", "900 900 950 950"),
    "link": ("-1", "1000000000000", "soon", "nan", "1.5", "", "8", LONG),
    "count": ("soon", "nan", "1.5", "", LONG),
}
"""What each kind of column refuses."""


def _cell(column: int, value: str) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        rows = list(csv.reader(path.read_text().splitlines()))
        rows[int(rng.integers(1, len(rows)))][column] = value
        _save(path, rows)

    return harm


def _save(path: Path, rows: list[list[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue())


def _rows(change: Callable[[list[list[str]], int], Any]) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        rows = list(csv.reader(path.read_text().splitlines()))
        change(rows, int(rng.integers(1, len(rows))))
        _save(path, rows)

    return harm


def _lose_column(rows: list[list[str]], column: int) -> None:
    for row in rows:
        del row[column]


def _double_column(rows: list[list[str]], column: int) -> None:
    for row in rows:
        row.append(row[column])


def of_columns(recipe: Recipe, file: str, names: list[str]) -> Iterator[tuple[str, Harm]]:
    """Yield what can be done to the columns whose kind a recipe tells."""
    yield "a cell lost", _rows(lambda rows, at: rows[at].pop())
    yield "a cell more", _rows(lambda rows, at: rows[at].append("7"))
    roles = next((roles for end, roles in recipe.roles.items() if file.endswith(end)), {})
    for name, role in roles.items():
        column = names.index(name) if name in names else int(name) if name.isdigit() else -1
        for value in CELLS.get(role, ()) if column >= 0 else ():
            yield f"{name} is {value[:24]!r}", _cell(column, value)
        if column >= 0 and role not in ("time", "box", "word") and name in names and (name, role) != ("round", "count"):
            yield f"{name} lost", _rows(lambda rows, at, c=column: _lose_column(rows, c))
            yield f"{name} twice", _rows(lambda rows, at, c=column: _double_column(rows, c))
            yield f"{name} renamed", _rows(lambda rows, at, c=column: rows[0].__setitem__(c, "other"))


# ----------------------------------------------------------------------------------------------------- other kinds


def _document(text: str) -> Harm:
    return lambda path, rng: path.write_text(text)


def _leaf(value: Any, kind: type | tuple[type, ...]) -> Harm:
    """Replace a random part of a kind in a JSON document."""

    def harm(path: Path, rng: np.random.Generator) -> bool:
        document = json.loads(path.read_text())
        places: list[tuple[Any, Any]] = []

        def walk(node: Any) -> None:
            for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
                if isinstance(node[key], kind) and not isinstance(node[key], bool):
                    places.append((node, key))
                walk(node[key])

        walk(document)
        if places:
            node, key = places[int(rng.integers(len(places)))]
            node[key] = value
            path.write_text(json.dumps(document))
        return bool(places)

    return harm


def _lost(path: Path, rng: np.random.Generator) -> None:
    """Take one of the main keys out of a JSON document."""
    document = json.loads(path.read_text())
    del document[sorted(document)[int(rng.integers(len(document)))]]
    path.write_text(json.dumps(document))


JSON: dict[str, Harm] = {
    **{f"it is {text}": _document(text) for text in ("null", "[]", "{}", "7", '"text"', "NaN")},
    "it is deep": _document("[" * 100_000),
    "a key lost": _lost,
    **{f"a number is {value!r}": _leaf(value, (int, float)) for value in ("soon", None, float("nan"), [], 10**400)},
    **{f"a text is {value!r}": _leaf(value, str) for value in (None, 5, [], {})},
    **{f"a list is {value!r}": _leaf(value, list) for value in (None, 5, "soon", {})},
    **{f"an object is {value!r}": _leaf(value, dict) for value in (None, 5, [], "soon")},
}


def _patched(at: int, what: bytes) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        raw = bytearray(path.read_bytes())
        raw[at : at + len(what)] = what
        path.write_bytes(raw)

    return harm


def _label(path: Path, rng: np.random.Generator) -> bool:
    raw = bytearray(path.read_bytes())
    if raw[3] == 1:
        raw[int(rng.integers(8, len(raw)))] = 200
        path.write_bytes(raw)
    return raw[3] == 1


def _fewer(path: Path, rng: np.random.Generator) -> None:
    """Take the last item out of an idx file, header and all, as if it had never been there."""
    raw = path.read_bytes()
    count, *rest = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    size = int(np.prod(rest)) if rest else 1
    path.write_bytes(raw[:4] + struct.pack(">I", count - 1) + raw[8 : len(raw) - size])


IDX: dict[str, Harm] = {
    "a label is 200": _label,
    "an item less": _fewer,
    "wrong magic": _patched(0, b"\1\2\3\4"),
    "of floats": _patched(2, b"\x0d"),
    "one more told": _patched(7, b"\xf0"),
    "2^32 told": _patched(4, b"\xff\xff\xff\xff"),
    "none": lambda path, rng: path.write_bytes(
        path.read_bytes()[:4] + bytes(4) + path.read_bytes()[8 : 4 + 4 * path.read_bytes()[3]]
    ),
}


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """Return a PNG of a few bytes that tells of many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")
    )


PICTURE: dict[str, Harm] = {
    "a bomb": _write(bomb()),
    "of no size": _write(bomb(0, 0)),
    "PostScript": _write(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"),
    "16 bits": lambda path, rng: Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(path, format="PNG"),
}


def _lines(change: Callable[[list[str], int], Any]) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        import bz2

        lines = bz2.decompress(path.read_bytes()).decode().splitlines()
        change(lines, int(rng.integers(len(lines))))
        path.write_bytes(bz2.compress("\n".join(lines).encode()))

    return harm


def _instead(old: int, new: str) -> Harm:
    def change(lines: list[str], at: int) -> None:
        cells = lines[at].split()
        cells[old] = new
        lines[at] = " ".join(cells)

    return _lines(change)


BZ2: dict[str, Harm] = {
    **{
        f"a label is {value[:9]}": _instead(0, value)
        for value in ("0", "11", "-1", "1000000000000", "soon", "nan", "1.5", LONG)
    },
    **{f"a value is {value}": _instead(9, f"9:{value}") for value in ("nan", "inf", "soon", "3", "-1e999", "")},
    "an index is wrong": _instead(9, "900:1"),
    "a value lost": _lines(lambda lines, at: lines.__setitem__(at, lines[at].rpartition(" ")[0])),
    "an empty line": _lines(lambda lines, at: lines.insert(at, "")),
    "a bomb": lambda path, rng: path.write_bytes(__import__("bz2").compress(bytes(2**29))),
}


def _array(change: Callable[[np.ndarray], Any]) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        found = change(np.load(path))
        np.save(path, found, allow_pickle=True)

    return harm


def _set(found: np.ndarray, value: float) -> np.ndarray:
    found = found.astype(np.float32)
    found.reshape(-1)[len(found) // 2] = value
    return found


NPY: dict[str, Harm] = {
    "NaN": _array(lambda found: _set(found, np.nan)),
    "infinite": _array(lambda found: _set(found, np.inf)),
    "a row less": _array(lambda found: found[:-1]),
    "a row more": _array(lambda found: np.concatenate([found, found[:1]])),
    "objects": _array(lambda found: np.array([Payload()] * len(found), dtype=object)),
    "an archive": lambda path, rng: np.savez(path.open("wb"), a=np.ones(3)),
}


def _archive(change: Callable[[dict[str, Any], str], Any]) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        held = dict(np.load(path))
        change(held, max(held))
        np.savez(path, **held)

    return harm


NPZ: dict[str, Harm] = {
    "NaN": _archive(lambda held, name: held.update({name: held[name] * np.nan})),
    "zero": _archive(lambda held, name: held.update({name: held[name] * 0})),
    "shorter": _archive(lambda held, name: held.update({name: held[name][:-1]})),
    "objects": _archive(lambda held, name: held.update({name: np.array([Payload()], dtype=object)})),
    "words": _archive(lambda held, name: held.update({name: held[name].astype(str)})),
    "one lost": _archive(lambda held, name: held.pop(name)),
}


def _tensors(change: Callable[[dict[str, Any], str], Any], word: str = "") -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> bool:
        held = torch.load(path, weights_only=True)
        names = [name for name in sorted(held) if word in name and name != "files"]
        if names:
            change(held, names[int(rng.integers(len(names)))])
            torch.save(held, path)
        return bool(names)

    return harm


PT: dict[str, Harm] = {
    "one lost": _tensors(lambda held, name: held.pop(name)),
    "of no print": _tensors(lambda held, name: held.pop("files")),
    "shorter": _tensors(lambda held, name: held.update({name: held[name][:-1]})),
    "NaN": _tensors(lambda held, name: held.update({name: held[name].float() * torch.nan})),
    "a label is -1": _tensors(
        lambda held, name: held[name].long().__setitem__(0, -1) or held.update({name: -1 - held[name].long()}), "labels"
    ),
    "a label is 10^12": _tensors(lambda held, name: held.update({name: held[name].long() + 10**12}), "labels"),
    "bounds turned": _tensors(lambda held, name: held.update({name: held[name].flip(0)}), "bounds"),
    "it is a list": lambda path, rng: torch.save([1, 2], path),
    "it is a module": lambda path, rng: torch.save(torch.nn.Linear(1, 1), path),
}


def _entry(change: Callable[[dict[str, Any]], Any]) -> Harm:
    def harm(path: Path, rng: np.random.Generator) -> None:
        held = pickle.loads(path.read_bytes())
        change(held[max(held)])
        path.write_bytes(pickle.dumps(held))

    return harm


def _first(entry: dict[str, Any], value: Any) -> None:
    """Replace the first number that an entry holds."""
    name = min(entry)
    if isinstance(entry[name], list):
        entry[name] = [value, *entry[name][1:]]
    else:
        entry[name] = value


PKL: dict[str, Harm] = {
    **{f"a number is {str(value)[:9]}": _entry(lambda entry, v=value: _first(entry, v)) for value in
       (float("nan"), float("inf"), None, "soon", [], 10**400)},
    "a key lost": _entry(lambda entry: entry.pop(min(entry))),
    "a list": lambda path, rng: path.write_bytes(pickle.dumps([1, 2, 3])),
    "nobody": lambda path, rng: path.write_bytes(pickle.dumps({})),
}  # fmt: skip


def _fewer_names(path: Path, rng: np.random.Generator) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")


TXT: dict[str, Harm] = {
    "a line less": _fewer_names,
    "a line without a name": lambda path, rng: path.write_text(path.read_text().replace("\n", "\n\n", 1)),
}

OF_KIND: dict[str, dict[str, Harm]] = {
    "idx": IDX,
    "json": JSON,
    "png": PICTURE,
    "jpg": PICTURE,
    "bz2": BZ2,
    "npy": NPY,
    "npz": NPZ,
    "pt": PT,
    "pkl": PKL,
    "txt": TXT,
}

# --------------------------------------------------------------------------------------------- what must be noticed

BLIND: dict[str, tuple[str, ...]] = {
    "idx": ("bits flipped",),  # no checksum
    "csv": ("bits flipped", "halved", "a byte short"),  # what is left may be a table
    "json": ("bits flipped", "a byte short"),
    "txt": ("bits flipped", "halved", "a byte short", "removed"),  # names of anything; classes need no names
    "jpg": ("bits flipped", "removed", "halved"),  # no checksum; and a folder has as many images as it has
    "png": ("removed",),
    "npy": ("bits flipped",),
    "pkl": ("bits flipped",),
    "bz2": ("twice",),  # twice as many samples
    "arrow": ("bits flipped",),
}
"""Harms that no reader could notice, by the kind of file. Where numbers are right all the same, nobody need notice."""


def is_read(recipe: Recipe, file: str) -> bool:
    """Whether a reader opens a file at all: converters only look whether an image is there."""
    return not (recipe.name.startswith("convert") and kind_of(file) in ("png", "jpg"))


def harms(recipe: Recipe, file: str, folder: Path) -> dict[str, Harm]:
    """Return what can be done to a file of a good folder."""
    kind = kind_of(file)
    if not is_read(recipe, file):
        return {name: ANY[name] for name in ("removed", "a folder instead", "a link to itself", "a link to nothing")}
    found = {**ANY, **(OF_TEXT if kind in TEXT else {}), **OF_KIND.get(kind, {})}
    if kind == "csv":
        names = next(csv.reader((folder / file).read_text().splitlines()))
        found |= dict(of_columns(recipe, file, names))
    return {name: harm for name, harm in found.items() if not recipe.only or name in recipe.only}


def must(recipe: Recipe, file: str, harm: str) -> bool:
    """Whether a harm must be noticed."""
    if not is_read(recipe, file):
        return True
    if recipe.name.startswith("convert") and kind_of(file) == "json" and harm == "removed":
        return False  # an image without metadata is left out
    return harm not in BLIND.get(kind_of(file), ())


def all_cases(folders: dict[str, Path]) -> dict[str, list[Case]]:
    """Return every case, by its recipe; ``folders`` are the good ones."""
    return {recipe.name: cases_of(recipe, folders[recipe.name]) for recipe in recipes()}


def cases_of(recipe: Recipe, folder: Path) -> list[Case]:
    """Return every case of one good folder."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [
        Case(recipe, file, harm, must(recipe, file, harm)) for file in files for harm in harms(recipe, file, folder)
    ]


def drawn(count: int, seed: int, folders: dict[str, Path]) -> list[Case]:
    """Return some cases, the same for a seed: one of each recipe in turn, new harms first."""
    rng = np.random.default_rng(seed)
    queues = []
    for cases in all_cases(folders).values():
        order = [cases[i] for i in rng.permutation(len(cases)).tolist()]
        times: dict[tuple[str, str], int] = defaultdict(int)
        ranked = []
        for case in order:
            key = (kind_of(case.file), case.harm)
            times[key] += 1
            ranked.append((times[key], case))
        queues.append([case for _, case in sorted(ranked, key=lambda each: each[0])])
    turns = [(at, q, case) for q, queue in enumerate(queues) for at, case in enumerate(queue)]
    return [case for _, _, case in sorted(turns, key=lambda each: each[:2])[:count]]
