"""Streams of real files, and what the command line sees of them."""

import jsonargparse
import numpy as np
import pytest
import torch
import torchvision.datasets as tv
import yaml
from samples import stored_pixels

from flcluster.data import FederatedDataModule
from flcluster.datamodules import (
    FrameIntervals,
    LabelBuckets,
    LabelSwaps,
    RotatedFashionMNIST,
    StreamCIFAR10,
    StreamCIFAR100,
    StreamDigits,
    StreamFashionMNIST,
    StreamImages,
    StreamMNIST,
)
from flcluster.errors import UserError

SMALL = {"num_clients": 3, "arrivals": LabelBuckets(samples=(4, 6), labels_per_client=(3, 3))}


def assert_holds(data, images, labels):
    """Check every sample of every client against the arrays that were written (NCHW)."""
    for client in range(data.num_clients):
        view = data.shard(client).train
        pixels, y = stored_pixels(view, data)
        index = view.parts[0][1].numpy()
        np.testing.assert_array_equal(pixels, images[index])
        np.testing.assert_array_equal(y, np.asarray(labels)[index])


@pytest.mark.parametrize(("cls", "folder"), [(StreamMNIST, "MNIST"), (StreamFashionMNIST, "FashionMNIST")])
def test_idx_files(cls, folder, write_mnist, tmp_path):
    images, labels = write_mnist(folder)["train"]
    data = cls(root=tmp_path, **SMALL)
    data.prepare_data()
    assert data.input_shape == (1, 28, 28) and data.name == folder
    assert_holds(data, images[:, None], labels)


def test_cifar10(write_cifar, tmp_path):
    data = StreamCIFAR10(root=tmp_path, **SMALL)
    assert_holds(data, *write_cifar(tv.CIFAR10)["train"])


def test_a_label_without_images_is_named(write_cifar, tmp_path):
    write_cifar(tv.CIFAR100)  # 60 images cannot have 100 labels
    data = StreamCIFAR100(root=tmp_path, num_clients=200, arrivals=LabelBuckets(samples=(10, 10)))
    assert data.num_classes == 100 and data.input_shape == (3, 32, 32)
    with pytest.raises(UserError, match=r"images of label \d+ for one client, but there are 0"):
        data.setup()


def test_both_splits(write_mnist, tmp_path):
    written = write_mnist()
    data = StreamMNIST(root=tmp_path, splits="both", **SMALL)
    images, labels = (np.concatenate([written["train"][i], written["test"][i]]) for i in (0, 1))
    assert_holds(data, images[:, None], labels)
    assert data.load().pool.tolist() == list(range(100)) and data.load().reserve.tolist() == list(range(60, 100))


def test_any_dataset_by_name_and_other_sizes(write_mnist, tmp_path):
    write_mnist()
    data = StreamImages("MNIST", 10, (1, 28, 28), (0.1,), (0.3,), image_size=12, root=tmp_path, **SMALL)
    assert data.input_shape == (1, 12, 12) and data.name == "MNIST"
    assert data.shard(0).train.tensors()[0].shape[1:] == (1, 12, 12)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_classes": 5}, "data.num_classes is 5"),
        ({"input_shape": (1, 28, 27)}, "data.input_shape"),
        ({"std": (0.0,)}, "data.std"),
        ({"mean": (0.1, 0.2)}, "data.mean"),
        ({"image_size": 0}, "data.image_size"),
        ({"root": "elsewhere"}, "MNIST was not found"),
    ],
)
def test_mistakes_are_named(changes, named, write_mnist, tmp_path):
    write_mnist()
    arguments = {"num_classes": 10, "input_shape": (1, 28, 28), "mean": (0.1,), "std": (0.3,), "root": tmp_path}
    with pytest.raises(UserError, match=named):
        StreamImages("MNIST", **(arguments | SMALL | changes)).setup()


def test_constants_are_those_of_the_rotated_datasets(tmp_path):
    ours, rotated = StreamFashionMNIST(root=tmp_path), RotatedFashionMNIST(root=tmp_path)
    for name in ("known", "mean", "std", "input_shape", "num_classes", "name"):
        assert getattr(ours, name) == getattr(rotated, name)


@pytest.mark.filterwarnings("ignore")  # jsonargparse renames instantiate_classes
def test_plans_and_shifts_are_replaceable_parts():
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(FederatedDataModule, "data")
    arguments = ["--data=StreamDigits", "--data.num_clients=6", "--data.arrivals=FrameIntervals"]
    arguments += ["--data.arrivals.samples=[20, 30]", "--data.arrivals.gap=5", "--data.shift=LabelSwaps"]
    arguments += ["--data.shift.at=[4, 9]", "--data.shared=two_per_label", "--data.seed=4"]
    settings = parser.parse_args(arguments)
    again = parser.parse_object(yaml.safe_load(parser.dump(settings)))
    for parsed in (settings, again):
        data = parser.instantiate_classes(parsed).data
        assert isinstance(data, StreamDigits) and data.num_clients == 6 and data.seed == 4
        assert data.arrivals == FrameIntervals(samples=(20, 30), gap=5) and data.shift == LabelSwaps(at=(4, 9))
        assert 4 in data.events and len(data.shard(0).train) > 20
    assert (
        parser.instantiate_classes(parser.parse_args(["--data=StreamDigits"])).data.arrivals == StreamDigits().arrivals
    )
    with pytest.raises(jsonargparse.ArgumentError):
        parser.parse_args(["--data=StreamMNIST", "--data.num_classes=3"])  # fixed by the dataset


@pytest.mark.parametrize("cls", [StreamDigits, StreamImages, StreamCIFAR10])
def test_every_argument_is_explained_in_help(cls):
    parser = jsonargparse.ArgumentParser()
    parser.add_class_arguments(cls, "data")
    text = " ".join(parser.format_help().split())
    explained = ("Number of clients", "Plan of who gets which sample when", "Rounds for which", "Folder that holds")
    assert all(part in text for part in explained), text


def test_a_client_dataloader_holds_the_view():
    data = StreamDigits(batch_size=5)
    batches = list(data.client_dataloader(3, 20, "test"))
    assert torch.equal(torch.cat([x for x, _ in batches]), data.shard(3, 20).test.tensors()[0])
