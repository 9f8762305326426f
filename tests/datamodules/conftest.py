"""Small files in the layouts that the datasets are published in; each fixture returns what writes them."""

from functools import partial

import layouts
import pytest
import torchvision.datasets as tv

from flcluster.datamodules.sources import cifar


@pytest.fixture
def write_mnist(tmp_path):
    return partial(layouts.write_mnist, tmp_path)


@pytest.fixture
def write_emnist(tmp_path):
    return partial(layouts.write_emnist, tmp_path)


@pytest.fixture
def write_cifar(tmp_path, monkeypatch):
    def write(cls):
        written, digests = layouts.write_cifar(tmp_path, cls)
        monkeypatch.setattr(cifar, "DIGESTS", cifar.DIGESTS | digests)
        return written

    return write


@pytest.fixture
def write_svhn(tmp_path, monkeypatch):
    def write():
        written, splits = layouts.write_svhn(tmp_path)
        monkeypatch.setattr(tv.SVHN, "split_list", splits)
        return written

    return write


@pytest.fixture
def write_usps(tmp_path):
    return partial(layouts.write_usps, tmp_path)


@pytest.fixture
def write_miniimagenet(tmp_path):
    return partial(layouts.write_miniimagenet, tmp_path)


@pytest.fixture
def write_ccpd(tmp_path):
    return partial(layouts.write_ccpd, tmp_path)
