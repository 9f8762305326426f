"""Who is linked with whom, as text: what a run leaves behind in edges.csv, and lists of links that users bring."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError

Edges = NDArray[np.int64]
"""Links ``[E, 2]``: ``i < j`` in every row, rows sorted, each link once, read-only."""


COLUMNS = ("round", "source", "target")


def as_edges(pairs: Iterable[tuple[int, int]]) -> Edges:
    """Bring links into the one order that all draws and files rely on; a link of a client with itself is left out.

    >>> as_edges([(2, 1), (0, 2), (1, 2), (1, 1)]).tolist()
    [[0, 2], [1, 2]]
    """
    edges = np.sort(np.array(list(pairs), dtype=np.int64).reshape(-1, 2), axis=1)
    edges = np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)
    edges.setflags(write=False)
    return edges


def table_text(graphs: Iterable[tuple[int, Edges]]) -> str:
    """Write the links of some rounds as CSV.

    >>> table_text([(0, as_edges([(0, 1)])), (9, as_edges([(0, 2)]))])
    'round,source,target\\n0,0,1\\n9,0,2\\n'
    """
    lines = [f"{t},{i},{j}" for t, edges in graphs for i, j in edges.tolist()]
    return "\n".join([",".join(COLUMNS), *lines]) + "\n"


def read_graphs(path: Path, clients: int | None = None) -> dict[int, Edges]:
    """Read the links of each round that a file names, earliest first; 0 for a file that names no rounds.

    A line is a pair of client numbers with blanks, a comma or a tab between them; or the file is a CSV whose header
    has the columns source and target, and perhaps round. ``#`` starts a comment. With ``clients``, numbers must be
    below it.
    """
    lines = [(at, _cells(line)) for at, line in enumerate(_text(path).splitlines(), start=1)]
    lines = [(at, cells) for at, cells in lines if cells]
    if not lines:
        raise UserError(f"{path} holds no links: write the numbers of two clients on each line")
    header = [cell.lower() for cell in lines[0][1]]
    named = {"source", "target"} <= set(header)
    graphs: dict[int, list[tuple[int, int]]] = {} if named and "round" in header else {0: []}
    for at, cells in lines[named:]:
        t, i, j = _row(f"{path}, line {at}", cells, header if named else None)
        _check(f"{path}, line {at}", i, j, clients)
        graphs.setdefault(t, []).append((i, j))
    return {t: as_edges(graphs[t]) for t in sorted(graphs)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: it must be a list of links, two clients a line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): it must be a text file of links, two clients a line"
        ) from error


def _cells(line: str) -> list[str]:
    """Part a line at its comma or tabs, or else at blanks; an empty list for a blank line."""
    line = line.partition("#")[0].strip()
    if "," in line:
        return [cell.strip() for cell in next(csv.reader([line]))]
    return re.split(r"\s+", line) if line else []


def _row(where: str, cells: list[str], header: list[str] | None) -> tuple[int, int, int]:
    """Return round, source and target of a line."""
    if header is None and len(cells) != 2:
        raise UserError(f"{where}: {' '.join(cells)!r} is no pair; write two clients, or a header with source,target")
    if header is not None and len(cells) != len(header):
        raise UserError(f"{where}: {len(cells)} cells instead of the {len(header)} of the header")
    named = dict(zip(header or COLUMNS[1:], cells, strict=True))
    try:
        return int(named.get("round", 0)), int(named["source"]), int(named["target"])
    except ValueError:
        raise UserError(f"{where}: {' '.join(cells)!r} must hold whole numbers (clients count from 0)") from None


def _check(where: str, i: int, j: int, clients: int | None) -> None:
    """Refuse links that no graph of these clients can have."""
    if i == j:
        raise UserError(f"{where}: client {i} is linked with itself; delete that line")
    for client in (i, j):
        if client < 0 or (clients is not None and client >= clients):
            allowed = "0 or more" if clients is None else f"0 to {clients - 1}"
            raise UserError(f"{where}: there is no client {client}; clients are numbered {allowed}")
