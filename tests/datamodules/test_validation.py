"""A validation split, if asked for: out of the training samples, in nobody's training and in no test; else none."""

import numpy as np
import pytest

from flcluster.data import labels_of
from flcluster.datamodules import Dirichlet, RotatedDigits, SkewedDigits, StreamDigits
from flcluster.errors import UserError

KINDS = {
    "mixed": lambda **kw: RotatedDigits(num_clusters=2, num_clients=6, **kw),
    "divided": lambda **kw: RotatedDigits(num_clusters=2, num_clients=6, samples=None, **kw),
    "skewed": lambda **kw: SkewedDigits(num_clients=6, partition=Dirichlet(alpha=1.0), **kw),
    "stream": lambda **kw: StreamDigits(num_clients=6, **kw),
}


def positions(view):
    """Which samples of which source a view holds; rotations of the same images are the same samples."""
    if view is None:
        return set()
    return {(len(source), i) for source, index in view.parts for i in index.tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_validates_neither_trains_nor_tests(kind):
    data, plain = KINDS[kind](val_share=0.2), KINDS[kind]()
    trained, tested, validated = set(), set(), set()
    for cycle in (0, 10, 25):
        for client in range(6):
            shard = data.shard(client, cycle)
            assert data.size(client, cycle) == len(shard.train) == data.sizes(cycle)[client]
            trained |= positions(shard.train)
            tested |= positions(shard.test)
            validated |= positions(shard.val)
    assert validated and not validated & (trained | positions(data.pool("train")))
    assert not validated & (positions(data.pool("test")) | positions(data.proxy(0)))
    if kind != "mixed":
        assert not validated & tested
    before = positions(plain.pool("train"))
    assert validated <= before and positions(data.pool("train")) < before
    assert len(before - positions(data.pool("train"))) == pytest.approx(0.2 * len(before), rel=0.15)
    assert positions(data.pool("test")) == positions(plain.pool("test"))
    again = KINDS[kind](val_share=0.2)
    assert positions(again.shard(3).val) == positions(data.shard(3).val)


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_validates_on_its_own_mix(kind):
    data = KINDS[kind](val_share=0.2)
    for client in range(6):
        shard = data.shard(client)
        held = len(shard.val) / (len(shard.train) + (0 if kind == "mixed" else len(shard.val)))
        assert held == pytest.approx(0.2, abs=0.12)
    counts = data.label_counts(np.arange(6), 0)
    assert counts.tolist() == [np.bincount(labels_of(data.shard(m).train), minlength=10).tolist() for m in range(6)]
    if kind == "mixed":
        sizes = [[len(index) for _, index in data.shard(m).val.parts] for m in range(6)]
        assert [int(np.argmax(size)) for size in sizes] == [int(data.shard(m).mixture.argmax()) for m in range(6)]


@pytest.mark.parametrize("kind", KINDS)
def test_without_it_there_is_none_and_all_is_as_before(kind):
    data = KINDS[kind]()
    assert data.shard(0).val is None and data.val_dataloader() == []
    asked = KINDS[kind](val_share=0.2)
    seen = sum(len(y) for _, y in asked.val_dataloader())
    assert seen == sum(len(asked.shard(m).val) for m in range(6)) > 0
    for share in (-0.1, 1.0):
        with pytest.raises(UserError, match=r"data\.val_share is"):
            KINDS[kind](val_share=share)
