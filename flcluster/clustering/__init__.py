"""Clustering of clients: distances, k-means by silhouette, k-centre, agreement with the truth."""

from flcluster.clustering.agreement import kl_divergence, matched_purity
from flcluster.clustering.diameter import max_pair_distance
from flcluster.clustering.distances import L1, L2, Distance, JensenShannon
from flcluster.clustering.kcentre import KCentre
from flcluster.clustering.kmeans import Clusterer, Clustering, KMeansBySilhouette, centres_of, nearest
from flcluster.clustering.points import shares
from flcluster.clustering.silhouette import mean_distances

__all__ = [
    "L1",
    "L2",
    "Clusterer",
    "Clustering",
    "Distance",
    "JensenShannon",
    "KCentre",
    "KMeansBySilhouette",
    "centres_of",
    "kl_divergence",
    "matched_purity",
    "max_pair_distance",
    "mean_distances",
    "nearest",
    "shares",
]
