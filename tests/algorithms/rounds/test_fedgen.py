"""FedGen: the clients' loss and the generator's lessons by explicit loops, what is sent, and runs on digits."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from flcluster.algorithms import FedAvg, FedGen
from flcluster.engine.run import make_loop
from flcluster.errors import UserError
from flcluster.modules import MLP, LatentGenerator
from flcluster.seeds import rng, torch_seed

CLASSES, PIXELS, LATENT = 4, 6, 5
COMMON = {"local_epochs": 2, "batch_size": 8}


def people(script, n=5):
    """Client 0 holds class 1 above all, client 1 class 2 and so on; nobody holds class 3."""
    return script({0: {m: [0, 1, 2] + [(m + 1) % 3] * (3 + 2 * m) for m in range(n)}})


def network(lr=0.1):
    return MLP(CLASSES, (1, 2, 3), hidden=(LATENT,), lr=lr)


def plain(fed, row):
    """The same model apart from the engine."""
    module = network()
    module.load_state_dict(fed.layout.state_dict(row))
    return module


def by_label_only(state, noise_dim, seed=0):
    """Make the generator deaf to its noise and give it some statistics; return the state and a feature per class."""
    held = {name: value.clone() for name, value in state.generator["module"].items()}
    draw = torch.Generator().manual_seed(seed)
    held["body.0.weight"][:, :noise_dim] = 0
    held["body.1.running_mean"] = 0.1 * torch.randn(len(held["body.1.running_mean"]), generator=draw)
    held["body.1.running_var"] = 0.5 + torch.rand(len(held["body.1.running_var"]), generator=draw)
    held["body.3.weight"] *= 4
    changed = type(state)(**{**vars(state), "generator": {**state.generator, "module": held}})
    hidden = held["body.0.weight"][:, noise_dim:].T + held["body.0.bias"]
    scale = held["body.1.weight"] / (held["body.1.running_var"] + 1e-5).sqrt()
    hidden = (hidden - held["body.1.running_mean"]) * scale + held["body.1.bias"]
    return changed, hidden.clamp(min=0) @ held["body.3.weight"].T + held["body.3.bias"]


def expected_loss(module, x, y, features, drawn, on_drawn, on_alike):
    """CE + on_drawn · CE of the head on features of ``drawn`` + on_alike · KL(head(G(y)) ‖ p(x)), sample by sample."""
    own = sum(-F.log_softmax(module(x), 1)[i, label] for i, label in enumerate(y.tolist())) / len(y)
    other = sum(-F.log_softmax(module.head(features[c]), 0)[c] for c in drawn) / len(drawn)
    apart = 0.0
    for i, label in enumerate(y.tolist()):
        target = F.softmax(module.head(features[label]), 0).detach()
        apart = apart + (target * (target.log() - F.log_softmax(module(x), 1)[i])).sum() / len(y)
    return own + on_drawn * other + on_alike * apart


# ------------------------------------------------------------------------------------------------------------- clients


@pytest.mark.parametrize(("t", "a", "b"), [(1, 10.0, 10.0), (4, 3.0, 0.5), (30, 0.0, 1e-4)])
def test_the_loss_and_its_gradient_by_hand(t, a, b, script, federate):
    """With one class to draw and a generator without noise nothing is random."""
    algorithm = FedGen(**COMMON, label_weight=a, latent_weight=b, gen_batch=6, noise_dim=3, generator_hidden=7)
    fed = federate(people(script), module=network())
    state, features = by_label_only(algorithm.init(fed), 3)
    state = type(state)(**{**vars(state), "classes": torch.tensor([2])})
    row = state.models[0]
    x, y = fed.data.shard(1, 0).train.tensors()
    fed.layout.load(row)
    fed.layout.grad.zero_()
    found = algorithm.objective(state, t, fed)(fed.worker, x, y)
    found.backward()
    module = plain(fed, row)
    a_t, b_t = (w and max(1e-4, w * 0.98**t) for w in (a, b))  # off is off
    expected = expected_loss(module, x, y, features, [2], 6 / 8 * a_t, b_t)
    expected.backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for entry in fed.layout.entries:
        torch.testing.assert_close(
            entry.view(fed.layout.grad), module.get_parameter(entry.name).grad, rtol=1e-4, atol=1e-6
        )


def test_drawn_classes_are_those_that_clients_hold_and_come_evenly(script, federate):
    """Many draws: the mean over classes 0, 1 and 2, which some client holds. Class 3 would cost a lot."""
    algorithm = FedGen(**COMMON, latent_weight=0.0, gen_batch=30_000, noise_dim=3, generator_hidden=7)
    fed = federate(people(script), module=network())
    state, _ = algorithm.follow(algorithm.init(fed), 2, fed)
    assert state.classes.tolist() == [0, 1, 2]
    state, features = by_label_only(state, 3)
    row = state.models[0].clone()
    fed.layout.load(row)
    with torch.no_grad():
        fed.worker.module.head.bias[3] = -50
    module = plain(fed, fed.layout.snapshot())
    x, y = fed.data.shard(1, 0).train.tensors()
    found = algorithm.objective(state, 2, fed)(fed.worker, x, y)
    weight = 30_000 / 8 * 10 * 0.98**2
    expected = expected_loss(module, x, y, features, [0, 1, 2], weight, 1e-4)
    assert found.item() == pytest.approx(expected.item(), rel=0.02)


def test_dropouts_have_no_say_in_what_is_drawn(script, federate):
    fed = federate(script({0: {0: [0, 0, 1], 1: [1, 1], 2: [3, 3, 0]}}, dropouts=(2,)), module=network())
    algorithm = FedGen(**COMMON)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    assert state.classes.tolist() == [0, 1]


def test_noise_differs_from_step_to_step_but_not_from_run_to_run(script, federate):
    algorithm = FedGen(**COMMON, noise_dim=3)
    fed = federate(people(script), module=network())
    state, _ = algorithm.follow(algorithm.init(fed), 1, fed)
    fed.layout.load(state.models[0])
    x, y = fed.data.shard(0, 0).train.tensors()
    loss = algorithm.objective(state, 1, fed)

    def twice():
        with torch_seed(1, "train", 0, 1):
            return [loss(fed.worker, x, y).item() for _ in range(2)]

    first = twice()
    assert first[0] != first[1] and first == twice()


def test_a_round_by_hand(script, federate, spied):
    """Round 1 of local training by plain loops, then the mean by size; one class is all that there is to draw."""
    algorithm = FedGen(**COMMON, gen_batch=4, label_weight=2.0, latent_weight=1.0, noise_dim=3, generator_hidden=7)
    data = script({0: {m: [1] * (3 + 2 * m) for m in range(4)}})
    fed = federate(data, module=network())
    state, features = by_label_only(algorithm.init(fed), 3)
    log = spied(fed)
    after, done = algorithm.step(state, 1, fed)
    rows, sizes = [], []
    for job, row in log:
        module = plain(fed, state.models[0])
        optimizer, order = torch.optim.SGD(module.parameters(), 0.1), rng(fed.seed, "train", job.client, 1)
        x, y = data.shard(job.client, 1).train.tensors()
        losses = []
        for _ in range(2):
            for part in torch.from_numpy(order.permutation(len(y))).split(8):
                optimizer.zero_grad()
                weights = 4 / 8 * 2 * 0.98, 0.98
                loss = expected_loss(module, x[part], y[part], features, [1], *weights)
                losses.append(loss.item())
                loss.backward()
                optimizer.step()
        for name, value in fed.layout.state_dict(row).items():
            torch.testing.assert_close(value, module.state_dict()[name], rtol=1e-5, atol=1e-6)
        rows.append(row.double() * len(y))
        sizes.append(len(y))
        result = next(r for r in done.results if r.client == job.client)
        assert result.loss == pytest.approx(np.mean(losses), rel=1e-5)
    torch.testing.assert_close(after.models[0].double(), sum(rows) / sum(sizes), rtol=0, atol=1e-6)


def test_the_first_round_is_fedavgs(script, federate, spied):
    """Nobody has taught the generator yet; from the next round on every client gets it."""
    models = []
    for algorithm in (FedAvg(**COMMON), FedGen(**COMMON)):
        fed = federate(people(script), module=network())
        state, done = algorithm.step(algorithm.init(fed), 0, fed)
        assert done.download_bytes == done.upload_bytes == 0
        log = spied(fed)
        after, done = algorithm.step(state, 1, fed)
        models.append((state.models, after.models))
    assert all(job.objective is not None for job, _ in log)
    assert torch.equal(models[0][0], models[1][0])
    assert float((models[0][1] - models[1][1]).abs().max()) > 1e-3


# ---------------------------------------------------------------------------------------------------------- the server


def lesson_by_hand(generator, optimizer, heads, counts, draw, *, steps, batch, diversity=1.0):
    """Teach step by step; losses sample by sample, teacher by teacher; distances pair by pair."""
    weights = [[(n + 1) / sum(other[c] + 1 for other in counts) for c, n in enumerate(own)] for own in counts]
    classes = [c for c in range(CLASSES) if any(own[c] for own in counts)]
    generator.train()
    losses = []
    for _ in range(steps):
        y = torch.tensor(classes)[torch.from_numpy(draw.integers(len(classes), size=batch))]
        eps = torch.rand(batch, generator.noise_dim)
        z = generator(eps, y)
        loss = 0.0
        for head, weight in zip(heads, weights, strict=True):
            logp = F.log_softmax(head(z), dim=1)
            loss = loss + sum(-weight[c] * logp[i, c] for i, c in enumerate(y.tolist())) / batch
        pairs = [
            ((eps[i] - eps[j]) ** 2).mean() * (z[i] - z[j]).abs().mean() for i in range(batch) for j in range(batch)
        ]
        loss = loss + diversity * torch.exp(-sum(pairs) / batch**2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)


def head_of(fed, row):
    return plain(fed, row).head.requires_grad_(False)


@pytest.mark.parametrize("wanted", [None, 3])
def test_two_lessons_by_hand(wanted, script, federate, spied):
    """Local heads, weights by counts that begin at 1, Adam that goes on from round to round at a falling rate."""
    algorithm = FedGen(
        **COMMON,
        participants=wanted,
        noise_dim=3,
        generator_hidden=7,
        generator_steps=6,
        generator_batch=5,
        generator_lr=0.02,
        generator_lr_decline=0.5,
        generator_weight_decay=0.1,
        diversity=0.7,
    )
    fed = federate(people(script), module=network())
    state = algorithm.init(fed)
    generator = LatentGenerator(CLASSES, LATENT, 3, 7)
    generator.load_state_dict(state.generator["module"])
    optimizer = torch.optim.Adam(generator.parameters(), lr=0.02, weight_decay=0.1)
    log = spied(fed)
    for t in range(2):
        log.clear()
        state, done = algorithm.step(state, t, fed)
        assert len(log) == (wanted or 5)
        counts = [
            np.bincount(fed.data.shard(job.client, t).train.tensors()[1].numpy(), minlength=CLASSES).tolist()
            for job, _ in log
        ]
        optimizer.param_groups[0]["lr"] = 0.02 * 0.5**t
        draw = rng(fed.seed, "generator's lesson", t)
        heads = [head_of(fed, row) for _, row in log]
        with torch_seed(fed.seed, "generator's lesson", t):
            loss = lesson_by_hand(generator, optimizer, heads, counts, draw, steps=6, batch=5, diversity=0.7)
        assert done.extra["generator_loss"] == pytest.approx(loss, rel=1e-4)
        for name, value in state.generator["module"].items():
            torch.testing.assert_close(value, generator.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)
    assert len(state.generator["optimizer"]["state"]) == len(list(generator.parameters()))


def test_it_learns_what_the_heads_take_for_each_class(script, federate):
    """Heads of clients that know what they hold; after some rounds generated features are taken for their classes."""
    fed = federate(people(script), module=network(lr=0.3))
    algorithm = FedGen(**{**COMMON, "local_epochs": 10}, label_weight=0.1, latent_weight=0.1, generator_lr=3e-3)
    state, losses = algorithm.init(fed), []
    for t in range(5):
        state, done = algorithm.step(state, t, fed)
        losses.append(done.extra["generator_loss"])
    assert losses[-1] < losses[0] / 2
    generator = algorithm.generator(fed).eval()
    generator.load_state_dict(state.generator["module"])
    y = torch.arange(3).repeat(30)
    right = plain(fed, state.models[0]).head(generator(generator.noise(90), y)).argmax(1) == y
    assert right.float().mean() > 0.9


def test_a_failed_client_teaches_nothing(script, federate, broken):
    """The generator is the same as without it among the participants."""
    algorithm = FedGen(**COMMON, generator_steps=4)
    kept = {m: held for m, held in people(script).script[0].items() if m != 2}
    states = []
    for held, fails in ((people(script).script[0], [2]), (kept, [])):
        fed = federate(script({0: held}), module=network())
        broken(fed, *fails)
        state, _ = algorithm.step(algorithm.init(fed), 0, fed)
        states.append(state)
    for name, value in states[0].generator["module"].items():
        torch.testing.assert_close(value, states[1].generator["module"][name], msg=name)


def test_without_teachers_the_generator_stays(script, federate, broken):
    algorithm = FedGen(**COMMON)
    fed = federate(people(script), module=network())
    broken(fed, *range(5))
    state = algorithm.init(fed)
    after, done = algorithm.step(state, 0, fed)
    for name, value in after.generator["module"].items():
        assert torch.equal(value, state.generator["module"][name])
    assert torch.equal(after.models, state.models)
    assert "generator_loss" not in done.extra


# ------------------------------------------------------------------------------------------------- costs and refusals


def test_what_is_sent(script, federate):
    """From round 1 on the generator goes down with the model, BatchNorm's statistics too; nothing more goes up."""
    fed = federate(people(script), module=network())
    loop = make_loop(FedGen(**COMMON), fed, None, None)
    loop.begin()
    model = 4 * (PIXELS * LATENT + LATENT + LATENT * CLASSES + CLASSES)
    generator = 4 * ((32 + CLASSES) * 256 + 256 + 4 * 256 + 256 * LATENT + LATENT)
    for down in (model, model + generator, model + generator):
        exchanges = loop.advance()
        assert {e.uploaded for e in exchanges} == {model}
        assert {e.downloaded for e in exchanges} == {down}


