"""Partitions drawn from a Dirichlet distribution: of the labels, or of the sizes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flcluster.datamodules.sources.counts import Ints, systematic
from flcluster.errors import UserError, above, at_least

from .dealing import deal, fill_quotas, log_dirichlet
from .partitions import KEY, Partition, Samples, equal_parts

ATTEMPTS = 1000


WORK = 2_000_000
"""A partition is given up because some client always gets too little after so many draws, or so many numbers drawn."""


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Label skew by a Dirichlet distribution: the smaller alpha, the fewer classes a client holds.

    Plain: the samples of each class are divided among the clients in shares drawn from Dir(alpha), so that sizes are
    skewed too. Balanced: all clients hold equally many (but for one), each with class shares of its own drawn from
    Dir(alpha); where a class is used up, the shares of the others take its place.
    """

    alpha: float = 0.5
    """Concentration: 0.1 is strong skew, 100 hardly any."""
    balanced: bool = False
    """Let all clients have the same size."""
    min_samples: int = 1
    """Fewest samples of a client. A plain draw that gives someone less is drawn again, a limited number of times."""

    def __post_init__(self) -> None:
        above("alpha", self.alpha, 0, KEY)
        at_least("min_samples", self.min_samples, 1, KEY)

    @property
    def title(self) -> str:
        """Its name and alpha."""
        return f"{'balanced ' if self.balanced else ''}Dirichlet({self.alpha:g})"

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Draw how many of each class each client holds, and then which."""
        _check_enough(self.min_samples, num_clients, len(samples.labels))
        counts = (self._balanced if self.balanced else self._plain)(samples.totals, num_clients, rng)
        return deal(samples.labels, counts, rng)

    def _plain(self, totals: Ints, clients: int, rng: np.random.Generator) -> Ints:
        def drawn() -> Ints:
            shares = rng.dirichlet(np.full(clients, self.alpha), size=len(totals))
            return systematic(shares, totals, rng.random(len(totals))).T

        return _drawn_until_enough(drawn, self.min_samples, self.alpha, ", or set data.partition.balanced to true")

    def _balanced(self, totals: Ints, clients: int, rng: np.random.Generator) -> Ints:
        wishes = log_dirichlet(self.alpha, (clients, len(totals)), rng)
        return fill_quotas(wishes, equal_parts(int(totals.sum()), clients), totals, rng)


@dataclass(frozen=True, kw_only=True)
class QuantitySkew(Partition):
    """Clients that differ in size only: sizes in shares drawn from Dir(alpha), labels as they come."""

    alpha: float = 0.5
    """Concentration of the sizes: 0.1 is strong skew, 100 hardly any."""
    min_samples: int = 1
    """Fewest samples of a client. A draw that gives someone less is drawn again, a limited number of times."""

    def __post_init__(self) -> None:
        above("alpha", self.alpha, 0, KEY)
        at_least("min_samples", self.min_samples, 1, KEY)

    @property
    def title(self) -> str:
        """Its name and alpha."""
        return f"QuantitySkew({self.alpha:g})"

    @property
    def by_label(self) -> bool:
        """All labels are alike to it."""
        return False

    def draw(self, samples: Samples, num_clients: int, rng: np.random.Generator) -> Ints:
        """Draw sizes, and deal shuffled samples."""
        total = np.array([len(samples.labels)])
        _check_enough(self.min_samples, num_clients, len(samples.labels))

        def drawn() -> Ints:
            return systematic(rng.dirichlet(np.full(num_clients, self.alpha), size=1), total, rng.random(1)).T

        sizes = _drawn_until_enough(drawn, self.min_samples, self.alpha)[:, 0]
        return rng.permutation(np.repeat(np.arange(num_clients), sizes))


def _drawn_until_enough(drawn: Callable[[], Ints], min_samples: int, alpha: float, more: str = "") -> Ints:
    """Draw counts, a row each client, until everyone has enough; give up after a while and say what to change."""
    counts, tries = drawn(), 1
    most = max(20, min(ATTEMPTS, WORK // counts.size))
    while counts.sum(axis=1).min() < min_samples and tries < most:
        counts, tries = drawn(), tries + 1
    if counts.sum(axis=1).min() >= min_samples:
        return counts
    raise UserError(
        f"data.partition: in none of {tries} draws with alpha {alpha} does each of {len(counts)} clients get at least "
        f"{min_samples} of {counts.sum()} training samples (min_samples): raise data.partition.alpha, lower "
        f"data.partition.min_samples or data.num_clients{more}"
    )


def _check_enough(min_samples: int, num_clients: int, available: int) -> None:
    """Refuse more samples for each client than there are for all."""
    if min_samples * num_clients > available:
        raise UserError(
            f"data.partition.min_samples is {min_samples}, but {available} training samples for {num_clients} clients "
            f"give at most {available // num_clients} to each"
        )
