"""Graphs of clients to name under ``algorithm.topology``; networkx draws them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from flcluster.errors import UserError, at_least, probability, refuse
from flcluster.topology.base import Topology
from flcluster.topology.files import as_edges, read_graphs

if TYPE_CHECKING:  # slow to import: only a method that draws a graph pays for it
    import networkx


@dataclass(frozen=True, kw_only=True)
class ErdosRenyi(Topology):
    """Every pair of clients is linked with the same probability, on its own: G(n, p)."""

    p: float = 0.15
    """Probability of each link; a client then has (n - 1) p neighbours on average."""

    def __post_init__(self) -> None:
        super().__post_init__()
        probability("topology.p", self.p)

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Draw G(n, p)."""
        import networkx as nx

        return nx.fast_gnp_random_graph(n, self.p, seed=seed)

    def advice(self, n: int) -> str:
        """Name the probability from which graphs are connected."""
        return f"raise algorithm.topology.p ({self.p}): about ln(n)/n = {math.log(n) / n:.3f} or more is needed"


@dataclass(frozen=True, kw_only=True)
class Ring(Topology):
    """Clients in a circle, each linked with the next ones on both sides."""

    reach: int = 1
    """Neighbours on each side; half of the clients make the graph complete."""
    chance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("topology.reach", self.reach, 1)

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Link client i with i ± 1, …, i ± reach (modulo n)."""
        import networkx as nx

        if self.reach > n // 2:
            refuse("topology.reach", f"at most half of the {n} clients ({n // 2}, which links all of them)", self.reach)
        return nx.circulant_graph(n, range(1, self.reach + 1))


@dataclass(frozen=True, kw_only=True)
class Torus(Topology):
    """Clients on a grid whose opposite edges touch, each linked with the four beside it (three if two rows wide)."""

    rows: int | None = None
    """Rows of the grid; as close to a square as the number of clients allows if not given."""
    chance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows is not None:
            at_least("topology.rows", self.rows, 2)

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Lay the clients out row by row."""
        import networkx as nx

        rows = self.rows or max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
        if rows == 1:
            raise UserError(
                f"algorithm.topology: {n} clients make no torus of two rows or more, since {n} is prime; "
                "use another number of clients, or a Ring"
            )
        if n % rows or n // rows < 2:
            refuse("topology.rows", f"a divisor of the {n} clients that leaves two columns or more", rows)
        return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, n // rows, periodic=True))


@dataclass(frozen=True, kw_only=True)
class RandomRegular(Topology):
    """A random graph in which every client has the same number of neighbours."""

    degree: int = 4
    """Neighbours of each client."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("topology.degree", self.degree, 1)

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Draw the links, or those that are missing if they are fewer: networkx takes for ever on dense graphs."""
        import networkx as nx

        if self.degree >= n:
            refuse("topology.degree", f"below the number of clients ({n})", self.degree)
        if self.degree * n % 2:
            refuse("topology.degree", f"even for an odd number of clients ({n})", self.degree)
        missing = n - 1 - self.degree
        if missing < self.degree:
            return nx.complement(nx.random_regular_graph(missing, n, seed=seed))
        return nx.random_regular_graph(self.degree, n, seed=seed)

    def advice(self, n: int) -> str:
        """Name the degree from which graphs are nearly always connected."""
        return f"raise algorithm.topology.degree ({self.degree}): 3 or more is nearly always connected"


@dataclass(frozen=True, kw_only=True)
class SmallWorld(Topology):
    """A ring with some links turned to random clients (Watts and Strogatz, 1998)."""

    neighbours: int = 4
    """Neighbours of each client in the ring, half of them on each side; an even number."""
    rewire: float = 0.1
    """Probability that a link is turned to a random client: 0 is a ring, 1 nearly a random graph."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("topology.neighbours", self.neighbours, 2)
        if self.neighbours % 2:
            refuse("topology.neighbours", "even", self.neighbours)
        probability("topology.rewire", self.rewire)

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Draw the ring and turn links."""
        import networkx as nx

        if self.neighbours >= n:
            refuse("topology.neighbours", f"below the number of clients ({n})", self.neighbours)
        return nx.watts_strogatz_graph(n, self.neighbours, self.rewire, seed=seed)

    def advice(self, n: int) -> str:
        """Name both options that help."""
        return f"raise algorithm.topology.neighbours ({self.neighbours}) or lower rewire ({self.rewire})"


@dataclass(frozen=True, kw_only=True)
class Complete(Topology):
    """Every client is linked with every other."""

    chance: ClassVar[bool] = False

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Link all."""
        import networkx as nx

        return nx.complete_graph(n)


@dataclass(frozen=True, kw_only=True)
class EdgeList(Topology):
    """The links of a file, read once: another run's edges.csv or a list of your own."""

    path: str = ""
    """Pairs of clients (from 0), one a line with blanks, a comma or a tab between them; or a CSV file with the columns
    source and target. Of a file with the column round, the earliest round is taken. ``#`` starts a comment."""
    chance: ClassVar[bool] = False

    def draw(self, n: int, seed: int) -> "networkx.Graph":
        """Read the file."""
        import networkx as nx

        if not self.path:
            refuse("topology.path", "a file of links", "none")
        try:
            graphs = read_graphs(Path(self.path), n)
        except UserError as error:
            raise UserError(f"algorithm.topology.path: {error}") from error
        graph = nx.empty_graph(n)
        graph.add_edges_from(next(iter(graphs.values()), as_edges([])).tolist())
        return graph
