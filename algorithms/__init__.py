"""Methods, one file each; a ``class_path`` (or the bare class name) in a config picks one."""

from .aggregation import Average, QFair, Yogi
from .auxo import Auxo
from .ca2fl import CA2FL
from .cdfl import CCFL, CDFL
from .dfca import DFCA
from .dfca_async import AsyncDFCA
from .dfedavgm import DFedAvgM
from .fedavg import FedAvg, FedProx, FedYogi, QFedAvg
from .fedbuff import FedBuff
from .feddrift import FedDrift
from .fedsoft import FedSoftAsync
from .fedspd import FedSPD
from .fielding import Fielding
from .fielding_ablations import AlwaysRecluster, MoveIndividuals, SelectedOnly, StaticClustering
from .flexcfl import FlexCFL
from .ifca import IFCA
from .local import Local
from .selection import DistanceSelection, Oort, RandomSelection

__all__ = [
    "CA2FL",
    "CCFL",
    "CDFL",
    "DFCA",
    "IFCA",
    "AlwaysRecluster",
    "AsyncDFCA",
    "Auxo",
    "Average",
    "DFedAvgM",
    "DistanceSelection",
    "FedAvg",
    "FedBuff",
    "FedDrift",
    "FedProx",
    "FedSPD",
    "FedSoftAsync",
    "FedYogi",
    "Fielding",
    "FlexCFL",
    "Local",
    "MoveIndividuals",
    "Oort",
    "QFair",
    "QFedAvg",
    "RandomSelection",
    "SelectedOnly",
    "StaticClustering",
    "Yogi",
]
