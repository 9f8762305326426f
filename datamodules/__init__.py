"""Federated datamodules: clusters by rotation or by domain, label skew, streams that drift.

Each is a LightningDataModule too.
"""

from .arrivals import ArrivalPlan, Arrivals, StreamSetting
from .clustered import ClusteredDataModule
from .digit_recognition import DigitRecognition
from .dirichlet import Dirichlet, QuantitySkew
from .femnist import RotatedFEMNIST
from .images import Images, ImageSource
from .label_buckets import LabelBuckets
from .label_skew import LabelSkewDataModule
from .monopolies import APFLTable1, PathologicalDropout
from .natural_ids import NaturalIds
from .partitions import IID, Partition, Samples, Shards
from .pathological import Pathological
from .rotated import RotatedDataModule
from .rotated_datasets import (
    RotatedCIFAR10,
    RotatedCIFAR100,
    RotatedDigits,
    RotatedEMNIST,
    RotatedFashionMNIST,
    RotatedMiniImagenet,
    RotatedMNIST,
)
from .shifts import CorruptionDrift, LabelSwaps, RotationDrift, Shift
from .skewed_datasets import (
    SkewedCIFAR10,
    SkewedCIFAR100,
    SkewedDigits,
    SkewedEMNIST,
    SkewedFashionMNIST,
    SkewedMNIST,
)
from .stream import StreamDataModule
from .stream_datasets import (
    StreamCIFAR10,
    StreamCIFAR100,
    StreamDigits,
    StreamFashionMNIST,
    StreamImages,
    StreamMNIST,
)
from .trace import TraceDataModule
from .trace_arrivals import TraceDays, TraceIntervals, TraceLabelBuckets
from .wandering import FrameIntervals, Timestamps

__all__ = [
    "IID",
    "APFLTable1",
    "ArrivalPlan",
    "Arrivals",
    "ClusteredDataModule",
    "CorruptionDrift",
    "DigitRecognition",
    "Dirichlet",
    "FrameIntervals",
    "ImageSource",
    "Images",
    "LabelBuckets",
    "LabelSkewDataModule",
    "LabelSwaps",
    "NaturalIds",
    "Partition",
    "Pathological",
    "PathologicalDropout",
    "QuantitySkew",
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
    "Samples",
    "Shards",
    "Shift",
    "SkewedCIFAR10",
    "SkewedCIFAR100",
    "SkewedDigits",
    "SkewedEMNIST",
    "SkewedFashionMNIST",
    "SkewedMNIST",
    "StreamCIFAR10",
    "StreamCIFAR100",
    "StreamDataModule",
    "StreamDigits",
    "StreamFashionMNIST",
    "StreamImages",
    "StreamMNIST",
    "StreamSetting",
    "Timestamps",
    "TraceDataModule",
    "TraceDays",
    "TraceIntervals",
    "TraceLabelBuckets",
]
