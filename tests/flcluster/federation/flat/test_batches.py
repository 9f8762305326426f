"""Batches against the plain way to cut them: one permutation an epoch, one slice a batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.federation.flat import batches
from flcluster.federation.flat.batches import Plan, batches_of, chosen, orders_of
from flcluster.federation.jobs import Job
from flcluster.seeds import rng


def plainly(job, n, batch_norm):
    draw, out = rng(3, "train", job.client, job.cycle), []
    steps = job.steps
    for _ in range(job.epochs if steps is None else 99):
        order = draw.permutation(n)
        epoch = [order[at : at + job.batch_size].tolist() for at in range(0, n, job.batch_size)]
        out += [batch for batch in epoch if len(batch) > 1 or not batch_norm]
    return out if steps is None else out[:steps]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 17), st.integers(2, 6), st.integers(0, 3), st.sampled_from([None, 0, 1, 5, 9]), st.booleans())
def test_the_same_samples_in_the_same_batches(n, size, epochs, steps, batch_norm):
    job = Job(2, None, None, epochs, size, cycle=4, steps=steps)
    plan, x = Plan(job, n, batch_norm), torch.arange(n)[:, None].float()
    found = list(batches_of(plan, orders_of(job, 3, n, plan.epochs), x, torch.arange(n)))
    assert [y.tolist() for _, y in found] == plainly(job, n, batch_norm)
    assert all(a.flatten().tolist() == b.tolist() for a, b in found)
    assert plan.steps == len(found)


def test_large_clients_are_shuffled_epoch_by_epoch(monkeypatch):
    """Not several epochs in one copy, which would take as many times the memory."""
    job, asked = Job(2, None, None, 4, 4), []
    monkeypatch.setattr(batches, "AT_ONCE", 2 * 10 * 4)  # two epochs of ten numbers
    monkeypatch.setattr(batches, "chosen", lambda x, order: asked.append(len(order)) or x[order])
    plan = Plan(job, 10, False)
    assert len(list(batches_of(plan, orders_of(job, 0, 10, 4), torch.zeros(10), torch.zeros(10)))) == 12
    assert asked == [20, 20] * 2


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 1, 4, 5), (6, 7), (6,)])
def test_chosen_samples_lie_as_they_did(shape):
    x, order = torch.randn(*shape), torch.tensor([3, 3, 0])
    turned = x.mT.contiguous().mT if x.dim() == 2 else x
    for form in (x, x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else turned):
        found = chosen(form, order)
        assert torch.equal(found, form[order])
        assert found.stride() == form[order].stride()
