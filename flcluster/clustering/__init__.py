"""Clustering of clients: distances, k-means by silhouette, k-centre, agreement with the truth."""

from flcluster.clustering.distances import L1, L2, Distance, JensenShannon
from flcluster.clustering.kcentre import KCentre
from flcluster.clustering.kmeans import Clusterer, Clustering, KMeansBySilhouette

__all__ = [
    "L1",
    "L2",
    "Clusterer",
    "Clustering",
    "Distance",
    "JensenShannon",
    "KCentre",
    "KMeansBySilhouette",
]
