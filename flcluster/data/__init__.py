"""What the engine asks of data: clients that hold views into clusters, proxies and cluster test sets."""

from flcluster.data.module import FederatedDataModule, Shard, apportion
from flcluster.data.views import Samples, Source, View, ViewDataset, joined, labels_of

__all__ = [
    "FederatedDataModule",
    "Samples",
    "Shard",
    "Source",
    "View",
    "ViewDataset",
    "apportion",
    "joined",
    "labels_of",
]
