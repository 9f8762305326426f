"""Clients that choose among models by their own loss (IFCA and what follows it)."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flcluster.data import View
from flcluster.errors import UserError
from flcluster.federation.federation import Federation, accuracy, mean_loss
from flcluster.protocol.base import at_least

Candidates = Callable[[int], Iterable[Tensor]]
"""The models that the i-th view may choose from."""


TRIES = 100
"""Draws of first models before good ones are given up."""


def scored(fed: Federation, candidates: Candidates, views: Sequence[View]) -> NDArray[np.float64]:
    """Return mean loss and accuracy of each view's candidates, ``[views, k, 2]``, shared out over the ranks."""
    owners = fed.ranks.balance([len(view) for view in views])

    def own(i: int) -> list[tuple[float, float]]:
        scores = (fed.worker.per_sample(row.to(fed.device), views[i]) for row in candidates(i))
        return [(mean_loss(each), accuracy(each)) for each in scores]

    mine = {i: own(i) for i in range(len(views)) if owners[i] == fed.ranks.rank}
    return np.array(fed.ranks.collect(mine, len(views)), dtype=np.float64)


def chosen(fed: Federation, candidates: Candidates, views: Sequence[View]) -> list[int]:
    """Return the candidate with the smallest mean loss on each view, the first of equals; NaN never wins."""
    if not views:
        return []
    losses = scored(fed, candidates, views)[..., 0]
    best: list[int] = np.where(np.isnan(losses), np.inf, losses).argmin(1).tolist()
    return best


def ifca_style_accuracy(fed: Federation, candidates: Candidates, views: Sequence[View]) -> float:
    """Return the mean accuracy of clients that choose by their *test* loss, as IFCA's code does: optimistic."""
    if not views:
        return float("nan")
    scores = scored(fed, candidates, views)
    best = np.where(np.isnan(scores[..., 0]), np.inf, scores[..., 0]).argmin(1)
    return float(scores[np.arange(len(views)), best, 1].mean())


def attracted(fed: Federation, models: Tensor, views: Sequence[View]) -> NDArray[np.float64]:
    """Return the share of views that choose each of some models."""
    shares: NDArray[np.float64] = np.bincount(chosen(fed, lambda i: models, views), minlength=len(models)) / len(views)
    return shares


def first_models(fed: Federation, k: int, min_share: float, clients: Callable[[], Sequence[int]]) -> Tensor:
    """Draw k random models, again and again until each attracts at least ``min_share`` of the first clients."""
    if min_share * k > 1:
        raise UserError(
            f"algorithm.min_share is {min_share}: {k} models cannot attract more than 1/{k} of clients each"
        )
    views = [fed.data.shard(client).train for client in clients()] if min_share else []
    if not views:
        return fed.init_rows(k)
    for attempt in range(TRIES):
        rows = fed.init_rows(k, first=attempt * k)
        shares = attracted(fed, rows, views)
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
