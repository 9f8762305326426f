"""The runs of a page, gathered into repeats, each with its name and colour."""

from collections.abc import Sequence
from dataclasses import dataclass

from flcluster.records.reader import Key, Run
from flcluster.report.style import inks
from flcluster.report.summaries import repeats


@dataclass(frozen=True)
class Group:
    """Runs that are repeats of each other."""

    key: Key
    name: str
    ink: str
    runs: Sequence[Run]

    @property
    def first(self) -> Run:
        """The one that stands for all where means say nothing."""
        return self.runs[0]

    @property
    def setting(self) -> str:
        """What data the runs are of."""
        return f"{self.key[0]}, K = {self.key[1]}"


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Gather runs; a name says the dataset and K only where they differ."""
    found = repeats(runs)
    alone = len({key[:2] for key in found}) == 1
    names = {key: key[2] if alone else f"{key[2]} · {key[0]}, K = {key[1]}" for key in found}
    colours = inks(names.values())
    return [Group(key, names[key], colours[names[key]], group) for key, group in found.items()]
