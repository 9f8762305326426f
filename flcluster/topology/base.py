"""Who may talk to whom without a server: graphs of clients, drawn for a round, with links and clients that fail.

Everything is a function of (clients, round, seed): no order of calls changes it, and nothing needs to be saved.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from flcluster.errors import UserError, at_least, probability
from flcluster.seeds import rng
from flcluster.topology.files import Edges, as_edges, table_text

if TYPE_CHECKING:  # slow to import: only a method that draws a graph pays for it
    import networkx


TRIES = 100
"""Graphs that are drawn in search of a connected one."""


@dataclass(frozen=True, kw_only=True)
class Topology(ABC):
    """A graph of clients. A new one is a class with ``draw``; name it by its class_path."""

    redraw: int | None = None
    """Rounds after which the graph is drawn anew; never if not given. A graph without chance stays as it is."""
    connected: bool = False
    """Draw again until there is a path between any two clients, and refuse if there is none. Failures come on top."""
    link_failure: float = 0.0
    """Probability that a link is down in a round, both ways."""
    node_dropout: float = 0.0
    """Probability that a client is offline in a round, and all of its links with it."""
    chance: ClassVar[bool] = True
    """Whether another seed gives another graph."""

    def __post_init__(self) -> None:
        if self.redraw is not None:
            at_least("topology.redraw", self.redraw, 1)
        probability("topology.link_failure", self.link_failure)
        probability("topology.node_dropout", self.node_dropout)

    @abstractmethod
    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Draw a graph with the nodes 0..n-1 (two or more) and no self-loops; refuse settings that do not fit n."""

    def advice(self, n: int) -> str:
        """Say what to change for a connected graph of ``n`` clients."""
        return "add links"

    def edges(self, n: int, t: int, seed: int) -> Edges:
        """Return the links ``[E, 2]`` of round ``t`` as drawn: ``i < j``, sorted, read-only; failures not applied."""
        return _edges(self, n, t // self.redraw if self.redraw and self.chance else 0, seed)

    def online(self, n: int, t: int, seed: int) -> NDArray[np.bool_]:
        """Say which clients are online in round ``t``."""
        return rng(seed, "node_dropout", t).random(n) >= self.node_dropout

    def links(self, n: int, t: int, seed: int) -> csr_array:
        """Return the links that are up in round ``t``, between clients that are online: symmetric, ``[n, n]`` bool."""
        edges = self.edges(n, t, seed)
        up = self.online(n, t, seed)[edges].all(axis=1)
        up &= rng(seed, "link_failure", t).random(len(edges)) >= self.link_failure
        return adjacency(edges[up], n)


def adjacency(edges: Edges, n: int) -> csr_array:
    """Return links as a symmetric matrix of truth values, ``[n, n]``."""
    i, j = edges.T
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    matrix = csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n, n))
    matrix.sort_indices()
    return matrix


def is_connected(edges: Edges, n: int) -> bool:
    """Say whether there is a path between any two clients.

    >>> is_connected(as_edges([(0, 1), (1, 2)]), 3), is_connected(as_edges([(0, 1)]), 3)
    (True, False)
    """
    return int(connected_components(adjacency(edges, n), directed=False, return_labels=False)) == 1


@lru_cache(maxsize=8)
def _edges(topology: Topology, n: int, period: int, seed: int) -> Edges:
    """Draw the graph of one period, until it is connected if it must be. A lone client has no links."""
    if n < 2:
        return as_edges([])
    source = rng(seed, "graph", period)
    for _ in range(TRIES if topology.connected and topology.chance else 1):
        graph = topology.draw(n, int(source.integers(2**32)))
        if set(graph) != set(range(n)):
            raise UserError(f"algorithm.topology: {type(topology).__name__}.draw must return the nodes 0 to {n - 1}")
        edges = as_edges(graph.edges())
        if not topology.connected or is_connected(edges, n):
            return edges
    tried = f"none of {TRIES} graphs of {n} clients is connected" if topology.chance else "the graph is not connected"
    raise UserError(f"algorithm.topology.connected: {tried}; {topology.advice(n)}, or set it to false")


def edge_table(topology: Topology, n: int, rounds: Sequence[int], seed: int) -> str:
    """Return the text of ``edges.csv``: the graphs of some rounds as drawn, failures not applied."""
    return table_text((t, topology.edges(n, t, seed)) for t in rounds)
