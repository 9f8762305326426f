"""The maths of moving clients between clusters: pure functions on labels, centres and models."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcluster.clustering.distances import Distance
from flcluster.clustering.kmeans import centres_of, nearest, without_empty

Ids = NDArray[np.int64]


def move(labels: Tensor, centres: Tensor, reports: Tensor, movers: Ids, distance: Distance) -> tuple[Tensor, Tensor]:
    """Send each mover to the nearest centre, all centres frozen meanwhile; then recompute the centres.

    A label of −1 means a client that is not known yet. A centre that lost all its clients stays where it was.
    """
    labels = labels.clone()
    if len(movers):
        labels[movers] = torch.from_numpy(nearest(reports[movers].numpy(), centres.numpy(), distance))
    known = labels >= 0
    before = centres.numpy()
    return labels, torch.from_numpy(centres_of(reports[known].numpy(), labels[known].numpy(), len(before), before))


def warm_start(models: Tensor, old: Tensor, new: Tensor, count: int) -> Tensor:
    """Return the models of new clusters: the mean, over a cluster's clients, of the models they used before.

    Args:
        models: Models of the old clusters, ``[K, P]``.
        old: Each client's old cluster.
        new: Each client's new cluster.
        count: Number of new clusters; each has a client.

    Example:
        >>> models = torch.tensor([[0.0], [3.0]])
        >>> warm_start(models, torch.tensor([0, 0, 1]), torch.tensor([1, 0, 0]), 2).tolist()
        [[1.5], [0.0]]
    """
    origin = torch.bincount(new * len(models) + old, minlength=count * len(models)).view(count, len(models)).double()
    return (origin / origin.sum(1, keepdim=True)).to(models) @ models


def compact(labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Renumber labels without the clusters that nobody is in; return them and the indices of those that stay.

    Example:
        >>> compact(torch.tensor([2, 0, -1, 2]), 3)
        (tensor([ 1,  0, -1,  1]), tensor([0, 2]))
    """
    known, out = labels >= 0, labels.clone()
    new, kept = without_empty(labels[known].numpy(), count)
    out[known] = torch.from_numpy(new)
    return out, torch.from_numpy(kept)
