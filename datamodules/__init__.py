"""Federated datamodules: clustered by rotation or by domain. Each is a LightningDataModule of its own too."""

from .clustered import ClusteredDataModule
from .digit_recognition import DigitRecognition
from .images import Images, ImageSource
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

__all__ = [
    "ClusteredDataModule",
    "DigitRecognition",
    "ImageSource",
    "Images",
    "RotatedCIFAR10",
    "RotatedCIFAR100",
    "RotatedDataModule",
    "RotatedDigits",
    "RotatedEMNIST",
    "RotatedFashionMNIST",
    "RotatedMNIST",
    "RotatedMiniImagenet",
]
