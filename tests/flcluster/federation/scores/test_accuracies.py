"""Clients served by one model are scored in one pass, in large batches, and nothing is scored twice."""

import numpy as np
import pytest
import torch

from flcluster.data import View
from flcluster.federation.scores.lately import Lately


@pytest.fixture
def scored(federation, blobs, monkeypatch):
    """A federation, and how many samples each pass of it scores."""
    fed, sizes = federation(blobs(num_clients=9)), []
    own = fed.worker.score
    monkeypatch.setattr(fed.worker, "score", lambda part: sizes.append(len(part)) or own(part))
    return fed, sizes


def test_one_pass_a_model_and_source(scored):
    fed, sizes = scored
    tests = [fed.shard(client).test for client in range(9)]
    rows, which = fed.init_rows(2) * 3, [0, 1, 0, 0, 1, 1, 0, 1, 0]
    expected = [fed.accuracy(rows[k], test) for k, test in zip(which, tests, strict=True)]
    sizes.clear()
    assert fed.accuracies(rows, which, tests) == pytest.approx(expected, abs=0)
    pairs = {(k, id(source)) for k, test in zip(which, tests, strict=True) for source, _ in test.parts}
    assert len(sizes) == len(pairs) < 9 and sum(sizes) == sum(map(len, tests))


def test_what_did_not_change_is_not_scored_again(scored):
    fed, sizes = scored
    tests = [fed.shard(client).test for client in range(9)]
    rows, which = fed.init_rows(2) * 3, [0, 0, 0, 0, 1, 1, 1, 1, 1]
    first = fed.accuracies(rows, which, tests)
    sizes.clear()
    again = [View(tuple((source, index.clone()) for source, index in test.parts)) for test in tests]
    assert fed.accuracies(rows.clone(), which, again).tolist() == first.tolist() and sizes == []
    rows[1] += 1e-3
    fed.accuracies(rows, which, again)
    assert sum(sizes) == sum(map(len, tests[4:]))
    sizes.clear()
    source, index = again[0].parts[0]
    again[0] = View(((source, index[1:]), *again[0].parts[1:]))
    fed.accuracies(rows, which, again)
    assert 0 < sum(sizes) <= sum(map(len, again[:4]))


def test_without_samples_there_is_none(federation, blobs):
    fed = federation(blobs(num_clients=3))
    test = fed.shard(0).test
    nothing = View(tuple((source, index[:0]) for source, index in test.parts))
    found = fed.accuracies(fed.init_rows(1), [0, 0], [nothing, test])
    assert np.isnan(found[0]) and found[1] == fed.accuracy(fed.init_rows(1)[0], test)


def test_batches_are_large_for_small_models_and_inputs(federation, blobs, monkeypatch):
    fed, sizes = federation(blobs(num_clients=3)), []
    source, index = fed.shard(0).test.parts[0]
    many = View(((source, index[torch.zeros(5000, dtype=torch.int64)]),))
    own = fed.worker.score
    monkeypatch.setattr(fed.worker, "score", lambda part: sizes.append(len(part)) or own(part))
    fed.accuracies(fed.init_rows(1), [0], [many])
    assert sizes == [5000]
    fed.accuracy(fed.init_rows(1)[0], many)
    assert max(sizes[1:]) == 128


def test_a_shard_is_made_once(federation, blobs, monkeypatch):
    data, asked = blobs(num_clients=3), []
    own = data.shard
    data.shard = lambda client, cycle=0: asked.append((client, cycle)) or own(client, cycle)
    fed = federation(data)
    asked.clear()
    assert fed.shard(1, 2) is fed.shard(1, 2) and fed.shard(1) is not fed.shard(2)
    assert asked == [(1, 2), (1, 0), (2, 0)]


def test_the_oldest_make_room_and_what_is_too_large_is_kept_alone():
    lately = Lately(10, int)
    for size in (4, 5, 3, 4, 30):
        lately.get(size, lambda size=size: size)
        assert sum(lately.kept.values()) == lately.taken
    assert list(lately.kept) == [30]
