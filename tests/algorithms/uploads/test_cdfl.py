"""CDFL and CCFL: what is fresh, what is too old, what is clamped and filtered, and the server's work."""

import math
from dataclasses import replace

import pytest
import torch
from upload_methods import COMMON, cdfl_pair, close, make

from flcluster.algorithms import CCFL, CDFL, FedSoftAsync, Local
from flcluster.algorithms.uploads.history import History
from flcluster.errors import UserError


def test_a_cycle_is_as_many_epochs_as_clients_take_part(federation):
    """b = 0.5 cycles of six clients: uploads up to two epochs after the last are fresh, at three they are not."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0])
    loop, seen = make(federation, algorithm), {}
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        seen.setdefault(exchange.staleness, set()).add(exchange.fresh)
    assert seen[2] == {True} and seen[3] == {False}


def test_papers_b_never_bites_in_cycles(federation):
    """With τ0 the number of clients no upload that counts is older than one cycle."""
    loop = make(federation, CDFL(**COMMON))
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        assert exchange.fresh == (exchange.status == "accepted")


@pytest.mark.parametrize(
    ("algorithm", "title"),
    [
        (CDFL(), "CDFL"),
        (CCFL(staleness_unit="epochs"), "CCFL (staleness in epochs)"),
        (Local(), "Local"),
        (Local(start="own"), "Local (going on)"),
    ],
)
def test_readings_that_are_not_the_default_are_named(algorithm, title):
    assert algorithm.title == title


def test_a_first_upload_may_be_deprecated(federation, blobs, mlp, plain):
    """Without an estimate yet the reply is the plain mean of the clusters as they are, 1/K each."""
    algorithm, server, settings = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=2)
    loop = make(federation, algorithm)
    reference = server(plain, blobs(), mlp, **settings)
    first = {}
    for n, client in enumerate(loop.clients):
        first.setdefault(client, n)
    late = next(n for client, n in first.items() if n >= 3)
    for client in loop.clients[:late]:
        reference.arrive(client)
        loop.advance()
    before = loop.state.clusters.clone()
    (exchange,) = loop.advance()
    assert (exchange.status, exchange.estimate, exchange.fresh) == ("deprecated", None, False)
    assert torch.equal(loop.state.clusters, before)
    assert loop.state.weights[exchange.client].isnan().all()
    close(loop.starts[exchange.client], before.mean(0), "reply")
    assert loop.state.epoch == loop.epoch == late + 1


def test_equality_is_not_stale(federation):
    """t − τ = τ0 still counts; t − τ = τ0 + 1 does not."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=6)
    loop = make(federation, algorithm)
    seen = {}
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        seen.setdefault(exchange.staleness, set()).add(exchange.status)
    assert seen[6] == {"accepted"}
    assert seen[7] == {"deprecated"}


@pytest.mark.parametrize("cls", [CDFL, FedSoftAsync])
def test_the_default_limit_is_the_number_of_clients(cls, federation):
    loop = make(federation, cls(**{**COMMON, "local_epochs": 1, "pretrain_epochs": 0}))
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        assert (exchange.status == "deprecated") == (exchange.staleness > 6)


def test_the_servers_work_by_hand(federation):
    """CDFL: K·|D_k| forwards for the upload, |D_k| more for each cluster that moved, none when deprecated."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=4)
    loop = make(federation, algorithm)
    while loop.position < loop.total:
        before = loop.state.clusters
        (exchange,) = loop.advance()
        moved_clusters = int((loop.state.clusters != before).any(1).sum())
        assert exchange.server_compute == (0 if exchange.status == "deprecated" else 3 * 50 + 50 * moved_clusters)


def test_the_filter_compares_before_it_remembers(federation):
    """Above all of its history is refused even at the quantile 1, though it is itself the largest once remembered.

    α̂ and the reply do not feel it, no cluster changes, and what was refused is remembered as well.
    """
    loop = make(federation, CCFL(**COMMON, adjust_start=0.0, adjust_quantile=1.0, loss_bar=0.0))
    loop.state = replace(loop.state, history=History.of(torch.zeros(20, 3, 3, dtype=torch.float64)))
    before = loop.state
    (exchange,) = loop.advance()
    assert (exchange.status, exchange.extra["filtered"] > 0) == ("accepted", True)
    assert torch.equal(loop.state.clusters, before.clusters) and torch.equal(loop.state.changed, before.changed)
    assert exchange.estimate is not None
    history = loop.state.history.values()
    assert history.shape == (21, 3, 3) and (history[20] > 0).all()
    close(loop.starts[exchange.client], exchange.estimate.to(before.clusters) @ before.clusters, "reply")


@pytest.mark.parametrize("cls", [CDFL, FedSoftAsync])
def test_a_limit_of_zero_is_a_limit(cls, federation):
    """t − τ is at least 1, so with τ0 = 0 every upload is too old; it must not mean the default (or be refused)."""
    try:
        algorithm = cls(**COMMON, max_staleness=0)
    except UserError:
        return
    loop = make(federation, algorithm)
    assert loop.advance()[0].status == "deprecated"


def test_a_client_whose_training_diverges_is_refused(federation, mlp):
    """Infinite weights after training: NaN accuracy before, no estimate, and the run goes on."""
    loop = make(federation, CDFL(**{**COMMON, "pretrain_epochs": 0}), module=mlp(lr=1e30), look_ahead=4)
    clusters = loop.state.clusters.clone()
    exchanges = [loop.advance()[0] for _ in range(5)]
    assert {e.status for e in exchanges} == {"refused"}
    assert all(math.isnan(e.acc_before) and not math.isnan(e.acc_after) for e in exchanges)
    assert loop.epoch == 0
    assert torch.equal(loop.state.clusters, clusters)
