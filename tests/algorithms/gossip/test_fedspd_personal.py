"""FedSPD's personal models: mixtures, their last training, momentum and rates, and the time they take."""

import itertools

import numpy as np
import pytest
import torch
from fedspd_people import COMMON, division, people, samples
from gossip import CLASSES, CLOSE, WIDTH, heavy_ball, rows_of, scatter

from flcluster.algorithms import FedSPD
from flcluster.errors import UserError
from flcluster.modules import MLP
from flcluster.seeds import rng
from flcluster.topology.families import Complete

# ------------------------------------------------------------------------------------------------------ personal models


def mixtures(algorithm, fed, k, t, n=8):
    """Σ_s u_is c_is, u the shares of the samples as they are divided now."""
    rows = rows_of(algorithm, fed)
    out = []
    for i in range(n):
        shares = np.bincount(division(rows, k, i, t, fed), minlength=k)
        out.append(shares / shares.sum() @ rows[i * k : (i + 1) * k])
    return np.stack(out)


def test_before_the_end_everyone_is_served_its_mixture(script, federate):
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=3, topology=Complete(link_failure=0.5), rounds=10, measure="all")
    state = algorithm.init(fed)
    for t in range(3):
        scatter(algorithm, fed, t)
        state, done = algorithm.step(state, t, fed)
        expected, served = mixtures(algorithm, fed, 3, t), algorithm.served(state, t, fed)
        for i in range(8):
            np.testing.assert_allclose(served.models[int(served.model_of[i])].double(), expected[i], **CLOSE)
            most = np.bincount(division(rows_of(algorithm, fed), 3, i, t, fed), minlength=3)
            assert most[int(served.labels[i])] == most.max()
        for place, trained in enumerate(done.results):
            np.testing.assert_allclose(done.row(place).double(), expected[trained.client], **CLOSE)
    assert not state.tuned


@pytest.mark.parametrize("participants", [None, 5])
def test_after_the_last_round_the_mixtures_are_trained(participants, script, federate, spied):
    """On all samples of each client, for so many epochs, at a smaller learning rate; also of those who rested."""
    fed = federate(people(script))
    common = {**COMMON, "tune_epochs": 4, "tune_lr": 0.3}
    algorithm = FedSPD(
        **common,
        num_clusters=2,
        topology=Complete(link_failure=0.5),
        rounds=3,
        participants=participants,
        measure="all",
    )
    state = algorithm.init(fed)
    log = spied(fed)
    for t in range(3):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        tuned = [(job, row) for job, row in log if job.purpose == "tune"]
        assert len(tuned) == (4 * 8 if t == 2 else 0)
        assert state.tuned == (t == 2)
    expected, served = mixtures(algorithm, fed, 2, 2), algorithm.served(state, 2, fed)
    for i in range(8):
        (first, _), *_, (_, row) = mine = [(job, row) for job, row in tuned if job.client == i]
        assert all(samples(job.view) == samples(fed.data.shard(i, 2).train) for job, _ in mine)
        assert [job.epochs for job, _ in mine] == [1] * 4
        np.testing.assert_allclose(first.start.double(), expected[i], **CLOSE)
        assert all(torch.equal(after.start, row) for (_, row), (after, _) in itertools.pairwise(mine))
        assert torch.equal(served.models[int(served.model_of[i])], row)
        assert not torch.equal(row, first.start)
        assert len({job.cycle for job, _ in mine}) == 4  # each epoch in an order of its own


@pytest.mark.parametrize(
    ("given", "factors", "theta"),
    [
        ({}, [0.5, 0.5, 0.5, 0.4, 0.4], 0.5),  # the published code: lr/2, times 0.8 every three epochs
        ({"tune_epochs": 8}, [0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.32, 0.32], 0.5),
        ({"tune_lr": 1.0, "tune_decay": 0.5, "tune_decay_every": 2, "momentum": 0.9}, [1, 1, 0.5, 0.5, 0.25], 0.9),
        ({"tune_decay": 1.0, "momentum": 0.0}, [0.5] * 5, 0.0),
    ],
)
def test_the_last_training_decays_by_its_epochs(given, factors, theta, script, federate):
    """Replayed batch by batch. It begins at its share of the model's rate, however far rounds decayed that; momentum
    begins anew in every epoch, as in the published code, which makes a new optimiser for each."""
    fed = federate(people(script), lr=0.2)
    common = {**COMMON, "num_clusters": 2, "topology": Complete(link_failure=0.5), "rounds": 3}
    algorithm = FedSPD(**{**common, "lr_decay": 0.1, "decay_every": 1, **given})
    state = algorithm.init(fed)
    for t in range(3):
        state, _ = algorithm.step(state, t, fed)
    served = algorithm.served(state, 2, fed)
    for i, row in enumerate(mixtures(algorithm, fed, 2, 2)):
        row, (x, y) = torch.from_numpy(row), fed.data.shard(i, 2).train.tensors()
        for epoch, factor in enumerate(factors):
            order = torch.from_numpy(rng(fed.seed, "tune", i, epoch).permutation(len(y)))
            row = heavy_ball(row, [(x[part], y[part]) for part in order.split(8)], 0.2 * factor, theta)
        found = served.models[int(served.model_of[i])].double()
        torch.testing.assert_close(found, row, rtol=0, atol=3e-6)


