"""Clients that choose a model by its loss, first models that attract everyone, and IFCA on both: by brute force."""

import math

import numpy as np
import pytest
import torch
from replay import scores

from flcluster.algorithms import DFCA, IFCA
from flcluster.algorithms.rounds.choice import best_of, first_models, ifca_style_accuracy, scored
from flcluster.data import Shard, View
from flcluster.errors import UserError

CLASSES, PIXELS = 3, 6
COMMON = {"local_epochs": 2, "batch_size": 16}


def mean_losses(rows, view):
    return np.array([scores(row, view)[0].mean() for row in rows])


@pytest.fixture
def linear(federation, mlp, blobs):
    """A federation of softmax regressions."""

    def make(data=None, **more):
        return federation(data or blobs(), module=mlp(hidden=[]), **more)

    return make


def random_rows(seed, *shape):
    return torch.tensor(np.random.default_rng(seed).normal(size=(*shape, (PIXELS + 1) * CLASSES)), dtype=torch.float32)


def trains(fed, t=0):
    return [fed.data.shard(m, t).train for m in range(fed.data.num_clients)]


# ------------------------------------------------------------------------------------------------------------ choosing


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_the_mean_loss_and_the_accuracy(linear, seed):
    """Every view has candidates of its own, as clients with their own copies have."""
    fed = linear()
    views, rows = trains(fed), random_rows(seed, 6, 4)
    found = scored(fed, lambda m: rows[m], range(6), views)
    assert found.shape == (6, 4, 2)
    for i, view in enumerate(views):
        for j in range(4):
            losses, hits = scores(rows[i, j], view)
            assert found[i, j] == pytest.approx([losses.mean(), hits.mean()], rel=1e-5, abs=1e-6)
    labels = best_of(fed, lambda i: rows[i], range(len(views)), 0)
    assert labels == [int(mean_losses(rows[i], view).argmin()) for i, view in enumerate(views)]
    assert len(set(labels)) > 1
    assert all(type(label) is int for label in labels)


def test_candidates_may_be_made_one_at_a_time(linear):
    """A generator of rows will do, so that k copies need not be in memory."""
    fed = linear()
    views, rows = trains(fed)[:3], random_rows(8, 3, 5)
    one_by_one = best_of(fed, lambda i: (rows[i, j].clone() for j in range(5)), range(3), 0)
    assert one_by_one == [int(mean_losses(rows[i], view).argmin()) for i, view in enumerate(views)]


