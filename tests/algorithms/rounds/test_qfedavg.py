"""q-FFL's steps against plain loops over clients, and a round of q-FedAvg."""

import pytest
import torch
from by_hand import COMMON, close, combine, rows, two_kinds
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.algorithms import Average, QFair, QFedAvg, Yogi
from flcluster.federation.jobs import Trained

EXAMPLES = settings(deadline=None, max_examples=60, database=None)


def plain_qfair(old, trained, losses, q, lr):
    """One cluster: w − Σ f^q δ / Σ (q f^(q−1) ‖δ‖² + L f^q) with δ = L (w − w_k), L = 1/lr."""
    top, bottom, L = [0.0] * len(old), 0.0, 1 / lr
    for row, f in zip(trained, losses, strict=True):
        delta = [L * (a - b) for a, b in zip(old, row, strict=True)]
        top = [s + f**q * d for s, d in zip(top, delta, strict=True)]
        bottom += q * f ** (q - 1) * sum(d * d for d in delta) + L * f**q
    return [w - s / bottom for w, s in zip(old, top, strict=True)]


@st.composite
def clients(draw):
    n = draw(st.integers(1, 5))
    numbers = st.integers(-20, 20).map(lambda v: v / 8)
    trained = draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=n, max_size=n))
    losses = draw(st.lists(st.integers(1, 40).map(lambda v: v / 10), min_size=n, max_size=n))
    return trained, losses


@EXAMPLES
@given(clients(), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from([0.05, 0.5]))
def test_qfair_follows_the_formula_per_cluster(found, q, lr):
    trained, losses = found
    old = rows([0.5, -1.0, 2.0], [1.0, 1.0, 1.0], [-1.0, 0.0, 0.25])
    results = [
        Trained(m, torch.tensor(row), 1 + m, 1, 9.9, start_loss=f)
        for m, (row, f) in enumerate(zip(trained, losses, strict=True))
    ]
    labels = [2 * (m % 2) for m in range(len(results))]
    models, _ = combine(QFair(q), results, labels, old, lr=lr)
    for k in (0, 2):
        mine = [m for m, label in enumerate(labels) if label == k]
        if mine:
            expected = plain_qfair(old[k].tolist(), [trained[m] for m in mine], [losses[m] for m in mine], q, lr)
            close(models[k], expected, 1e-4)
    assert torch.equal(models[1], old[1])


def test_qfair_without_fairness_is_the_plain_mean(result):
    """q = 0: Σ L (w − w_k) / Σ L, whatever the losses and sizes."""
    old = rows([5.0, 5.0])
    trained = [result(0, [1, 2], 1, start_loss=0.01), result(1, [3, 6], 50, start_loss=8.0)]
    close(combine(QFair(0.0), trained, [0, 0], old, lr=0.05)[0], [[2, 4]])


def test_qfair_asks_for_the_loss_of_the_received_model():
    assert QFair.needs_start_loss
    assert not Average.needs_start_loss
    assert not Yogi.needs_start_loss
    assert QFair().q == 1.0


@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
def test_a_larger_loss_weighs_more(q, result):
    """Two clients pull equally far in two directions; the share of the pull is that of f^q."""
    old = rows([0.0, 0.0])
    trained = [result(0, [1, 0], start_loss=2.0), result(1, [0, 1], start_loss=0.5)]
    (model,), _ = combine(QFair(q), trained, [0, 0], old)
    assert float(model[0] / model[1]) == pytest.approx(4.0**q, rel=1e-4)
    assert 0 < float(model[1]) < float(model[0]) < 1


def test_qfair_averages_statistics_and_does_not_measure_them(result):
    """The last number is a BatchNorm statistic: its large change must not shrink the step."""
    old = rows([1.0, 2.0, 1000.0])
    trained = [result(0, [0.5, 2.0, 0.0], start_loss=1.0), result(1, [0.0, 3.0, 10.0], start_loss=2.0)]
    models, _ = combine(QFair(), trained, [0, 0], old, parameters=2, lr=0.1)
    close(models[0, :2], plain_qfair([1.0, 2.0], [[0.5, 2.0], [0.0, 3.0]], [1.0, 2.0], 1.0, 0.1))
    assert float(models[0, 2]) == 5.0


def test_qfedavg_takes_losses_at_the_received_model(script, federate, spied):
    """w − Σ f δ / Σ (‖δ‖² + L f), δ = L (w − w_k), L one over the decayed learning rate; f on all training data."""
    fed = federate(two_kinds(script), lr=0.2)
    algorithm = QFedAvg(**COMMON, lr_decay=0.5)
    state = algorithm.init(fed)
    log = spied(fed)
    after, done = algorithm.step(state, 1, fed)
    w, L = state.models[0].double(), 1 / (0.2 * 0.5)
    top, bottom = torch.zeros_like(w), 0.0
    for job, row in log:
        f = fed.loss(state.models[0], fed.data.shard(job.client, 1).train)
        delta = L * (w - row.double())
        top, bottom = top + f * delta, bottom + float(delta @ delta) + L * f
    torch.testing.assert_close(after.models[0].double(), w - top / bottom, rtol=1e-5, atol=1e-6)
    assert [done.cost(i) for i in range(10)] == [(1, 1, 1)] * 10  # looking at the losses costs
