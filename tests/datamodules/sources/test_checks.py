"""What readers of published files refuse before they read, and that they read the rest as torchvision does."""

import bz2
import hashlib
import os
import pickle

import layouts
import numpy as np
import pytest
import torchvision.datasets as tv
from bad_data import bomb
from PIL import Image

from flcluster.datamodules import ImageFolderDataModule
from flcluster.datamodules.sources import cifar
from flcluster.datamodules.sources.cache import open_image
from flcluster.datamodules.sources.known import MNIST
from flcluster.datamodules.sources.loading import find_class
from flcluster.datamodules.sources.usps import USPS
from flcluster.errors import UserError


def test_digests_are_those_that_torchvision_publishes():
    told = {f"{cls.base_folder}/{name}": md5 for cls in (tv.CIFAR10, tv.CIFAR100) for name, md5 in cls.train_list}
    told |= {f"{cls.base_folder}/{name}": md5 for cls in (tv.CIFAR10, tv.CIFAR100) for name, md5 in cls.test_list}
    assert told == cifar.DIGESTS


@pytest.mark.parametrize("name", ["CIFAR10", "torchvision.datasets.CIFAR10", "torchvision.datasets.cifar.CIFAR10"])
def test_a_cifar_file_of_another_digest_is_never_opened(name, tmp_path):
    """Every way to name the class leads to our reader; a payload is not run."""

    class Payload:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    (tmp_path / "cifar-10-batches-py").mkdir()
    for file, _ in tv.CIFAR10.train_list:
        (tmp_path / "cifar-10-batches-py" / file).write_bytes(pickle.dumps(Payload()))
    assert find_class(name) is cifar.CIFAR10
    with pytest.raises(UserError, match=r"data_batch_1 is not the file that was published"):
        find_class(name)(str(tmp_path))
    assert not (tmp_path / "executed").exists()


def test_cifar_and_usps_are_what_torchvision_reads(tmp_path, monkeypatch):
    _, digests = layouts.write_cifar(tmp_path, tv.CIFAR10)
    monkeypatch.setattr(cifar, "DIGESTS", cifar.DIGESTS | digests)
    for split in ("train", "test"):
        files = [[name, digests[f"cifar-10-batches-py/{name}"]] for name, _ in getattr(tv.CIFAR10, f"{split}_list")]
        monkeypatch.setattr(tv.CIFAR10, f"{split}_list", files)
    monkeypatch.setattr(tv.CIFAR10, "_load_meta", lambda self: None)
    for train in (True, False):
        theirs, ours = tv.CIFAR10(tmp_path, train), cifar.CIFAR10(str(tmp_path), train)
        np.testing.assert_array_equal(ours.data.transpose(0, 2, 3, 1), theirs.data)
        assert ours.targets == theirs.targets
    rng = np.random.default_rng(0)
    rows = [[i % 10 + 1, *rng.uniform(-1, 1, 256).round(3)] for i in range(30)]
    text = "\n".join(" ".join([str(row[0]), *(f"{j}:{v}" for j, v in enumerate(row[1:], 1))]) for row in rows)
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(text.encode()))
    theirs, ours = tv.USPS(tmp_path, True), USPS(str(tmp_path), True)
    np.testing.assert_array_equal(ours.data, theirs.data)
    assert ours.targets.tolist() == theirs.targets


def test_a_line_of_usps_that_is_wrong_is_named_with_what_is_wrong(tmp_path):
    layouts.write_usps(tmp_path)
    lines = bz2.decompress((tmp_path / "usps.bz2").read_bytes()).decode().splitlines()
    for bad, told in (("soon", "could not convert string to float: 'soon'"), ("nan", "each in"), ("3", "each in")):
        harmed = [*lines[:4], lines[4].rpartition(":")[0] + f":{bad}", *lines[5:]]
        (tmp_path / "usps.bz2").write_bytes(bz2.compress("\n".join(harmed).encode()))
        with pytest.raises(UserError, match=rf"usps\.bz2, line 5: .*{told}"):
            USPS(str(tmp_path))


def test_images_and_labels_of_one_split_belong_together(tmp_path):
    written = layouts.write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    layouts.write_idx(path, written["train"][1][:-1])
    with pytest.raises(UserError, match=r"train-labels-idx1-ubyte: 60 images, but 59 labels"):
        MNIST.read(tmp_path, {})


def test_a_header_that_tells_of_too_many_pixels_is_refused_before_decoding(tmp_path):
    (tmp_path / "a.png").write_bytes(bomb())
    with pytest.raises(UserError, match=r"a.png is not a readable image \(.*(exceeds limit|too many)"):
        open_image(tmp_path / "a.png")
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "b.png")
    with pytest.raises(UserError, match=r"b.png .*more than 8 bits"):
        open_image(tmp_path / "b.png")


def test_a_link_in_a_circle_is_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat", target_is_directory=True)
    with pytest.raises(UserError, match=r"cat/again is a link to a folder that it lies in"):
        ImageFolderDataModule(tmp_path).setup()


def test_a_cache_of_another_checksum_is_refused(tmp_path):
    from flcluster.datamodules.sources.miniimagenet import MiniImagenet

    layouts.write_miniimagenet(tmp_path, classes=2, images=3, size=8)
    MiniImagenet(str(tmp_path), num_classes=2)
    path = tmp_path / "mini-imagenet-84.pt"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"mini-imagenet-84.pt is broken \(.*checksum|CRC"):
        MiniImagenet(str(tmp_path), num_classes=2)
    assert hashlib.md5(raw).digest() == hashlib.md5(path.read_bytes()).digest()  # nothing was written over it
