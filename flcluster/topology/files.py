"""Who is linked with whom, as text: what a run leaves behind in edges.csv, and lists of links that users bring."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError
from flcluster.files import read_text

Edges = NDArray[np.int64]
"""Links ``[E, 2]``: ``i < j`` in every row, rows sorted, each link once, read-only."""


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
    return "\n".join(["round,source,target", *lines]) + "\n"


def read_graphs(path: Path, clients: int | None = None) -> dict[int, Edges]:
    """Read the links of each round that a file names, earliest first; 0 for a file that names no rounds.

    A line is a pair of client numbers with blanks, a comma or a tab between them; or the file is a CSV whose header
    has the columns source and target, and perhaps round. ``#`` starts a comment. With ``clients``, numbers must be
    below it.
    """
    lines = [(at, cells) for at, line in enumerate(read_text(path).split("\n"), start=1) if (cells := _cells(line))]
    if not lines:
        raise UserError(f"{path} holds no links: write the numbers of two clients on each line")
    header = [cell.lower() for cell in lines[0][1]]
    named = {"source", "target"} <= set(header)
    columns = header if named else ["source", "target"]
    graphs: dict[int, list[tuple[int, int]]] = {} if "round" in columns else {0: []}
    for at, cells in lines[named:]:
        try:
            row = dict(zip(columns, cells, strict=True))
            t, i, j = int(row.get("round", 0)), int(row["source"]), int(row["target"])
            if i == j or min(t, i, j) < 0 or max(i, j) >= (2**62 if clients is None else clients):
                raise ValueError
        except ValueError:
            last = "" if clients is None else f" to {clients - 1}"
            raise UserError(
                f"{path}, line {at}: {' '.join(cells)!r} must be {','.join(columns)}: whole numbers, and the clients "
                f"two different ones, from 0{last}{'' if named else '; or begin with source,target'}"
            ) from None
        graphs.setdefault(t, []).append((i, j))
    return {t: as_edges(graphs[t]) for t in sorted(graphs)}


def _cells(line: str) -> list[str]:
    """Part a line at its commas, or else at blanks and tabs; an empty list for a blank line."""
    line = line.partition("#")[0].strip()
    return [cell.strip().strip('"') for cell in line.split(",")] if "," in line else line.split()
