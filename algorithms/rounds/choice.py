"""Clients that choose among models by their own loss (IFCA and what follows it)."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.worker import Worker
from flcluster.protocol.base import at_least

Candidates = Callable[[int], Iterable[Tensor]]
"""The models that a client may choose from."""


TRIES = 100
"""Draws of first models before good ones are given up."""


def best_of(fed: Federation, candidates: Candidates, clients: Sequence[int], t: int) -> list[int]:
    """Return which of its candidates has the smallest mean loss on each client's training data; NaN never wins."""
    best: list[int] = _best(scored(fed, candidates, clients, [fed.shard(m, t).train for m in clients])).tolist()
    return best


def scored(
    fed: Federation, candidates: Candidates, clients: Sequence[int], views: Sequence[View]
) -> NDArray[np.float64]:
    """Return mean loss and accuracy of each client's candidates on its view, ``[clients, k, 2]``."""

    def own(worker: Worker, i: int) -> list[tuple[float, float]]:
        worker.needs_losses()
        return [worker.evaluate(row.to(fed.device), views[i]) for row in candidates(clients[i])]

    return np.array(fed.map(own, views), dtype=np.float64)


def _best(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of the smallest loss of each, never NaN."""
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    losses = scores[..., 0]
    best: NDArray[np.int64] = np.where(np.isnan(losses), np.inf, losses).argmin(1)
    return best


def ifca_style_accuracy(fed: Federation, candidates: Candidates, t: int) -> float:
    """Return the mean accuracy of clients that choose by their *test* loss, as IFCA's code does: optimistic."""
    clients = fed.data.with_samples(t).tolist()
    if not clients:
        return float("nan")
    scores = scored(fed, candidates, clients, [fed.shard(m, t).test for m in clients])
    return float(scores[np.arange(len(clients)), _best(scores), 1].mean())


def attracted(fed: Federation, models: Tensor, clients: Sequence[int]) -> NDArray[np.float64]:
    """Return the share of clients that choose each of some models, on the first round's data."""
    chosen = best_of(fed, lambda client: models, clients, 0)
    shares: NDArray[np.float64] = np.bincount(chosen, minlength=len(models)) / len(clients)
    return shares


def first_models(fed: Federation, k: int, min_share: float, clients: Callable[[], Sequence[int]]) -> Tensor:
    """Draw k random models, again and again until each attracts at least ``min_share`` of the first clients."""
    if min_share * k > 1:
        raise UserError(
            f"algorithm.min_share is {min_share}: {k} models cannot attract more than 1/{k} of clients each"
        )
    first = clients() if min_share else []
    if not first:
        return fed.init_rows(k)
    for attempt in range(TRIES):
        rows = fed.init_rows(k, first=attempt * k)
        shares = attracted(fed, rows, first)
        fed.note(f"first models, draw {attempt + 1}: they attract {', '.join(f'{s:.0%}' for s in shares)} of clients")
        if shares.min() >= min_share:
            return rows
    raise UserError(
        f"algorithm.min_share is {min_share}: in none of {TRIES} draws each of {k} models attracts so many; lower it"
    )


def check_choice(num_clusters: int | None, min_share: float) -> None:
    """Refuse a number of models or a share that cannot be, whatever the data."""
    if num_clusters is not None:
        at_least("num_clusters", num_clusters, 1)
    if not 0 <= min_share <= 1 / (num_clusters or 1):
        raise UserError(f"algorithm.min_share must be from 0 to 1/k, got {min_share}")


def number_of_models(num_clusters: int | None, fed: Federation) -> int:
    """Return k: what is given, or the data's number of clusters."""
    if num_clusters is None and fed.data.num_clusters == 1:
        raise UserError(f"{fed.data.name} has no clusters to count: give algorithm.num_clusters")
    return num_clusters or fed.data.num_clusters
