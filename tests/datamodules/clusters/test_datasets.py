"""Files in the official layouts come out pixel by pixel, and broken or missing ones are named."""

import csv
from importlib.resources import files

import numpy as np
import pytest
import torch
import torchvision.datasets as tv
from PIL import Image
from samples import stored_pixels

from flcluster.datamodules import (
    DigitRecognition,
    RotatedCIFAR10,
    RotatedCIFAR100,
    RotatedDataModule,
    RotatedDigits,
    RotatedEMNIST,
    RotatedFashionMNIST,
    RotatedFEMNIST,
    RotatedMiniImagenet,
    RotatedMNIST,
)
from flcluster.errors import UserError

SMALL = {"samples": (10, 20), "proxy_size": 10, "test_size": 10}


def assert_holds(data, written):
    """Check every cluster, both splits, against the arrays that were written (NCHW)."""
    k = data.num_clusters
    for cluster in range(k):
        for split in ("train", "test"):
            expected, labels = written[split]
            view = data.cluster_train(cluster)
            if split == "test":
                kept = data.cluster_test(cluster).parts[0][1].numpy()
                view, expected, labels = data.cluster_test(cluster), expected[kept], np.asarray(labels)[kept]
            got, y = stored_pixels(view, data)
            np.testing.assert_array_equal(got, np.rot90(expected, cluster * 4 // k, axes=(2, 3)))
            np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize(("cls", "folder"), [(RotatedMNIST, "MNIST"), (RotatedFashionMNIST, "FashionMNIST")])
def test_idx_files(cls, folder, write_mnist, tmp_path):
    written = {split: (x[:, None], y) for split, (x, y) in write_mnist(folder).items()}
    data = cls(root=tmp_path, **SMALL)
    data.prepare_data()
    data.setup()
    assert data.input_shape == (1, 28, 28) and data.num_clients == 80
    assert_holds(data, written)


READY = [RotatedDigits, RotatedMNIST, RotatedFashionMNIST, RotatedEMNIST, RotatedCIFAR10, RotatedCIFAR100]
READY += [RotatedMiniImagenet, RotatedFEMNIST]


@pytest.mark.parametrize("cls", READY, ids=lambda cls: cls.__name__)
def test_every_rotated_dataset_can_leave_pixels_as_they_are(cls):
    """One option for all; by default nothing changes. The name tells the runs apart."""
    plain, raw = cls(), cls(normalise=False)
    assert plain.normalise and not raw.normalise
    assert (plain.name, raw.name) == (cls().name, f"{cls().name} (pixels in [0, 1])")
    channels = plain.input_shape[0]
    assert (raw.mean, raw.std) == ((0.0,) * channels, (1.0,) * channels)
    assert len(plain.mean) == len(plain.std) == channels and min(plain.mean) > 0 and max(plain.std) < 1


def test_unnormalised_pixels_are_stored_values_divided_by_the_largest(write_mnist, write_cifar, tmp_path):
    """As IFCA's code has them, X / 255; at every rotation and in both splits."""
    mnist = {split: (x[:, None], y) for split, (x, y) in write_mnist("MNIST").items()}
    for cls, written in ((RotatedMNIST, mnist), (RotatedCIFAR10, write_cifar(tv.CIFAR10))):
        data = cls(root=tmp_path, normalise=False, num_clusters=2, **SMALL)
        for cluster in range(2):
            x, _ = data.cluster_train(cluster).tensors()
            expected = np.rot90(written["train"][0], 2 * cluster, axes=(2, 3)) / 255
            np.testing.assert_allclose(x.numpy(), expected, rtol=0, atol=1e-7)
            x, _ = data.cluster_test(cluster).tensors()
            kept = data.cluster_test(cluster).parts[0][1].numpy()
            expected = np.rot90(written["test"][0][kept], 2 * cluster, axes=(2, 3)) / 255
            np.testing.assert_allclose(x.numpy(), expected, rtol=0, atol=1e-7)
    digits, _ = RotatedDigits(normalise=False).cluster_train(0).tensors()
    assert set((16 * digits).unique().tolist()) == set(range(17))


def test_a_dataset_by_its_class_path_can_too(monkeypatch):
    monkeypatch.setattr(tv, "Items", Items, raising=False)
    made = {"num_clusters": 2, **SMALL, "normalise": False}
    data = RotatedDataModule("Items", 2, (1, 6, 5), (0.5,), (0.2,), **made)
    x, _ = data.cluster_train(0).tensors()
    assert data.name == "Items (pixels in [0, 1])"
    assert (x * 255).round()[:, 0, 0, 0].tolist() == list(range(30))
    with pytest.raises(UserError, match="need 1 values"):
        RotatedDataModule("Items", 2, (1, 6, 5), (0.5, 0.5), (0.2, 0.2), **made)


@pytest.mark.parametrize(("split", "classes", "first"), [("letters", 26, 1), ("balanced", 47, 0), ("digits", 10, 0)])
def test_emnist_is_upright_and_starts_at_zero(split, classes, first, write_emnist, tmp_path):
    written = write_emnist(split, classes, first)
    data = RotatedEMNIST(split=split, num_clusters=2, root=tmp_path, **SMALL)
    assert data.num_classes == classes
    assert_holds(data, {s: (x.transpose(0, 2, 1)[:, None], y - first) for s, (x, y) in written.items()})


@pytest.mark.parametrize(("cls", "source"), [(RotatedCIFAR10, tv.CIFAR10), (RotatedCIFAR100, tv.CIFAR100)])
def test_cifar_batches(cls, source, write_cifar, tmp_path):
    written = write_cifar(source)
    data = cls(root=tmp_path, **SMALL)
    assert data.num_classes == {RotatedCIFAR10: 10, RotatedCIFAR100: 100}[cls]
    assert_holds(data, written)


def test_svhn_by_its_short_name_with_its_own_split_argument(write_svhn, tmp_path):
    written = write_svhn()
    data = RotatedDataModule("SVHN", 10, (3, 32, 32), (0.0,) * 3, (1.0,) * 3, root=str(tmp_path), **SMALL)
    assert_holds(data, written)


class Items:
    """A dataset that only yields PIL images, as ImageFolder does."""

    def __init__(self, root, train=True):
        self.train = train

    def __len__(self):
        return 30

    def __getitem__(self, i):
        return Image.fromarray(np.full((6, 5), i + 100 * (not self.train), np.uint8)), i % 2


def test_a_dataset_of_items_and_a_class_path(monkeypatch):
    monkeypatch.setattr(tv, "Items", Items, raising=False)
    data = RotatedDataModule("torchvision.datasets.Items", 2, (1, 6, 5), (0.0,), (1.0,), num_clusters=2, **SMALL)
    x, y = data.cluster_train(1).tensors()
    assert x.shape == (30, 1, 6, 5) and y.tolist() == [0, 1] * 15
    assert (x * 255).round()[:, 0, 0, 0].tolist() == list(range(30))


def test_image_size_resizes_before_rotating(write_mnist, tmp_path):
    write_mnist("MNIST")
    data = RotatedMNIST(root=tmp_path, image_size=32, num_clusters=2, **SMALL)
    assert data.input_shape == (1, 32, 32)
    x, _ = data.cluster_train(0).tensors()
    assert x.shape == (60, 1, 32, 32)
    torch.testing.assert_close(data.cluster_train(1).tensors()[0], torch.rot90(x, 2, (2, 3)))
    flat = (x * 0.3081 + 0.1307).mean((1, 2, 3))
    stored = tv.MNIST(tmp_path).data.float().mean((1, 2)) / 255
    torch.testing.assert_close(flat, stored, atol=0.01, rtol=0)


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    known = {image.tobytes(): label for image, label in zip(bunch.images, bunch.target, strict=True)}
    data = RotatedDigits(num_clusters=4)
    for view, turns in ((data.cluster_train(0), 0), (data.cluster_test(3), 3), (data.proxy(1), 1)):
        x, y = view.tensors()
        images = np.rint((np.rot90(x.numpy(), -turns, axes=(2, 3)) * 0.3764 + 0.3052) * 16)[:, 0]
        assert [known[np.ascontiguousarray(image, dtype=np.float64).tobytes()] for image in images] == y.tolist()
    x, _ = data.cluster_train(0).tensors()
    assert abs(x.mean()) < 1e-3 and abs(x.std() - 1) < 1e-3


def test_names_are_those_of_the_papers():
    with (files("flcluster.report.papers") / "cdfl_table1.csv").open() as table:
        papers = {row["dataset"] for row in csv.DictReader(table)}
    ours = {cls().name for cls in (RotatedFashionMNIST, RotatedCIFAR100, RotatedMiniImagenet, DigitRecognition)}
    assert ours == papers


# What is missing or broken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "file"),
    [
        (RotatedMNIST, "MNIST/raw/t10k-labels-idx1-ubyte"),
        (RotatedFashionMNIST, "FashionMNIST/raw/train-images-idx3-ubyte"),
        (RotatedEMNIST, "EMNIST/raw/emnist-balanced-test-labels-idx1-ubyte"),
        (RotatedCIFAR10, "cifar-10-batches-py/data_batch_5"),
        (RotatedCIFAR100, "cifar-100-python/test"),
    ],
)
def test_missing_files_are_named(cls, file, tmp_path):
    with pytest.raises(UserError, match=file) as caught:
        cls(root=tmp_path).setup()
    assert str(tmp_path) in str(caught.value) and "--data.download true" in str(caught.value)


def test_only_the_missing_file_is_named(write_mnist, tmp_path):
    write_mnist("MNIST")
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match="t10k-labels") as caught:
        RotatedMNIST(root=tmp_path, **SMALL).setup()
    assert "train-images" not in str(caught.value)


