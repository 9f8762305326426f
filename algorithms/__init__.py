"""Methods, one file each; a ``class_path`` (or the bare class name) in a config picks one."""

from flcluster.algorithms.drift.auxo import Auxo
from flcluster.algorithms.drift.feddrift import FedDrift
from flcluster.algorithms.drift.fielding import (
    AlwaysRecluster,
    Fielding,
    MoveIndividuals,
    SelectedOnly,
    StaticClustering,
)
from flcluster.algorithms.drift.fielding_analysis import FieldingAnalysis
from flcluster.algorithms.drift.fielding_loss import LossTriggeredFielding
from flcluster.algorithms.drift.flexcfl import FlexCFL
from flcluster.algorithms.drift.probe import HeterogeneityProbe
from flcluster.algorithms.drift.representations import Gradient, InputEmbedding, LabelHistogram, Representation
from flcluster.algorithms.drift.triggers import CentreShift, FixedDelta, HoldOnSingle, PairDistance, PrintedRule
from flcluster.algorithms.gossip.dfca import DFCA
from flcluster.algorithms.gossip.dfca_async import AsyncDFCA
from flcluster.algorithms.gossip.dfedavgm import DFedAvgM
from flcluster.algorithms.gossip.fedspd import FedSPD
from flcluster.algorithms.personal.apfl import APFL
from flcluster.algorithms.personal.fedavg_ft import FedAvgFT
from flcluster.algorithms.personal.semantics import NamesFile, OneHot, RandomVectors, ShippedNames
from flcluster.algorithms.rounds.fedavg import Average, FedAvg, FedProx
from flcluster.algorithms.rounds.feddf import FedDF
from flcluster.algorithms.rounds.fedgen import FedGen
from flcluster.algorithms.rounds.fedyogi import FedYogi, Yogi
from flcluster.algorithms.rounds.ifca import IFCA
from flcluster.algorithms.rounds.local import LocalRounds
from flcluster.algorithms.rounds.oort import Oort
from flcluster.algorithms.rounds.qfedavg import QFair, QFedAvg
from flcluster.algorithms.rounds.scaffold import Scaffold
from flcluster.algorithms.rounds.selection import DistanceSelection, RandomSelection, WithReplacement
from flcluster.algorithms.uploads.ca2fl import CA2FL
from flcluster.algorithms.uploads.cdfl import CCFL, CDFL
from flcluster.algorithms.uploads.fedasync import FedAsync
from flcluster.algorithms.uploads.fedbuff import FedBuff
from flcluster.algorithms.uploads.fedsoft import FedSoftAsync
from flcluster.algorithms.uploads.local import Local

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
    "CentreShift",
    "DFedAvgM",
    "DistanceSelection",
    "FedAsync",
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
    "FixedDelta",
    "FlexCFL",
    "Gradient",
    "HeterogeneityProbe",
    "HoldOnSingle",
    "InputEmbedding",
    "LabelHistogram",
    "Local",
    "LocalRounds",
    "LossTriggeredFielding",
    "MoveIndividuals",
    "NamesFile",
    "OneHot",
    "Oort",
    "PairDistance",
    "PrintedRule",
    "QFair",
    "QFedAvg",
    "RandomSelection",
    "RandomVectors",
    "Representation",
    "Scaffold",
    "SelectedOnly",
    "ShippedNames",
    "StaticClustering",
    "WithReplacement",
    "Yogi",
]
