"""Graphs of clients to name under ``algorithm.topology``."""

from flcluster.topology.base import Topology
from flcluster.topology.families import Complete, EdgeList, ErdosRenyi, RandomRegular, Ring, SmallWorld, Torus

__all__ = [
    "Complete",
    "EdgeList",
    "ErdosRenyi",
    "RandomRegular",
    "Ring",
    "SmallWorld",
    "Topology",
    "Torus",
]
