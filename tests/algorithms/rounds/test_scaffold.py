"""SCAFFOLD: whole rounds by explicit loops, what controls must add up to, where it settles, and runs on digits."""

import pytest
import torch
from replay import gradient
from torch import nn

from flcluster.algorithms import Average, FedAvg, Scaffold
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.modules import MLP
from flcluster.seeds import rng

CLASSES, PIXELS, WIDTH = 4, 6, 28
LR = 0.1


def people(script, n=6):
    return script({0: {m: [0, 1, 2, 3] + [m % 4] * (4 + 3 * m) for m in range(n)}})


def batches_of(fed, client, t, epochs, size):
    """A client's batches in the order of its own generator."""
    x, y = fed.data.shard(client, t).train.tensors()
    order = rng(fed.seed, "train", client, t)
    for _ in range(epochs):
        for part in torch.from_numpy(order.permutation(len(y))).split(size):
            yield x[part], y[part]


class ByHand:
    """The paper's Algorithm 1 with option II, in float64."""

    def __init__(self, fed, x):
        self.fed, self.x = fed, x.double()
        self.c = torch.zeros_like(self.x)
        self.c_k = [torch.zeros_like(self.x) for _ in range(fed.data.num_clients)]

    def round(self, clients, t, *, epochs, size, lr, N, server_lr=1.0, decay=0.0):
        moves, changes = [], []
        for k in clients:
            y, steps = self.x.clone(), 0
            for batch in batches_of(self.fed, k, t, epochs, size):
                y = y - lr * (gradient(y, *batch) + decay * y - self.c_k[k] + self.c)
                steps += 1
            new = self.c_k[k] - self.c + (self.x - y) / (steps * lr)
            moves.append(y - self.x)
            changes.append(new - self.c_k[k])
            self.c_k[k] = new
        self.x = self.x + server_lr * torch.stack(moves).mean(0)
        self.c = self.c + len(clients) / N * torch.stack(changes).mean(0)


def controls_of(algorithm, fed):
    return torch.stack([algorithm.controls(fed)[k] for k in range(fed.data.num_clients)])


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


# -------------------------------------------------------------------------------------------------------- whole rounds


@pytest.mark.parametrize("server_lr", [1.0, 0.4, 1.5])
@pytest.mark.parametrize("wanted", [None, 3])
def test_rounds_by_hand(server_lr, wanted, script, federate, spied):
    """Four rounds of mini-batches at a falling learning rate; clients of different sizes count alike."""
    fed = federate(people(script), lr=LR)
    algorithm = Scaffold(local_epochs=2, batch_size=5, participants=wanted, server_lr=server_lr, lr_decay=0.8, rounds=4)
    state = algorithm.init(fed)
    hand, log, met = ByHand(fed, state.models[0]), spied(fed), set()
    for t in range(4):
        log.clear()
        state, done = algorithm.step(state, t, fed)
        clients = [job.client for job, _ in log]
        assert len(clients) == (wanted or 6)
        met.add(tuple(clients))
        hand.round(clients, t, epochs=2, size=5, lr=LR * 0.8**t, N=6, server_lr=server_lr)
        close(state.models[0], hand.x)
        close(state.control, hand.c)
        close(controls_of(algorithm, fed), torch.stack(hand.c_k))
        assert all(torch.equal(done.row(i), state.models[0]) for i in range(len(clients)))
    assert len(met) == 1 if wanted is None else len(met) > 1
    assert float(state.control.abs().max()) > 0.01


def test_weight_decay_is_part_of_the_gradient(script, federate):
    """Allowed, as the mean step is then the mean gradient of the penalised loss."""
    fed = federate(people(script), module=MLP(CLASSES, (1, 2, 3), hidden=(), lr=LR, weight_decay=0.2))
    algorithm = Scaffold(local_epochs=2, batch_size=5)
    state = algorithm.init(fed)
    hand = ByHand(fed, state.models[0])
    for t in range(3):
        state, _ = algorithm.step(state, t, fed)
        hand.round(range(6), t, epochs=2, size=5, lr=LR, N=6, decay=0.2)
    close(state.models[0], hand.x)
    close(state.control, hand.c)


