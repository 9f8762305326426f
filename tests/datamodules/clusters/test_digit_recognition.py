from pathlib import Path

import numpy as np
import pytest

from flcluster.datamodules import DigitRecognition
from flcluster.datamodules.sources.ccpd import CCPDDigits, parse_name
from flcluster.errors import UserError

SMALL = {"samples": (5, 12), "proxy_size": 8, "test_size": 8, "num_clients": 6}
REAL_NAME = "025-95_113-154&383_386&473-386&473_177&454_154&383_363&402-0_0_22_27_27_33_16-37-15.jpg"


def raw(view):
    x, y = view.tensors()
    return np.rint((x.numpy() * 0.5 + 0.5) * 255).astype(int), y.numpy()


def test_a_published_name():
    corners, characters = parse_name(Path(REAL_NAME))
    assert corners == [(386, 473), (177, 454), (154, 383), (363, 402)]
    assert characters == [0, 0, 22, 27, 27, 33, 16]


def test_digits_are_cut_out_of_a_tilted_plate(write_ccpd, tmp_path):
    written = write_ccpd()
    for train, split in ((True, "train"), (False, "test")):
        data = CCPDDigits(str(tmp_path), train)
        assert data.data.shape == (30, 3, 32, 32)
        assert data.targets.tolist() == [digit for _, digit in written[split]]  # letters and both O left out
        for crop, (colour, _) in zip(data.data.numpy(), written[split], strict=True):
            middle = crop[:, :, 3:29].astype(int)  # the whole height lies on the plate, the width within a character
            np.testing.assert_allclose(middle, np.broadcast_to(colour[:, None, None], middle.shape), atol=12)


def test_the_first_two_characters_are_never_digits(write_ccpd, tmp_path):
    write_ccpd(plates=1)  # the second character has index 24: the letter O there, the digit 0 elsewhere
    assert len(CCPDDigits(str(tmp_path)).data) == 3


def test_three_domains(write_mnist, write_usps, write_svhn, write_ccpd, tmp_path):
    mnist, usps, svhn = write_mnist("MNIST"), write_usps(), write_svhn()
    ccpd = write_ccpd()
    data = DigitRecognition(root=tmp_path, **SMALL)
    assert (data.num_clusters, data.num_classes, data.input_shape) == (3, 10, (3, 32, 32))
    assert DigitRecognition().num_clients == 100

    x, y = raw(data.cluster_train(0))
    assert x.shape == (120, 3, 32, 32) and y.tolist() == [*mnist["train"][1], *usps["train"][1]]
    assert (x[:, 0] == x[:, 1]).all() and (x[:, 0] == x[:, 2]).all()
    for got, stored in ((x[:60], mnist), (x[60:], usps)):
        means = stored["train"][0].mean((1, 2))
        np.testing.assert_allclose(got[:, 0].mean((1, 2)), means, atol=3)
        assert abs(np.corrcoef(got[:, 0].mean((1, 2)), means)[0, 1]) > 0.9

    x, y = raw(data.cluster_train(1))
    np.testing.assert_array_equal(x, svhn["train"][0])
    np.testing.assert_array_equal(y, svhn["train"][1])
    kept = data.cluster_test(1).parts[0][1].numpy()
    np.testing.assert_array_equal(raw(data.cluster_test(1))[0], svhn["test"][0][kept])

    assert raw(data.cluster_train(2))[1].tolist() == [digit for _, digit in ccpd["train"]]
    for client in range(6):
        shard = data.shard(client)
        assert shard.train.tensors()[0].shape == (data.size(client), 3, 32, 32)
        assert 0.4 <= shard.mixture[client % 3] <= 0.9 + 1e-6
    for cluster in range(3):
        proxy, rest = data.proxy(cluster).parts[0][1], data.cluster_test(cluster).parts[0][1]
        total = len(data.cluster_test(cluster).parts[0][0])
        assert sorted([*proxy.tolist(), *rest.tolist()]) == list(range(total)) and len(proxy) == 8


def test_each_missing_part_is_named(write_mnist, write_usps, write_svhn, write_ccpd, tmp_path):
    data = DigitRecognition(root=tmp_path, **SMALL)
    for write, missing in (
        (lambda: write_mnist("MNIST"), "MNIST was not found .*MNIST/raw/train-images"),
        (write_usps, r"USPS was not found .*usps.bz2, usps.t.bz2"),
        (write_svhn, r"SVHN was not found .*train_32x32.mat"),
        (write_ccpd, r"CCPD was not found in .*ccpd.*ccpd/train/\*.jpg"),
    ):
        with pytest.raises(UserError, match=missing):
            data.setup()
        write()
    data.setup()


def test_broken_parts_are_named(write_mnist, write_usps, write_ccpd, tmp_path):
    write_mnist("MNIST"), write_usps(), write_ccpd(plates=2)
    (tmp_path / "usps.bz2").write_bytes(b"not bzip2")
    with pytest.raises(UserError, match=r"usps.bz2 cannot be read \(Invalid data stream\)"):
        DigitRecognition(root=tmp_path).setup()
    (tmp_path / "ccpd" / "train" / "holiday.jpg").write_bytes(b"")
    with pytest.raises(UserError, match=r"holiday.jpg does not have a name as CCPD gives it"):
        CCPDDigits(str(tmp_path))
    (tmp_path / "ccpd" / "train" / "holiday.jpg").rename(tmp_path / "ccpd" / "train" / REAL_NAME)
    with pytest.raises(UserError, match=r"37-15.jpg is not a readable image"):
        CCPDDigits(str(tmp_path))
