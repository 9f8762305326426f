import shutil

import numpy as np
import pytest
import torch

from flcluster.datamodules import RotatedMiniImagenet
from flcluster.datamodules.sources.miniimagenet import MiniImagenet
from flcluster.errors import UserError


def test_pixels_labels_and_split_by_file_name(write_miniimagenet, tmp_path):
    written = write_miniimagenet(classes=3, images=10)
    for train, chosen in ((True, range(8)), (False, range(8, 10))):
        data = MiniImagenet(str(tmp_path), train, num_classes=3)
        expected = np.stack([written[label, i] for label in range(3) for i in chosen])
        np.testing.assert_array_equal(data.data.permute(0, 2, 3, 1).numpy(), expected)
        assert data.targets.tolist() == [label for label in range(3) for _ in chosen]
    assert [path.name for path in tmp_path.glob("*") if path.is_file()] == ["mini-imagenet-84.pt"]  # no draft left


def test_other_sizes_become_84(write_miniimagenet, tmp_path):
    write_miniimagenet(classes=1, images=5, size=100)
    assert MiniImagenet(str(tmp_path), num_classes=1).data.shape == (4, 3, 84, 84)


def test_the_cache_is_enough_and_is_renewed_when_files_change(write_miniimagenet, tmp_path):
    write_miniimagenet(classes=2, images=5)
    first = MiniImagenet(str(tmp_path), num_classes=2).data.clone()
    shutil.rmtree(tmp_path / "mini-imagenet")
    assert torch.equal(MiniImagenet(str(tmp_path), num_classes=2).data, first)
    write_miniimagenet(classes=3, images=5)
    assert len(MiniImagenet(str(tmp_path), num_classes=3).data) == 12


def test_as_a_datamodule(write_miniimagenet, tmp_path):
    written = write_miniimagenet(classes=3, images=10)
    data = RotatedMiniImagenet(
        num_classes=3, num_clusters=2, root=tmp_path, samples=(5, 9), proxy_size=2, test_size=3, num_clients=4
    )
    x, _ = data.cluster_train(1).tensors()
    mean, std = np.reshape((0.485, 0.456, 0.406), (3, 1, 1)), np.reshape((0.229, 0.224, 0.225), (3, 1, 1))
    turned = np.rot90(written[0, 0].transpose(2, 0, 1), 2, axes=(1, 2))
    np.testing.assert_array_equal(np.rint((x[0].numpy() * std + mean) * 255), turned)
    assert RotatedMiniImagenet().num_classes == 100


def test_missing_broken_and_too_few(write_miniimagenet, tmp_path):
    with pytest.raises(UserError, match=r"MiniImagenet was not found in .*mini-imagenet.*class folders"):
        RotatedMiniImagenet(root=tmp_path).setup()
    write_miniimagenet(classes=2, images=3)
    victim = tmp_path / "mini-imagenet" / "n00000001" / "image0001.png"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:200])
    with pytest.raises(UserError, match=r"image0001.png is not a readable image"):
        MiniImagenet(str(tmp_path))
    victim.write_bytes(whole)
    with pytest.raises(UserError, match=r"mini-imagenet has 2 class folders, but data.num_classes is 100"):
        RotatedMiniImagenet(root=tmp_path).prepare_data()
    cache = tmp_path / "mini-imagenet-84.pt"
    for broken in (cache.read_bytes()[:5000], b""):
        cache.write_bytes(broken)
        with pytest.raises(UserError, match=r"mini-imagenet-84.pt is broken .*delete it"):
            MiniImagenet(str(tmp_path))
    cache.unlink()
    (tmp_path / "mini-imagenet" / "n9").mkdir()
    with pytest.raises(UserError, match=r"n9 has 0 images"):
        MiniImagenet(str(tmp_path))