def test_the_first_round_is_fedavgs(script, federate):
    """Without controls there is nothing to correct; the mean is uniform."""
    common = {"local_epochs": 2, "batch_size": 5}
    plain, corrected = FedAvg(**common, server=Average("uniform")), Scaffold(**common)
    rows = []
    for algorithm in (plain, corrected):
        fed = federate(people(script), lr=LR)
        state = algorithm.init(fed)
        first, _ = algorithm.step(state, 0, fed)
        second, _ = algorithm.step(first, 1, fed)
        rows.append((first.models, second.models))
    assert torch.equal(rows[0][0], rows[1][0])
    assert float((rows[0][1] - rows[1][1]).abs().max()) > 1e-3


def test_one_full_batch_makes_the_control_the_gradient(script, federate):
    """c_k⁺ = c_k − c + (g + c − c_k) = g, whatever the controls were."""
    fed = federate(people(script), lr=LR)
    algorithm = Scaffold(local_epochs=1, batch_size=64)
    state = algorithm.init(fed)
    for t in range(3):
        x = state.models[0].double()
        state, _ = algorithm.step(state, t, fed)
        expected = torch.stack([gradient(x, *fed.data.shard(k, t).train.tensors()) for k in range(6)])
        close(controls_of(algorithm, fed), expected, 2e-6)
        close(state.control, expected.mean(0), 2e-6)


# ------------------------------------------------------------------------------------------------------------ controls


@pytest.mark.parametrize("wanted", [None, 2])
def test_the_servers_control_is_the_mean_of_all(wanted, script, federate):
    """Whoever takes part; a client that never did has 0."""
    fed = federate(people(script), lr=LR)
    algorithm = Scaffold(local_epochs=1, batch_size=5, participants=wanted)
    state = algorithm.init(fed)
    for t in range(5):
        state, _ = algorithm.step(state, t, fed)
        close(state.control, controls_of(algorithm, fed).double().mean(0))


def test_dropouts_do_not_count_as_clients(script, federate):
    """Clients 1 and 4 never train: the mean is over the other four."""
    fed = federate(script({0: {m: [0, 1, 2, 3, m % 4] for m in range(6)}}, dropouts=(1, 4)), lr=LR)
    algorithm = Scaffold(local_epochs=2, batch_size=4)
    state = algorithm.init(fed)
    hand = ByHand(fed, state.models[0])
    for t in range(2):
        state, done = algorithm.step(state, t, fed)
        assert [result.client for result in done.results] == [0, 2, 3, 5]
        hand.round([0, 2, 3, 5], t, epochs=2, size=4, lr=LR, N=4)
    close(state.models[0], hand.x)
    close(state.control, hand.c)
    assert 1 not in algorithm.controls(fed) and 0 in algorithm.controls(fed)


def test_a_failed_training_leaves_its_control(script, federate, broken):
    """It is not averaged, its control stays, and the others move c by their share of all clients."""
    fed = federate(people(script), lr=LR)
    algorithm = Scaffold(local_epochs=1, batch_size=5)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    hand = ByHand(fed, state.models[0])
    hand.c, hand.c_k = state.control.double(), list(controls_of(algorithm, fed).double())
    kept = algorithm.controls(fed)[3]
    broken(fed, 3)
    state, _ = algorithm.step(state, 1, fed)
    hand.round([0, 1, 2, 4, 5], 1, epochs=1, size=5, lr=LR, N=6)
    assert torch.equal(algorithm.controls(fed)[3], kept)
    close(state.models[0], hand.x)
    close(state.control, hand.c)
    assert torch.isfinite(state.models).all() and torch.isfinite(state.control).all()


def test_a_round_in_which_everyone_fails_changes_nothing(script, federate, broken):
    fed = federate(people(script), lr=LR)
    algorithm = Scaffold(local_epochs=1, batch_size=5, server_lr=0.5)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    broken(fed, *range(6))
    after, _ = algorithm.step(state, 1, fed)
    assert torch.equal(after.models, state.models) and torch.equal(after.control, state.control)


class Normed(MLP):
    """Softmax regression behind a BatchNorm."""

    def __init__(self, num_classes, input_shape, lr=LR):
        super().__init__(num_classes, input_shape, hidden=(), lr=lr)
        self.body = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(PIXELS))


