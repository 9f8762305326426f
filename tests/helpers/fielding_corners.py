"""FIELDING's clients at corners of the histograms, and clusterers that do as the test says."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from flcluster.clustering.kmeans import Clusterer, Clustering, centres_of

A, B, C, D = [0] * 8, [1] * 8, [2] * 8, [3] * 8
"""Eight samples of one label: four corners, at L1 distance 2 from each other."""
COMMON = {"local_epochs": 1, "batch_size": 8}


@dataclass(frozen=True)
class Noting(Clusterer):
    """Notes what it is asked and groups clients by their largest share, in the order in which shares come up."""

    asked: list = field(default_factory=list)

    def cluster(self, points, distance, seed, event):
        self.asked.append((points.copy(), event))
        _, first, labels = np.unique(points.argmax(1), return_index=True, return_inverse=True)
        labels = np.argsort(np.argsort(first))[labels].astype(np.int64)
        return Clustering(labels, centres_of(points, labels, len(first)))


@dataclass(frozen=True)
class Together(Clusterer):
    """Everybody in one cluster, so that any two that differ are a pair beyond Δ."""

    def cluster(self, points, distance, seed, event):
        return Clustering(np.zeros(len(points), dtype=np.int64), points.mean(0, keepdims=True))


def told_apart(algorithm, fed):
    """The first state, with a different model in each cluster so that they can be told apart."""
    state = algorithm.init(fed)
    return replace(state, models=torch.arange(1.0, 1 + len(state.models))[:, None].expand_as(state.models).clone())


def groups(labels):
    """The partition that labels make."""
    labels = list(map(int, labels))
    return {frozenset(i for i, label in enumerate(labels) if label == k) for k in set(labels) if k >= 0}
