"""Class names against torchvision's, and CIFAR-100's coarse labels against those of its files."""

import pytest
import torchvision.datasets as tv

from flcluster.datamodules import (
    RotatedDigits,
    RotatedEMNIST,
    RotatedFashionMNIST,
    RotatedFEMNIST,
    SkewedDigits,
    StreamDigits,
)
from flcluster.datamodules.sources import class_names as names
from flcluster.datamodules.sources.known import emnist

COARSE = [
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
]
"""The coarse label of each fine label, read from the official files."""

EMNIST_CLASSES = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}


def test_names_are_torchvisions():
    assert list(names.FASHION_MNIST) == tv.FashionMNIST.classes
    assert [f"{i} - {name}" for i, name in enumerate(names.DIGITS)] == tv.MNIST.classes
    for split, found in names.EMNIST.items():
        theirs = tv.EMNIST.classes_split_dict[split]
        assert list(found) == [name for name in theirs if name != "N/A"]
        if split != "byclass":
            continue
        assert found[10:12] == ("A", "B") and found[36:38] == ("a", "b")


def test_cifar100_has_its_official_order_and_groups():
    assert len(names.CIFAR100) == len(set(names.CIFAR100)) == 100 and len(names.CIFAR100_COARSE) == 20
    known = {
        0: "apple",
        8: "bicycle",
        22: "clock",
        41: "lawn_mower",
        58: "pickup_truck",
        83: "sweet_pepper",
        99: "worm",
    }
    assert all(names.CIFAR100[label] == name for label, name in known.items())
    assert names.CIFAR100_COARSE[0] == "aquatic_mammals" and names.CIFAR100_COARSE[19] == "vehicles_2"
    assert list(names.CIFAR100_COARSE_OF) == COARSE


@pytest.mark.parametrize(("split", "classes"), EMNIST_CLASSES.items())
def test_there_is_a_name_for_every_class(split, classes):
    assert emnist(split).num_classes == len(emnist(split).class_names) == classes
    assert names.class_names("torchvision.datasets.EMNIST", classes, split) == emnist(split).class_names


def test_unknown_datasets_have_numbers():
    assert names.class_names("mine.Own", 3) == ("class 0", "class 1", "class 2")
    assert names.class_names("torchvision.datasets.CIFAR10", 10)[9] == "truck"
    assert names.class_names("torchvision.datasets.CIFAR10", 3) == (
        "class 0",
        "class 1",
        "class 2",
    )  # somebody's part of it


def test_every_datamodule_of_a_known_dataset_has_its_names():
    for data in (RotatedDigits(), StreamDigits(), SkewedDigits()):
        assert data.class_names == names.DIGITS
    assert RotatedFashionMNIST().class_names == names.FASHION_MNIST
    assert RotatedEMNIST(split="letters").class_names == names.EMNIST["letters"]
    assert RotatedFEMNIST().class_names == names.EMNIST["byclass"]
