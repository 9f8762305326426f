"""What FIELDING is compared with in its own terms: the same coordinator with parts switched off."""

from dataclasses import dataclass
from typing import Literal

from .fielding import Fielding


@dataclass(frozen=True, kw_only=True)
class StaticClustering(Fielding):
    """Cluster once, by the first reports; nobody moves afterwards (clients that register later join the nearest)."""

    moves: bool = False
    """Whether a client that reports a change moves to the nearest cluster."""
    recluster: Literal["selective", "always", "never"] = "never"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class AlwaysRecluster(Fielding):
    """Re-cluster everyone at every drift event."""

    recluster: Literal["selective", "always", "never"] = "always"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class MoveIndividuals(Fielding):
    """Only move drifted clients, one by one; the number of clusters never grows."""

    recluster: Literal["selective", "always", "never"] = "never"
    """At a drift event: re-cluster everyone when the trigger fires, always, or never."""


@dataclass(frozen=True, kw_only=True)
class SelectedOnly(Fielding):
    """Only clients that train report, after they have trained; of the others the coordinator knows old reports."""

    reporters: Literal["drifted", "participants"] = "participants"
    """Who reports: every client whose data changed, or only those that train, after they have trained."""