def test_batch_norm_statistics_are_averaged_and_have_no_control(script, federate, spied):
    """A single sample cannot be trained on: its client takes no step, and its control stays 0."""
    data = script({0: {0: [0, 1, 2, 3, 0], 1: [2], 2: [3, 3, 1, 2]}})
    fed = federate(data, module=Normed(CLASSES, (1, 2, 3)))
    algorithm = Scaffold(local_epochs=2, batch_size=8, server_lr=0.5)
    state = algorithm.init(fed)
    parameters, log = fed.layout.num_parameters, spied(fed)
    assert fed.layout.size == parameters + 2 * PIXELS
    for t in range(2):
        log.clear()
        before = state
        state, _ = algorithm.step(state, t, fed)
        rows = torch.stack([row for job, row in log if job.client != 1])
        torch.testing.assert_close(state.models[0, parameters:], rows[:, parameters:].mean(0))
        middle = (before.models[0] + rows.mean(0)) / 2
        torch.testing.assert_close(state.models[0, :parameters], middle[:parameters])
        assert all(len(job.correction) == parameters for job, _ in log)
        assert not controls_of(algorithm, fed)[:, parameters:].any() and not state.control[parameters:].any()
        assert controls_of(algorithm, fed)[[0, 2], :parameters].any(1).all()
        assert 1 not in algorithm.controls(fed)


# ------------------------------------------------------------------------------------------------------ what it is for


def test_it_settles_where_the_mean_loss_is_least(script, federate):
    """Clients of one class each, five local steps a round: FedAvg stops somewhere else, SCAFFOLD does not."""
    held = {0: [0] * 9 + [1], 1: [1] * 9 + [2], 2: [2] * 9 + [3], 3: [3] * 9 + [0]}
    decay, left = 0.3, {}
    for algorithm in (
        FedAvg(local_epochs=5, batch_size=64, server=Average("uniform")),
        Scaffold(local_epochs=5, batch_size=64),
    ):
        fed = federate(script({0: held}), module=MLP(CLASSES, (1, 2, 3), hidden=(), lr=0.4, weight_decay=decay))
        state = algorithm.init(fed)
        for t in range(25):
            state, _ = algorithm.step(state, t, fed)
        x = state.models[0].double()
        g = sum(gradient(x, *fed.data.shard(k, 0).train.tensors()) for k in range(4)) / 4 + decay * x
        left[algorithm.title] = float(g.norm())
    assert left["SCAFFOLD"] < 1e-4 < 1e-2 < left["FedAvg"]


# ------------------------------------------------------------------------------------------------- refusals and costs


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"optimizer": "adam"}, "(?s)plain SGD.*Adam.*model.optimizer"),
        ({"optimizer": "adamw"}, "(?s)plain SGD.*AdamW"),
        ({"momentum": 0.9}, "model.momentum"),
    ],
)
def test_other_optimisers_are_refused_before_anything_is_trained(kwargs, match, script, federate):
    fed = federate(people(script), module=MLP(CLASSES, (1, 2, 3), hidden=(), **kwargs))
    with pytest.raises(UserError, match=match):
        Scaffold().init(fed)


def test_two_learning_rates_are_refused(script, federate):
    class TwoRates(MLP):
        def configure_optimizers(self):
            return torch.optim.SGD([{"params": [self.head.weight]}, {"params": [self.head.bias], "lr": 0.3}], 0.1)

    with pytest.raises(UserError, match="one learning rate"):
        Scaffold().init(federate(people(script), module=TwoRates(CLASSES, (1, 2, 3), hidden=())))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_server_learning_rates_that_cannot_be_are_refused(value):
    with pytest.raises(UserError, match="server_lr"):
        Scaffold(server_lr=value)


def test_a_model_and_a_control_each_way(script, federate, given_devices):
    fed = federate(people(script))
    loop = make_loop(Scaffold(local_epochs=1, batch_size=8), fed, None, None)
    loop.begin()
    exchanges = loop.advance()
    assert {e.uploaded for e in exchanges} == {e.downloaded for e in exchanges} == {2 * 4 * WIDTH}
    slow = {"local_epochs": 1, "batch_size": 8, "overcommit": 1.0, "devices": given_devices([0.0] * 6, [1.0] * 6)}
    times = []
    for algorithm in (Scaffold(**slow), FedAvg(**slow)):
        _, done = algorithm.step(algorithm.init(fed), 0, fed)
        times.append(done.cohort.seconds)
    assert times[0] == pytest.approx(2 * times[1])


def test_its_title():
    assert Scaffold().title == "SCAFFOLD"


# ------------------------------------------------------------------------------------------------------ runs on digits


def test_a_run_on_digits_learns_and_resumes_bit_for_bit(resumed):
    settings = {"data.num_clients": 6, "data.limit": 900, "algorithm": "Scaffold", "algorithm.rounds": 6}
    settings |= {"algorithm.participants": 4, "algorithm.local_epochs": 3, "algorithm.batch_size": 16}
    assert resumed(settings, stops=[3])["acc_global"] > 0.5
