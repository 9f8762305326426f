"""Federated datamodules: clusters by rotation or by domain, and streams that drift; each a LightningDataModule too."""

from .arrivals import ArrivalPlan, Arrivals, StreamSetting
from .clustered import ClusteredDataModule
from .digit_recognition import DigitRecognition
from .femnist import RotatedFEMNIST
from .images import Images, ImageSource
from .label_buckets import LabelBuckets
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
    "ArrivalPlan",
    "Arrivals",
    "ClusteredDataModule",
    "CorruptionDrift",
    "DigitRecognition",
    "FrameIntervals",
    "ImageSource",
    "Images",
    "LabelBuckets",
    "LabelSwaps",
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
    "Shift",
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