class Headless(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, CLASSES))

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_a_model_without_a_head_is_refused(script, federate):
    with pytest.raises(UserError, match=r"(?s)FedGen.*head.*Headless.*features"):
        FedGen().init(federate(people(script), module=Headless()))


def test_a_head_without_a_bias_teaches_too(script, federate):
    class Unbiased(MLP):
        def __init__(self, num_classes, input_shape):
            super().__init__(num_classes, input_shape, hidden=(LATENT,))
            self.head = nn.Linear(LATENT, num_classes, bias=False)

    fed = federate(people(script), module=Unbiased(CLASSES, (1, 2, 3)))
    algorithm = FedGen(**COMMON)
    state = algorithm.init(fed)
    for t in range(2):
        state, done = algorithm.step(state, t, fed)
    assert np.isfinite(done.extra["generator_loss"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gen_batch", 0),
        ("generator_batch", 1),
        ("generator_steps", 0),
        ("generator_lr", 0.0),
        ("noise_dim", 0),
        ("label_weight", -1.0),
        ("latent_weight", -1.0),
        ("weight_decline", 0.0),
        ("generator_weight_decay", -0.1),
    ],
)
def test_values_that_cannot_be_are_named(name, value):
    with pytest.raises(UserError, match=name):
        FedGen(**{name: value})


