"""The ordered history of CCFL's filter against torch.quantile, and what it costs."""

import bisect
from dataclasses import replace

import numpy as np
import pytest
import torch

from flcluster.algorithms.uploads import history as module
from flcluster.algorithms.uploads.cdfl import CCFL, CDFLState
from flcluster.algorithms.uploads.history import History
from flcluster.engine.loops.guard import broken


def drawn(entries, K, seed, grid=False):
    """Values of past uploads; on a grid many are equal."""
    draw = np.random.default_rng(seed)
    found = draw.normal(scale=10.0, size=(entries, K, 3))
    return torch.from_numpy(found.round() if grid else found)


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("K", [1, 2, 3, 4, 7])
def test_quantiles_are_torchs_to_the_last_bit(K, grid):
    past = drawn(150, K, K, grid)
    kept = History.of(past[:0])
    for n in range(1, 151):
        kept = kept.added(past[n - 1])
        for q in (0.0, 0.1, 0.3, 0.5, 0.7, 0.95, 1.0):
            assert torch.equal(kept.quantile(q), torch.quantile(past[:n], q, dim=0)), (n, q)
    assert torch.equal(kept.values(), past) and len(kept) == 150 and torch.equal(kept.newest, past[-1])


def test_a_version_is_not_changed_by_what_is_added_to_it():
    past, more = drawn(30, 2, 0), drawn(40, 2, 1)
    first = History.of(past)
    undone = first.added(more[0])
    kept = first.added(more[1]).added(more[2])
    for version, rows in ((first, past), (undone, [*past, more[0]]), (kept, [*past, more[1], more[2]])):
        rows = torch.stack(list(rows))
        assert torch.equal(version.values(), rows)
        assert torch.equal(version.quantile(0.7), torch.quantile(rows, 0.7, dim=0))


def test_adding_sorts_nothing_and_looks_at_few(monkeypatch):
    """Nothing is sorted, and of n numbers each insertion looks at about log2 n."""
    kept, looked = History.of(drawn(4096, 2, 3)), []

    class Counted(float):
        def __lt__(self, other):
            looked.append(other)
            return float(self) < other

    def never(*args, **kwargs):
        raise AssertionError("sorted")

    monkeypatch.setattr(module, "insort", lambda column, value: bisect.insort(column, Counted(value)))
    for name in ("sort", "argsort", "quantile"):
        monkeypatch.setattr(torch, name, never)
        monkeypatch.setattr(torch.Tensor, name, never)
    monkeypatch.setattr(module, "sorted", never, raising=False)
    kept.added(torch.full((2, 3), 0.5)).quantile(0.7)
    assert 0 < len(looked) <= 6 * 13


def test_a_checkpoint_holds_the_values_as_they_came():
    """As before there was an order: a run that an older flcluster left goes on."""
    past, empty = drawn(25, 2, 4), torch.zeros(2)
    state = CDFLState(25, torch.zeros(2, 5), empty, empty, torch.zeros(6, 2), History.of(past[:24]), torch.zeros(5))
    state = replace(state, history=state.history.added(past[24]))
    saved = CCFL().pack(state)
    assert torch.equal(saved["history"], past)
    again = CCFL().unpack(saved, torch.zeros(5))
    assert torch.equal(again.history.quantile(0.7), torch.quantile(past, 0.7, dim=0))


def test_a_value_that_is_not_finite_is_found():
    """The run looks for such numbers in the state: those of the last upload are there."""
    before = History.of(drawn(3, 2, 5))
    assert broken({"history": before}, {"history": before.added(torch.zeros(2, 3))}) is None
    assert broken({"history": before}, {"history": before.added(torch.full((2, 3), torch.inf))}) == "newest"
