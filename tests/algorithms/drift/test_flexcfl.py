"""FlexCFL: grouping against scikit-learn as its public code calls it, founding, joining and shifting by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from lightning import LightningModule
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import cosine_similarity
from torch import nn

from flcluster.algorithms import FlexCFL
from flcluster.algorithms.drift import flexcfl
from flcluster.algorithms.drift.flexcfl import drawn_together, gram, group_means, grouped
from flcluster.devices.profiles import Devices, Profile
from flcluster.federation.bank import Table

COMMON = {"local_epochs": 1, "batch_size": 8}


def table(matrix):
    out = Table(*matrix.shape)
    for i, row in enumerate(matrix):
        out[i] = torch.tensor(row, dtype=torch.float32)
    return out


def updates_in_groups(n, width, count, seed, noise=0.3):
    """Updates of different lengths around some directions, and which each belongs to."""
    draw = np.random.default_rng(seed)
    directions, truth = draw.normal(size=(count, width)), draw.integers(count, size=n)
    length = draw.uniform(0.1, 3.0, (n, 1))
    return (length * (directions[truth] + noise * draw.normal(size=(n, width)))).astype(np.float32), truth


# ------------------------------------------------------------------------------------------------------------ grouping


@pytest.mark.parametrize("n", [1, 16, 37])
def test_gram_is_all_products(n):
    """More than two blocks of rows."""
    matrix, _ = updates_in_groups(n, 50, 3, 0)
    np.testing.assert_allclose(
        gram(table(matrix), matrix.shape[1]), matrix.astype(np.float64) @ matrix.T, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("count", [2, 3, 5])
def test_cosines_are_those_to_the_singular_directions(count, monkeypatch):
    """cosine_similarity(DW, TruncatedSVD(m).fit_transform(DWᵀ)ᵀ), column by column up to the sign."""
    matrix, _ = updates_in_groups(40, 60, count, count, noise=0.8)
    directions = TruncatedSVD(count, algorithm="arpack", random_state=0).fit_transform(matrix.T)
    expected, seen = cosine_similarity(matrix, directions.T), []

    class Noting(KMeans):
        def fit(self, X, *args, **kwargs):
            seen.append((X.copy(), self.n_clusters, self.max_iter))
            return super().fit(X, *args, **kwargs)

    monkeypatch.setattr(flexcfl, "KMeans", Noting)
    grouped(gram(table(matrix), matrix.shape[1]), count, 0)
    ((found, clusters, most),) = seen
    assert (clusters, most) == (count, 20)
    assert found.shape == expected.shape
    for j in range(count):
        assert min(np.abs(found[:, j] - sign * expected[:, j]).max() for sign in (1, -1)) < 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_found(seed):
    """Whatever the updates' lengths; the same as k-means on scikit-learn's cosines."""
    matrix, truth = updates_in_groups(45, 80, 3, seed)
    found = grouped(gram(table(matrix), matrix.shape[1]), 3, seed)
    assert adjusted_rand_score(truth, found) == 1
    directions = TruncatedSVD(3, random_state=0).fit_transform(matrix.T)
    other = KMeans(3, n_init=10, random_state=0).fit(cosine_similarity(matrix, directions.T)).labels_
    assert adjusted_rand_score(other, found) == 1
    assert sorted(set(found.tolist())) == [0, 1, 2]
    assert found.tolist() == grouped(gram(table(matrix), matrix.shape[1]), 3, seed).tolist()


def test_an_update_of_nothing_does_no_harm():
    matrix, _ = updates_in_groups(12, 30, 2, 1)
    matrix[4] = 0
    found = grouped(gram(table(matrix), matrix.shape[1]), 2, 0)
    assert len(found) == 12


def test_group_means_are_means():
    matrix, truth = updates_in_groups(20, 7, 3, 2)
    expected = np.stack([matrix[truth == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(group_means(table(matrix), truth).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_groups_are_drawn_together():
    """w_g ← (w_g + Σ_{j≠g} (η/‖w_j‖) w_j) / (1 + Σ_{j≠g} η/‖w_j‖), by hand for ‖w‖ = 5 and 2, η = 1.

    First: ((3, 4) + ½·(0, 2)) / 1.5 = (2, 10/3); second: ((0, 2) + ⅕·(3, 4)) / 1.2 = (.5, 7/3).
    """
    models = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    torch.testing.assert_close(drawn_together(models, 1.0), torch.tensor([[2.0, 10 / 3], [0.5, 7 / 3]]))
    torch.testing.assert_close(drawn_together(models, 0.0), models)


# ------------------------------------------------------------------------------------------------------------ founding


def kinds(script, clients=9, **changes):
    """Clients with two labels each, of three kinds in turn."""
    story = {0: {m: [m % 3] * (8 + m) + [(m % 3 + 1) % 4] * 4 for m in range(clients)}, **changes}
    return script(story, clients=clients)


def test_the_public_codes_defaults():
    flex = FlexCFL()
    assert (flex.pretrain_steps, flex.founders, flex.shift, flex.group_lr) == (50, 20, 0.2, 0.0)


def test_groups_begin_as_the_mean_of_their_founders_pre_trained_weights(script, federate, spied):
    """With 20·m ≥ N everyone is a founder: 50 steps from the one initialisation each."""
    fed = federate(kinds(script))
    log = spied(fed)
    algorithm = FlexCFL(**COMMON, num_clusters=3)
    state = algorithm.init(fed)
    initial = fed.init_rows(1)[0]
    assert [job.client for job, _ in log] == list(range(9))
    assert all(torch.equal(job.start, initial) and (job.steps, job.batch_size) == (50, 8) for job, _ in log)
    rows = torch.stack([row for _, row in log])
    assert {frozenset(np.flatnonzero(state.labels == k).tolist()) for k in range(3)} == {
        frozenset(range(k, 9, 3)) for k in range(3)
    }
    for k in range(3):
        members = rows[state.labels == k]
        torch.testing.assert_close(state.models[k], members.mean(0), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(state.directions[k], (members - initial).mean(0), rtol=1e-5, atol=1e-6)


def test_the_others_join_by_cosine(script, federate, spied):
    """Six founders; each of the others pre-trains from the initialisation and joins where (1 − cos)/2 is smallest."""
    fed = federate(kinds(script, clients=14))
    log = spied(fed)
    algorithm = FlexCFL(**COMMON, num_clusters=3, founders=2, pretrain_steps=20)
    state = algorithm.init(fed)
    founders, others = [job.client for job, _ in log[:6]], [job.client for job, _ in log[6:]]
    assert sorted(founders + others) == list(range(14))
    initial = fed.init_rows(1)[0]
    rows = {job.client: row for job, row in log}
    directions = torch.stack(
        [torch.stack([rows[m] - initial for m in founders if state.labels[m] == k]).mean(0) for k in range(3)]
    )
    torch.testing.assert_close(state.directions, directions, rtol=1e-5, atol=1e-6)
    cosines = cosine_similarity(torch.stack([rows[m] - initial for m in range(14)]).numpy(), directions.numpy())
    for m in others:
        assert state.labels[m] == int(((1 - cosines[m]) / 2).argmin())
    for k in range(3):  # who joins later does not change the group's first model
        torch.testing.assert_close(state.models[k], initial + directions[k], rtol=1e-5, atol=1e-6)


def test_fewer_clients_than_groups(script, federate):
    state = FlexCFL(**COMMON, num_clusters=4, pretrain_steps=5).init(federate(script({0: {0: [0] * 8, 1: [1] * 8}})))
    assert len(state.models) <= 2


# ------------------------------------------------------------------------------------------------------------ shifting


def test_a_client_whose_labels_shift_joins_again(script, federate, spied):
    """L1 of its label shares to those it joined with, above .2; what it drifted by before counts.

    Client 0: .1 (one of twenty samples changes its label): stays. Client 1: .3: joins again. Then client 0 goes on by
    .2, which makes .3 from where it joined: joins again; client 1 by .1 from where it last joined: stays.
    """
    held = {m: [m % 3] * 20 for m in range(9)}
    now = {0: [0] * 19 + [3], 1: [1] * 17 + [3] * 3}
    then = {0: [0] * 17 + [3] * 3, 1: [1] * 16 + [3] * 4}
    fed = federate(script({0: held, 1: now, 2: then}))
    algorithm = FlexCFL(**COMMON, num_clusters=3, pretrain_steps=10)
    state = algorithm.init(fed)
    log = spied(fed)
    state, seconds = algorithm.follow(state, 1, fed)
    assert seconds == 0
    assert [job.client for job, _ in log] == [1]
    assert torch.equal(log[0][0].start, state.initial)
    state, _ = algorithm.follow(state, 2, fed)
    assert [job.client for job, _ in log] == [1, 0]


@pytest.mark.parametrize("samples", [10, 20, 40])
def test_a_shift_of_exactly_the_threshold_does_not_exceed_it(samples, script, federate, spied):
    """A tenth of the samples change their label: L1 = .2."""
    few = samples // 10
    held = {m: [m % 3] * samples for m in range(6)}
    fed = federate(script({0: held, 1: {0: [0] * (samples - few) + [3] * few}}))
    algorithm = FlexCFL(**COMMON, num_clusters=3, pretrain_steps=5)
    state = algorithm.init(fed)
    log = spied(fed)
    algorithm.follow(state, 1, fed)
    assert not log


def test_a_client_that_becomes_like_another_group_goes_there(script, federate):
    """Groups are fixed in number and direction; only who belongs where changes. Clients without data stay."""
    held = {m: [m % 3] * 20 for m in range(9)}
    fed = federate(script({0: held, 1: {0: [1] * 20, 4: []}}))
    algorithm = FlexCFL(**COMMON, num_clusters=3, pretrain_steps=20)
    state = algorithm.init(fed)
    before = replace(state)
    state, done = algorithm.step(state, 1, fed)
    assert state.labels[0] == before.labels[1] != before.labels[0]
    assert state.labels[1:].tolist() == before.labels[1:].tolist()
    assert torch.equal(state.directions, before.directions)
    assert len(state.models) == 3
    assert algorithm.gauges(state)["moved"] == 1
    assert 4 not in [r.client for r in done.results]


def test_a_client_that_comes_later_joins(script, federate):
    held = {m: [m % 3] * 20 for m in range(9)}
    fed = federate(script({0: held, 2: {9: [2] * 20}}))
    algorithm = FlexCFL(**COMMON, num_clusters=3, pretrain_steps=20)
    state = algorithm.init(fed)
    assert state.labels[9] == -1
    state, _ = algorithm.follow(state, 2, fed)
    assert state.labels[9] == state.labels[2]
    assert algorithm.gauges(state)["moved"] == 0


def test_rounds_average_by_size_within_groups(script, federate, spied):
    fed = federate(kinds(script))
    algorithm = FlexCFL(**COMMON, num_clusters=3, pretrain_steps=10)
    state = algorithm.init(fed)
    log = spied(fed)
    after, _ = algorithm.step(state, 0, fed)
    for k in range(3):
        mine = [(len(job.view), row) for job, row in log if state.labels[job.client] == k]
        expected = sum(n * row.double() for n, row in mine) / sum(n for n, _ in mine)
        torch.testing.assert_close(after.models[k].double(), expected, rtol=1e-5, atol=1e-6)


class Given(Devices):
    """Devices as the test has them."""

    def __init__(self, ms, kbps):
        self.ms, self.kbps = np.array(ms, dtype=float), np.array(kbps, dtype=float)

    def profile(self, clients, seed):
        return Profile(self.ms, self.kbps)


def test_joining_takes_as_long_as_the_slowest(script, federate):
    """Twelve samples in batches of 8, 10 steps: 60 samples of three passes; a model down and up. Only joiners count."""
    fed = federate(script({0: {m: [m % 2] * 12 for m in range(4)}, 1: {0: [1] * 12, 1: [0] * 12}}))
    algorithm = FlexCFL(**COMMON, num_clusters=2, pretrain_steps=10, devices=Given([5, 1, 1e9, 1e9], [1.0, 0.5, 1, 1]))
    state = algorithm.init(fed)
    kilobits = 2 * 4 * fed.layout.size * 8 / 1000
    expected = max(180 * 5 / 1000 + kilobits, 180 * 1 / 1000 + kilobits / 0.5)
    assert algorithm.follow(state, 1, fed)[1] == pytest.approx(expected)


class Normed(LightningModule):
    """A small network with BatchNorm."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_statistics_do_not_decide_who_belongs_together(script, federate, monkeypatch):
    """Updates whose parameters make groups 0–3 and 4–7, and whose large running statistics make even and odd ones.

    Distances look at parameters only; who joins later is compared by them too.
    """
    fed = federate(script({0: {m: [0, 1, 2, 3] * 3 for m in range(8)}}), module=Normed())
    width, draw = fed.layout.num_parameters, torch.Generator().manual_seed(0)
    directions = torch.randn(2, width, generator=draw)

    def updates(self, initial, clients, t, fed):
        for m in clients.tolist():
            statistics = 1000.0 * torch.ones(len(initial) - width) * (1 if m % 2 else -1)
            yield torch.cat([directions[m // 4] + 0.1 * torch.randn(width, generator=draw), statistics])

    monkeypatch.setattr(FlexCFL, "updates", updates)
    labels = FlexCFL(**COMMON, num_clusters=2).init(fed).labels.tolist()
    assert adjusted_rand_score([0] * 4 + [1] * 4, labels) == 1


def test_joining_costs_a_model_each_way_and_the_pre_training(script, federate):
    """Twelve samples in batches of 8: 10 steps are five passes, 60 samples, three forward passes each."""
    fed = federate(script({0: {m: [m % 2] * 12 for m in range(4)}}))
    algorithm = FlexCFL(**COMMON, num_clusters=2, pretrain_steps=10)
    gauges = algorithm.gauges(algorithm.init(fed))
    assert gauges["report_bytes"] == 4 * 2 * 4 * fed.layout.size
    assert gauges["report_compute"] == 4 * 3 * 60