# ---------------------------------------------------------------------------------------------------- saving, and runs


def test_a_state_survives_a_checkpoint(script, federate):
    """Packed, written, read as plain data and unpacked, it leads to the same next round, bit for bit."""
    algorithm = FedGen(**COMMON)
    fed = federate(people(script), module=network())
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    file = io.BytesIO()
    torch.save(algorithm.pack(state), file)
    file.seek(0)
    again = algorithm.unpack(torch.load(file, weights_only=True), fed.layout.row)
    for t in (1, 2):
        state, done = algorithm.step(state, t, fed)
        again, same = algorithm.step(again, t, fed)
        assert torch.equal(state.models, again.models)
        assert done.extra == same.extra


def test_a_run_on_digits_learns_and_resumes_bit_for_bit(resumed):
    settings = {"data.num_clients": 5, "data.limit": 700, "algorithm": "FedGen", "algorithm.rounds": 4}
    settings |= {"algorithm.participants": 4, "algorithm.local_epochs": 3, "algorithm.batch_size": 32}
    settings |= {"algorithm.label_weight": 1, "algorithm.latent_weight": 1, "algorithm.generator_steps": 20}
    assert resumed(settings, stops=[2])["acc_global"] > 0.5
    assert "generator_loss" in Path("whole", "metrics.csv").read_text().splitlines()[0]
