"""Methods, one file each; a ``class_path`` (or the bare class name) in a config picks one."""

from .aggregation import Average, QFair, Yogi
from .apfl import APFL
from .auxo import Auxo
from .ca2fl import CA2FL
from .cdfl import CCFL, CDFL
from .dfca import DFCA
from .dfca_async import AsyncDFCA
from .dfedavgm import DFedAvgM
from .fedavg import FedAvg, FedProx, FedYogi, QFedAvg
from .fedavg_ft import FedAvgFT
from .fedbuff import FedBuff
from .feddf import FedDF
from .feddrift import FedDrift
from .fedgen import FedGen
from .fedsoft import FedSoftAsync
from .fedspd import FedSPD
from .fielding import Fielding
from .fielding_ablations import AlwaysRecluster, MoveIndividuals, SelectedOnly, StaticClustering
from .fielding_analysis import FieldingAnalysis
from .fielding_loss import LossTriggeredFielding
from .flexcfl import FlexCFL
from .ifca import IFCA
from .local import Local
from .local_rounds import LocalRounds
from .scaffold import Scaffold
from .selection import DistanceSelection, Oort, RandomSelection, WithReplacement

__all__ = [
    "APFL",
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
    "FedAvgFT",
    "FedBuff",
    "FedDF",
    "FedDrift",
    "FedGen",
    "FedProx",
    "FedSPD",
    "FedSoftAsync",
    "FedYogi",
    "Fielding",
    "FieldingAnalysis",
    "FlexCFL",
    "Local",
    "LocalRounds",
    "LossTriggeredFielding",
    "MoveIndividuals",
    "Oort",
    "QFair",
    "QFedAvg",
    "RandomSelection",
    "Scaffold",
    "SelectedOnly",
    "StaticClustering",
    "WithReplacement",
    "Yogi",
]
