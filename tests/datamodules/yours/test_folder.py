"""Folders of images: splits, classes, normalisation, clients by file names, and how much is read at a time."""

import numpy as np
import pytest
import torch
from PIL import Image

from flcluster.data import labels_of
from flcluster.datamodules import IID, Dirichlet, ImageFolderDataModule
from flcluster.datamodules.yours import folder as module
from flcluster.errors import UserError

PLAIN = {"mean": (0.0,) * 3, "std": (1.0,) * 3}


def write(root, images, classes=("ant", "bee"), size=10, first=0):
    """Flat PNG images; the red of each tells which it is."""
    for i in range(images):
        place = root / classes[i % len(classes)]
        place.mkdir(parents=True, exist_ok=True)
        colour = np.full((size, size + 4, 3), (first + i, 100, 50 * (i % 2)), np.uint8)
        Image.fromarray(colour).save(place / f"w{i % 3}_{i:03d}.png")


def reds(view):
    return sorted((view.tensors()[0][:, 0, 0, 0] * 255).round().int().tolist())


def test_splits_that_lie_in_folders(tmp_path):
    write(tmp_path / "train", 24)
    write(tmp_path / "test", 8, first=100)
    write(tmp_path / "val", 4, first=200)
    data = ImageFolderDataModule(tmp_path, image_size=6, partition=Dirichlet(alpha=5.0), num_clients=2, **PLAIN)
    assert (data.num_classes, data.input_shape, data.class_names) == (2, (3, 6, 6), ("ant", "bee"))
    assert reds(data.pool("train")) == list(range(24)) and reds(data.pool("test")) == list(range(100, 108))
    assert sorted(red for m in range(2) for red in reds(data.shard(m).val)) == [200, 201, 202, 203]
    x, y = data.shard(0).train.tensors()
    assert (
        torch.equal((x[:, 0, 0, 0] * 255).round().long() % 2, y)
        and labels_of(data.shard(0).train).tolist() == y.tolist()
    )
    assert x.dtype == torch.float32 and x.shape[1:] == (3, 6, 6) and data.name == tmp_path.name


def test_one_folder_of_classes_is_split(tmp_path):
    write(tmp_path, 20)
    data = ImageFolderDataModule(tmp_path, image_size=6, partition=IID(), num_clients=2, val_share=0.1, **PLAIN)
    shards = [data.shard(m) for m in range(2)]
    assert [[len(v) for v in (s.train, s.val, s.test)] for s in shards] == [[7, 1, 2]] * 2
    assert sorted(r for s in shards for v in (s.train, s.val, s.test) for r in reds(v)) == list(range(20))


def test_clients_by_the_names_of_files(tmp_path):
    write(tmp_path / "train", 24)
    write(tmp_path / "test", 12, first=30)
    data = ImageFolderDataModule(tmp_path, image_size=6, clients=r"/(w\d)_", **PLAIN)
    assert data.client_names == ("w0", "w1", "w2")
    for client in range(3):
        assert {red % 3 for red in reds(data.shard(client).train) + reds(data.shard(client).test)} == {client}


def test_mean_and_std_are_those_of_the_training_images_and_kept(tmp_path, monkeypatch):
    write(tmp_path / "train", 20)
    write(tmp_path / "test", 6, first=200)
    data = ImageFolderDataModule(tmp_path, image_size=10, partition=IID(), num_clients=2)
    data.prepare_data()
    x, _ = data.pool("train").tensors()
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0)[::2], torch.ones(2), atol=1e-3, rtol=0)
    monkeypatch.setattr(module, "moments", lambda pictures: pytest.fail("they are kept in a file"))
    again = ImageFolderDataModule(tmp_path, image_size=10, partition=IID(), num_clients=2)
    assert torch.equal(again.pool("train").tensors()[0], x)


def test_training_images_are_transformed_before_they_are_normalised(tmp_path):
    write(tmp_path, 10)
    seen = []

    def flip(image):
        seen.append((float(image.min()), float(image.max())))
        return 1 - image

    data = ImageFolderDataModule(
        tmp_path, 6, (0.5,) * 3, (0.5,) * 3, partition=IID(), num_clients=1, train_transform=flip, batch_size=8
    )
    (x, _) = next(iter(data.client_dataloader(0)))
    plain, _ = data.shard(0).train.tensors()
    assert len(seen) == 8 and min(low for low, _ in seen) >= 0 and max(high for _, high in seen) <= 1
    assert sorted(x[:, 0, 0, 0].tolist()) == pytest.approx(sorted((-plain[:, 0, 0, 0]).tolist()), abs=1e-5)


def test_files_are_read_batch_by_batch(tmp_path, monkeypatch):
    write(tmp_path, 40)
    opened, real = [], module.open_image
    monkeypatch.setattr(module, "open_image", lambda path: opened.append(path) or real(path))
    data = ImageFolderDataModule(tmp_path, 6, partition=IID(), num_clients=1, batch_size=4, test_share=0.1, **PLAIN)
    batches = iter(data.client_dataloader(0))
    assert opened == []
    for n in range(1, 10):
        next(batches)
        assert len(opened) == 4 * n
    assert next(batches, None) is None


def test_a_class_without_test_images_keeps_the_others_in_place(tmp_path):
    write(tmp_path / "train", 12, classes=("ant", "bee", "cat"))
    write(tmp_path / "test", 4, classes=("bee", "cat"))
    data = ImageFolderDataModule(tmp_path, 6, partition=IID(), num_clients=1, **PLAIN)
    assert set(labels_of(data.pool("test"))) == {1, 2}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"root": "nowhere"}, "there is no folder"),
        ({"mean": None}, "go together"),
        ({"std": (1.0, 1.0, 0.0)}, "every value must be above 0"),
        ({"clients": "(x)"}, "finds no client in"),
        ({"clients": "x"}, "has no group"),
        ({"clients": "(x"}, "is no regular expression"),
        ({"partition": None}, "data.partition is missing"),
    ],
)
def test_what_cannot_be_is_told(change, told, tmp_path):
    write(tmp_path, 6)
    with pytest.raises(UserError) as caught:
        ImageFolderDataModule(**{"root": tmp_path, "partition": IID(), "num_clients": 2, **PLAIN, **change}).setup()
    assert told in str(caught.value)


def test_folders_that_hold_no_classes_or_strange_ones(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no folder of images for each class"):
        ImageFolderDataModule(tmp_path / "empty", partition=IID(), **PLAIN).setup()
    write(tmp_path / "both" / "train", 6)
    write(tmp_path / "both" / "test", 6, classes=("ant", "wasp"))
    with pytest.raises(UserError, match="not in the training folder: wasp"):
        ImageFolderDataModule(tmp_path / "both", partition=IID(), **PLAIN).setup()