def test_a_truncated_file_is_called_broken(write_mnist, tmp_path):
    write_mnist("MNIST")
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte is broken: .* 60 x 28 x 28 bytes, but 46990"):
        RotatedMNIST(root=tmp_path, **SMALL).setup()


def test_a_wrong_checksum_is_called_broken(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(b"x")
    with pytest.raises(UserError, match=r"cifar-100-python/train is not the file that was published \(MD5 9dd4e461"):
        RotatedCIFAR100(root=tmp_path).setup()


def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch):
    from urllib.error import URLError

    def offline(*_, **__):
        raise URLError("no network")

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", offline)
    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", offline)
    for cls, file in ((RotatedMNIST, "MNIST/raw/train-images"), (RotatedCIFAR10, "cifar-10-batches-py/test_batch")):
        with pytest.raises(UserError, match=f"could not be downloaded into .*{file}"):
            cls(root=tmp_path, download=True).prepare_data()


def test_download_uses_torchvisions_code(write_mnist, tmp_path, monkeypatch):
    monkeypatch.setattr(tv.MNIST, "download", lambda self: None if self._check_exists() else write_mnist("MNIST"))
    data = RotatedMNIST(root=tmp_path, download=True, **SMALL)
    data.prepare_data()
    assert len(data.cluster_train(0)) == 60


