"""Federated datamodules: clusters by rotation or by domain, label skew, streams that drift.

Each is a LightningDataModule too.
"""

from flcluster.datamodules.clusters.datasets import (
    RotatedCIFAR10,
    RotatedCIFAR100,
    RotatedDigits,
    RotatedEMNIST,
    RotatedFashionMNIST,
    RotatedMiniImagenet,
    RotatedMNIST,
)
from flcluster.datamodules.clusters.digit_recognition import DigitRecognition
from flcluster.datamodules.clusters.femnist import RotatedFEMNIST
from flcluster.datamodules.clusters.module import ClusteredDataModule
from flcluster.datamodules.clusters.rotated import Rotated, RotatedDataModule
from flcluster.datamodules.skew.datasets import (
    SkewedCIFAR10,
    SkewedCIFAR100,
    SkewedDigits,
    SkewedEMNIST,
    SkewedFashionMNIST,
    SkewedMNIST,
)
from flcluster.datamodules.skew.dirichlet import Dirichlet, QuantitySkew
from flcluster.datamodules.skew.module import LabelSkewDataModule, Skewed
from flcluster.datamodules.skew.monopolies import APFLTable1, PathologicalDropout
from flcluster.datamodules.skew.natural_ids import NaturalIds
from flcluster.datamodules.skew.partitions import IID, Partition, Samples, Shards
from flcluster.datamodules.skew.pathological import Pathological
from flcluster.datamodules.sources.images import Images, ImageSource
from flcluster.datamodules.sources.known import Known
from flcluster.datamodules.streams.arrivals import ArrivalPlan, SampleArrivals, StreamSetting
from flcluster.datamodules.streams.datasets import (
    StreamCIFAR10,
    StreamCIFAR100,
    StreamDigits,
    Streamed,
    StreamFashionMNIST,
    StreamImages,
    StreamMNIST,
)
from flcluster.datamodules.streams.jumps import ShiftDrift
from flcluster.datamodules.streams.label_buckets import LabelBuckets
from flcluster.datamodules.streams.module import StreamDataModule
from flcluster.datamodules.streams.shifts import CorruptionDrift, LabelSwaps, RotationDrift, Shift
from flcluster.datamodules.streams.wandering import FrameIntervals, Timestamps
from flcluster.datamodules.traces.arrivals import TraceDays, TraceIntervals, TraceLabelBuckets
from flcluster.datamodules.traces.module import TraceDataModule
from flcluster.datamodules.yours.arrays import ArrayDataModule, from_arrays
from flcluster.datamodules.yours.brought import Brought
from flcluster.datamodules.yours.drifting import DriftingDataModule
from flcluster.datamodules.yours.folder import ImageFolderDataModule
from flcluster.datamodules.yours.hub import HuggingFaceDataModule
from flcluster.datamodules.yours.module import OwnDataModule
from flcluster.datamodules.yours.shifted import ShiftedDataModule
from flcluster.datamodules.yours.table import CSVDataModule
from flcluster.datamodules.yours.wrapped import SplitDataModule

__all__ = [
    "IID",
    "APFLTable1",
    "ArrayDataModule",
    "ArrivalPlan",
    "Brought",
    "CSVDataModule",
    "ClusteredDataModule",
    "CorruptionDrift",
    "DigitRecognition",
    "Dirichlet",
    "DriftingDataModule",
    "FrameIntervals",
    "HuggingFaceDataModule",
    "ImageFolderDataModule",
    "ImageSource",
    "Images",
    "Known",
    "LabelBuckets",
    "LabelSkewDataModule",
    "LabelSwaps",
    "NaturalIds",
    "OwnDataModule",
    "Partition",
    "Pathological",
    "PathologicalDropout",
    "QuantitySkew",
    "Rotated",
    "RotatedCIFAR10",
    "RotatedCIFAR100",
    "RotatedDataModule",
    "RotatedDigits",
    "RotatedEMNIST",
    "RotatedFEMNIST",
    "RotatedFashionMNIST",
    "RotatedMNIST",
    "RotatedMiniImagenet",
    "RotationDrift",
    "SampleArrivals",
    "Samples",
    "Shards",
    "Shift",
    "ShiftDrift",
    "ShiftedDataModule",
    "Skewed",
    "SkewedCIFAR10",
    "SkewedCIFAR100",
    "SkewedDigits",
    "SkewedEMNIST",
    "SkewedFashionMNIST",
    "SkewedMNIST",
    "SplitDataModule",
    "StreamCIFAR10",
    "StreamCIFAR100",
    "StreamDataModule",
    "StreamDigits",
    "StreamFashionMNIST",
    "StreamImages",
    "StreamMNIST",
    "StreamSetting",
    "Streamed",
    "Timestamps",
    "TraceDataModule",
    "TraceDays",
    "TraceIntervals",
    "TraceLabelBuckets",
    "from_arrays",
]
