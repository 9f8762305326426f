"""Labels that come and go: each client's labels arrive bucket by bucket, as in FIELDING's Open Images stream."""

from dataclasses import dataclass

import numpy as np

from flcluster import seeds
from flcluster.datamodules.sources.counts import Ints, rank_in_runs, systematic
from flcluster.errors import UserError, above, at_least, probability

from .arrivals import KEY, ArrivalPlan, SampleArrivals, StreamSetting
from .filling import Places, fill


@dataclass(frozen=True)
class LabelBuckets(ArrivalPlan):
    """Each client parts its labels at random into buckets; bucket ``j`` arrives at round ``j * gap - window``.

    Without groups every client has labels and an order of its own, as in the paper. With groups, clients ``m`` and
    ``n`` with ``m % groups == n % groups`` have the same labels in the same buckets but for some noise, so that there
    are clusters to be found, and they change together.

    With ten labels and the paper's gap and window, the defaults move label histograms by 1.17 (L1) at an event on
    average; the paper's Open Images stream moves by 1.18.

    Args:
        samples: Fewest and most samples of a client, train and test, over all rounds.
        labels_per_client: Fewest and most labels of a client.
        buckets: Number of buckets; a client with fewer labels has one for each label.
        gap: Rounds between buckets.
        concentration: How even a client's labels are (Dirichlet); exactly even if null.
        groups: Number of groups; null for none.
        group_noise: Share of its labels that a client of a group takes at random, other than the group.
        reuse: Let clients hold the same samples; otherwise each sample goes to one client.
    """

    samples: tuple[int, int] = (100, 300)
    labels_per_client: tuple[int, int] = (10, 10)
    buckets: int = 10
    gap: int = 50
    concentration: float | None = 3.0
    groups: int | None = None
    group_noise: float = 0.1
    reuse: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.labels_per_client[0] <= self.labels_per_client[1]:
            raise UserError(
                f"data.arrivals.labels_per_client is {self.labels_per_client}: give the fewest and the most"
            )
        if not self.labels_per_client[1] <= self.samples[0] <= self.samples[1]:
            raise UserError(
                f"data.arrivals.samples is {self.samples}: give the fewest and the most, at least one for each of "
                f"{self.labels_per_client[1]} labels"
            )
        at_least("buckets", self.buckets, 1, KEY)
        at_least("gap", self.gap, 1, KEY)
        if self.concentration is not None:
            above("concentration", self.concentration, 0, KEY)
        if self.groups is not None:
            at_least("groups", self.groups, 1, KEY)
        probability("group_noise", self.group_noise, KEY)

    def draw(self, setting: StreamSetting) -> SampleArrivals:
        """Draw labels, buckets, how many of each, and which."""
        if self.labels_per_client[1] > setting.num_classes:
            raise UserError(
                f"data.arrivals.labels_per_client is {self.labels_per_client}, but there are {setting.num_classes} "
                "classes"
            )
        rng = seeds.rng(setting.seed, "label buckets")
        label, held = self._labels(setting, rng)
        counts = self._counts(held, rng)
        rank = rank_in_runs(held)
        bucket = rank * np.minimum(self.buckets, np.repeat(held, held)) // np.repeat(held, held)
        client = np.repeat(np.repeat(np.arange(setting.num_clients), held), counts)
        places = Places(client, np.repeat(label, counts), np.repeat(bucket * self.gap - setting.window, counts))
        return fill(places, setting, self.reuse)

    def _labels(self, setting: StreamSetting, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return all clients' labels in the order they arrive, client after client, and how many each has."""
        n, classes = setting.num_clients, setting.num_classes
        kinds = n if self.groups is None else min(self.groups, n)
        held = rng.integers(*self.labels_per_client, size=kinds, endpoint=True)
        order = np.argsort(rng.random((kinds, classes), dtype=np.float32), axis=1)
        if self.groups is not None:
            group = np.arange(n) % kinds
            held, order = held[group], shuffle_some(order[group], self.group_noise, rng)
        return order[np.arange(classes) < held[:, None]], held

    def _counts(self, held: Ints, rng: np.random.Generator) -> Ints:
        """Return how many samples each client has of each of its labels, at least one."""
        total = rng.integers(*self.samples, size=len(held), endpoint=True) - held
        present = np.arange(held.max()) < held[:, None]
        weight = present * (1.0 if self.concentration is None else rng.gamma(self.concentration, size=present.shape))
        shares = weight / weight.sum(axis=1, keepdims=True)
        return (systematic(shares, total, rng.random(len(held))) + 1)[present]


def shuffle_some(rows: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Shuffle a random share of the places of each row among themselves; the others stay where they are."""
    chosen = rng.random(rows.shape, dtype=np.float32) < share
    here, there = (
        np.argsort(np.where(chosen, rng.random(rows.shape, dtype=np.float32), 2), axis=1, kind="stable")
        for _ in range(2)
    )  # the chosen places in two random orders, then all others in their own
    shuffled = np.empty_like(rows)
    np.put_along_axis(shuffled, here, np.take_along_axis(rows, there, axis=1), axis=1)
    return shuffled