@pytest.mark.parametrize(("theta", "decay", "every"), [(0.5, 0.8, 5), (0.0, 0.5, 1), (0.9, 1.0, 5)])
def test_rounds_train_with_momentum_and_a_rate_that_falls_by_steps(theta, decay, every, script, federate, spied):
    """The published code: momentum 0.5, which begins anew every round, and the rate times 0.8 every five rounds."""
    usual = FedSPD()
    assert (usual.momentum, usual.lr_decay, usual.decay_every) == (0.5, 0.8, 5)
    assert (usual.tune_lr, usual.tune_decay, usual.tune_decay_every, usual.tune_epochs) == (0.5, 0.8, 3, 5)
    fed = federate(people(script), lr=0.2)
    common = {**COMMON, "local_epochs": 3, "batch_size": 64, "num_clusters": 2, "topology": Complete(), "rounds": 20}
    algorithm = FedSPD(**common, momentum=theta, lr_decay=decay, decay_every=every)
    state = algorithm.init(fed)
    log = spied(fed)
    for t in (0, 4, 5, 9, 10, 14, 15):
        log.clear()
        state, _ = algorithm.step(state, t, fed)
        rate = 0.2 * decay ** (t // every)
        for job, row in log:
            expected = heavy_ball(job.start, [job.view.tensors()] * 3, rate, theta)
            torch.testing.assert_close(row.double(), expected, rtol=0, atol=3e-6)


def test_without_a_momentum_the_models_optimiser_is_left_alone(script, federate):
    """Null: also Adam trains; a number needs SGD."""

    def adam():
        return federate(people(script), module=MLP(CLASSES, (1, 2, 3), hidden=(), optimizer="adam", lr=0.01))

    common = {**COMMON, "num_clusters": 2, "topology": Complete(), "rounds": 1}
    fed, algorithm = adam(), FedSPD(**common, momentum=None)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    assert state.tuned
    fed, algorithm = adam(), FedSPD(**common)
    with pytest.raises(UserError, match=r"(?is)momentum.*adam"):
        algorithm.step(algorithm.init(fed), 0, fed)


def test_titles_say_what_is_not_the_published_codes():
    assert FedSPD().title == FedSPD(momentum=0.5, tune_epochs=9).title == "FedSPD"
    assert FedSPD(momentum=0.0).title == "FedSPD (θ = 0)"
    assert FedSPD(momentum=0.9, lr_decay=1.0).title == "FedSPD (θ = 0.9, no lr decay)"
    assert FedSPD(lr_decay=0.99, decay_every=1).title == "FedSPD (lr × 0.99 every 1)"
    assert FedSPD(momentum=None).title == "FedSPD (the model's own momentum)"


# ------------------------------------------------------------------------------------------------------------- its time


@pytest.mark.parametrize("budget", [{"local_epochs": 2}, {"local_steps": 5}])
@pytest.mark.parametrize("k", [2, 3])
def test_simulated_devices_count_the_division_and_the_last_training(budget, k, script, federate, given_devices):
    """A training counts three passes, a division of the samples k, the last training 3 · tune_epochs over all samples,
    whatever a round's own budget is; the slowest client sets the time."""
    fed = federate(people(script))
    ms, kbps = np.linspace(9, 1, 8), np.linspace(30, 5, 8)
    common = {**COMMON, **budget, "num_clusters": k, "topology": Complete(), "tune_epochs": 4, "rounds": 3}
    algorithm = FedSPD(**common, devices=given_devices(ms, kbps))
    state, sizes = algorithm.init(fed), fed.data.sizes(0)
    whole, rest = np.divmod(5, -(-sizes // 8))
    processed = 2 * sizes if "local_epochs" in budget else whole * sizes + rest * 8
    transfer = 2 * 7 * 4 * WIDTH * 8 / 1000 / kbps
    for t, besides in enumerate((0, k, k + k + 3 * 4)):
        state, done = algorithm.step(state, t, fed)
        seconds = (3 * processed + besides * sizes) * ms / 1000 + transfer
        assert done.cohort.seconds == pytest.approx(seconds.max())
        passes = dict.fromkeys(range(8), 0)
        for i, trained in enumerate(done.results):
            passes[trained.client] += done.cost(i)[2]
        assert list(passes.values()) == [besides] * 8


def test_a_run_of_one_round_tunes_each_client_once(script, federate):
    """The first round trains k models of each client: what comes besides is counted once."""
    fed = federate(people(script))
    algorithm = FedSPD(**COMMON, num_clusters=3, topology=Complete(), tune_epochs=4, rounds=1)
    _, done = algorithm.step(algorithm.init(fed), 0, fed)
    assert len(done.results) == 24
    assert sum(done.cost(i)[2] for i in range(24)) == (3 + 3 * 4) * 8


def test_without_tuning_epochs_the_mixture_is_the_model(script, federate):
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(), rounds=1, tune_epochs=0)
    fed = federate(people(script))
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    served = algorithm.served(state, 0, fed)
    for i, expected in enumerate(mixtures(algorithm, fed, 2, 0)):
        np.testing.assert_allclose(served.models[int(served.model_of[i])].double(), expected, **CLOSE)


def test_after_the_end_the_own_row_is_the_personal_model(script, federate):
    """What an export of a client's model writes."""
    algorithm = FedSPD(**COMMON, num_clusters=2, topology=Complete(link_failure=0.5), rounds=1)
    fed = federate(people(script))
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    served = algorithm.served(state, 0, fed)
    for i in range(8):
        name, row = algorithm.own_row(state, i)
        assert torch.equal(fed.bank.tables[name][row], served.models[int(served.model_of[i])])