def test_views_larger_than_a_batch(linear):
    """200 samples in two parts: the mean is over samples, not over batches."""
    fed = linear()
    source = fed.data.sources["train"][0]
    view = View(((source, torch.arange(131)), (fed.data.sources["train"][1], torch.arange(69))))
    rows = random_rows(3, 2)
    found = scored(fed, lambda m: rows, [0], [view])
    np.testing.assert_allclose(found[0, :, 0], mean_losses(rows, view), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_equal_losses_go_to_the_lowest_index(linear, seed):
    fed = linear()
    views, rows = trains(fed), random_rows(seed, 3)
    copies = rows[torch.tensor([0, 0, 1, 1, 2, 2, 0])]
    first = {0: 0, 1: 2, 2: 4}
    expected = [first[int(mean_losses(rows, view).argmin())] for view in views]
    assert best_of(fed, lambda i: copies, range(len(views)), 0) == expected
    assert best_of(fed, lambda i: rows[[0, 0, 0]], range(len(views)), 0) == [0] * 6


def test_nan_never_wins(linear):
    fed = linear()
    views, rows = trains(fed), random_rows(4, 4)
    rows[0], rows[2] = math.nan, math.nan
    expected = [int(1 + 2 * mean_losses(rows[[1, 3]], view).argmin()) for view in views]
    assert best_of(fed, lambda i: rows, range(len(views)), 0) == expected


def test_a_model_that_overflows_does_not_win_either(linear):
    """Infinite weights give NaN or infinite losses."""
    fed = linear()
    views, rows = trains(fed), random_rows(4, 3)
    rows[0] = math.inf
    assert best_of(fed, lambda i: rows, range(len(views)), 0) == [
        int(1 + mean_losses(rows[1:], v).argmin()) for v in views
    ]


def test_no_views_no_choices(linear):
    fed = linear()
    assert best_of(fed, lambda i: random_rows(0, 2), [], 0) == []


@pytest.mark.parametrize("seed", range(3))
def test_ifca_style_is_a_choice_by_test_loss(linear, seed):
    """By the test loss, and then the accuracy there: not the model that is most often right."""
    fed = linear()
    tests = [fed.data.shard(m, 0).test for m in range(6)]
    rows = random_rows(seed, 6, 4)
    best = [int(mean_losses(rows[i], test).argmin()) for i, test in enumerate(tests)]
    accuracies = [scores(rows[i, best[i]], test)[1].mean() for i, test in enumerate(tests)]
    assert ifca_style_accuracy(fed, lambda m: rows[m], 0) == pytest.approx(np.mean(accuracies), abs=1e-6)


def test_ifca_style_goes_by_loss_not_by_hits(points, linear):
    """One model is right twice of three and very wrong once; the other is never right and never very wrong."""
    fed = linear()
    x = torch.eye(3, PIXELS).view(3, 1, 2, 3)
    view = points(x, torch.tensor([0, 1, 2]))
    bold, shy = torch.zeros(2, (PIXELS + 1) * CLASSES)
    weights = bold[: PIXELS * CLASSES].view(CLASSES, PIXELS)
    weights[0, 0] = weights[1, 1] = 1.0
    weights[0, 2] = 50.0
    shy[: PIXELS * CLASSES].view(CLASSES, PIXELS)[[1, 2, 0], [0, 1, 2]] = 0.1
    rows = torch.stack([bold, shy])
    (bold_losses, bold_hits), (shy_losses, shy_hits) = (scores(row, view) for row in rows)
    assert bold_losses.mean() > shy_losses.mean()
    assert (bold_hits.sum(), shy_hits.sum()) == (2, 0)
    fed.data.sizes = lambda t: np.array([3] + [0] * 5)
    fed.data.shard = lambda m, t: Shard(View(()), view, torch.ones(3) / 3)
    assert ifca_style_accuracy(fed, lambda m: rows, 0) == 0


# -------------------------------------------------------------------------------------------------------- first models


def shares(fed, models, clients):
    labels = [int(mean_losses(models, fed.data.shard(m, 0).train).argmin()) for m in clients]
    return np.bincount(labels, minlength=len(models)) / len(labels)


def test_without_a_share_the_first_draw_is_taken(linear):
    fed = linear()
    assert torch.equal(first_models(fed, 3, 0.0, lambda: list(range(6))), fed.init_rows(3))


@pytest.mark.parametrize(("k", "least"), [(2, 0.3), (3, 0.15)])
def test_models_are_drawn_until_all_attract_their_share(linear, blobs, k, least):
    """Over many seeds; the first draw alone would not do for all of them, and is kept where it does."""
    kept = redrawn = 0
    for seed in range(6):
        fed = linear(blobs(), seed=seed)
        models = first_models(fed, k, least, lambda: list(range(6)))
        assert models.shape == (k, (PIXELS + 1) * CLASSES)
        assert shares(fed, models, range(6)).min() >= least
        if seed < 2:
            assert torch.equal(models, first_models(fed, k, least, lambda: list(range(6))))
        if shares(fed, fed.init_rows(k), range(6)).min() >= least:
            kept += 1
            assert torch.equal(models, fed.init_rows(k))
        else:
            redrawn += 1
    assert redrawn > 0
    assert kept > 0


def test_only_the_given_clients_are_asked(linear, blobs):
    """The first participants: a draw that suits them is taken, whatever the others would choose."""
    for seed in range(20):
        fed = linear(blobs(num_clients=12), seed=seed)
        first = fed.init_rows(2)
        some = [m for m in range(12) if shares(fed, first, [m])[0] == 1][:2]
        others = [m for m in range(12) if shares(fed, first, [m])[1] == 1][:2]
        if len(some) == len(others) == 2:
            break
    else:
        pytest.fail("no such beginning")
    assert torch.equal(first_models(fed, 2, 0.5, lambda: [*some, *others]), first)
    again = first_models(fed, 2, 0.5, lambda: some)
    assert not torch.equal(again, first)
    assert shares(fed, again, some).tolist() == [0.5, 0.5]


def same_for_all(data):
    """Everyone holds what client 0 holds."""
    shard = data.shard
    data.shard = lambda client, cycle=0: shard(0, cycle)
    return data


def test_a_share_that_never_comes_is_refused(linear, blobs):
    """Clients with the same data choose the same model: no draw divides them."""
    fed = linear(same_for_all(blobs(num_clients=2)))
    with pytest.raises(UserError, match="min_share"):
        IFCA(**COMMON, num_clusters=2, min_share=0.3).init(fed)


@pytest.mark.parametrize("kind", [IFCA, DFCA])
@pytest.mark.parametrize(("k", "least"), [(2, 0.6), (4, 0.3), (3, -0.1), (1, 1.5)])
def test_shares_that_cannot_be_are_refused_at_once(kind, k, least):
    """k models cannot each have more than 1/k of the clients."""
    with pytest.raises(UserError, match="min_share"):
        kind(num_clusters=k, min_share=least)


def test_a_share_too_large_for_the_clusters_of_the_data_is_refused(linear, blobs):
    """k comes from the data: two clusters, six tenths of the clients each."""
    with pytest.raises(UserError, match="min_share"):
        DFCA(**COMMON, min_share=0.6).init(linear(blobs(num_clusters=2, num_clients=2)))


@pytest.mark.parametrize("kind", [IFCA, DFCA])
def test_a_number_of_models_that_cannot_be_is_refused(kind):
    with pytest.raises(UserError, match="num_clusters"):
        kind(num_clusters=0)


def test_the_shares_hold_exactly_at_their_bound(linear, blobs):
    """Half of the clients each, and not one less."""
    fed = linear(blobs(num_clusters=2, num_clients=8))
    assert shares(fed, IFCA(**COMMON, num_clusters=2, min_share=0.5).init(fed).models, range(8)).tolist() == [0.5, 0.5]


# ---------------------------------------------------------------------------------------------------------------- IFCA


def test_ifca_begins_with_models_that_attract(linear, blobs):
    for seed in range(3):
        fed = linear(blobs(num_clients=9), seed=seed)
        models = IFCA(**COMMON, num_clusters=2, min_share=0.35).init(fed).models
        assert shares(fed, models, range(9)).min() >= 0.35
        assert torch.equal(IFCA(**COMMON, num_clusters=2).init(fed).models, fed.init_rows(2))


def test_ifca_asks_the_first_participants(linear, blobs):
    """Four of twelve clients take part in the first round: it is they who are divided."""
    for seed in range(3):
        fed = linear(blobs(num_clients=12), seed=seed)
        algorithm = IFCA(**COMMON, num_clusters=2, participants=4, min_share=0.5)
        state = algorithm.init(fed)
        _, done = algorithm.step(state, 0, fed)
        clients = [r.client for r in done.results]
        assert len(clients) == 4
        assert shares(fed, state.models, clients).tolist() == [0.5, 0.5]
        assert sorted(done.cohort.labels) == [0, 0, 1, 1]


def test_ifca_averages_by_choice(linear, monkeypatch):
    """A plain mean over those who chose a model, whatever their size; a model without takers stays."""
    fed = linear()
    algorithm = IFCA(**COMMON, num_clusters=4)
    state = algorithm.init(fed)
    trained, train = {}, fed.worker.train

    def recording(job, observe):
        result = train(job, observe)
        trained[job.client] = (job.start.clone(), result.row.clone())
        return result

    monkeypatch.setattr(fed.worker, "train", recording)
    after, done = algorithm.step(state, 0, fed)
    labels = [int(mean_losses(state.models, view).argmin()) for view in trains(fed)]
    assert done.cohort.labels == labels
    assert 1 < len(set(labels)) < 4
    for j in range(4):
        mine = [m for m in range(6) if labels[m] == j]
        assert all(torch.equal(trained[m][0], state.models[j]) for m in mine)
        rows = [trained[m][1].double() for m in mine] or [state.models[j].double()]
        torch.testing.assert_close(after.models[j].double(), torch.stack(rows).mean(0), rtol=0, atol=1e-6)


def test_ifca_style_of_ifca(linear):
    """Off unless asked for; then the mean over all clients of a choice by test loss."""
    fed = linear()
    quiet, asked = (IFCA(**COMMON, num_clusters=3, ifca_style=style) for style in (False, True))
    state, _ = asked.step(asked.init(fed), 0, fed)
    assert "ifca_style_acc" not in {**quiet.measures(state, 0, fed)}
    assert "ifca_style_acc" not in quiet.extra_metrics
    assert "ifca_style_acc" in asked.extra_metrics
    accuracies = []
    for m in range(6):
        test = fed.data.shard(m, 0).test
        accuracies.append(scores(state.models[int(mean_losses(state.models, test).argmin())], test)[1].mean())
    assert asked.measures(state, 0, fed)["ifca_style_acc"] == pytest.approx(np.mean(accuracies), abs=1e-6)


def test_the_choice_for_training_is_on_the_training_data(linear):
    """Whatever is measured besides; every client that holds data is served the model that fits its training data."""
    fed = linear()
    algorithm = IFCA(**COMMON, num_clusters=3, ifca_style=True, measure="all")
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    expected = [int(mean_losses(state.models, view).argmin()) for view in trains(fed)]
    assert algorithm.served(state, 0, fed).labels.tolist() == expected