def test_wrong_constants_are_explained(write_mnist, tmp_path):
    write_mnist("MNIST")
    common = {"mean": (0.0,), "std": (1.0,), "root": tmp_path, **SMALL}
    with pytest.raises(UserError, match=r"data.num_classes is 9.*use 10"):
        RotatedDataModule("MNIST", 9, (1, 28, 28), **common).setup()
    with pytest.raises(UserError, match=r"data.input_shape is \(1, 32, 32\).*\(28, 28\)"):
        RotatedDataModule("MNIST", 10, (1, 32, 32), **common).setup()
    for wrong in ("NoSuchSet", "no.such.module.Set"):
        with pytest.raises(UserError, match=f"data.dataset: there is no class '{wrong}'"):
            RotatedDataModule(wrong, 10, (1, 28, 28), **common).setup()
    with pytest.raises(UserError, match=r"data.dataset_kwargs: MNIST .*colour"):
        RotatedDataModule("MNIST", 10, (1, 28, 28), dataset_kwargs={"colour": 1}, **common).setup()
    with pytest.raises(UserError, match=r"data.split is 'Letters': .*letters"):
        RotatedEMNIST(split="Letters")
    with pytest.raises(UserError, match="need 3 values"):
        RotatedDataModule("CIFAR10", 10, (3, 32, 32), **common)
    with pytest.raises(UserError, match=r"data\.std"):
        RotatedDataModule("MNIST", 10, (1, 28, 28), (0.0,), (0.0,))


def test_oblong_images_cannot_be_turned_by_ninety_degrees():
    oblong = {"dataset": "MNIST", "num_classes": 10, "input_shape": (1, 20, 28), "mean": (0.0,), "std": (1.0,)}
    with pytest.raises(UserError, match=r"data.num_clusters=4 .*data.image_size=28"):
        RotatedDataModule(**oblong, num_clusters=4)
    assert RotatedDataModule(**oblong, num_clusters=4, image_size=28).input_shape == (1, 28, 28)
    assert RotatedDataModule(**oblong, num_clusters=2).input_shape == (1, 20, 28)
