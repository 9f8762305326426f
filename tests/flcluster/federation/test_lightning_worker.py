"""Modules of people's own: whatever they do in Lightning, a local training gives what a plain Trainer gives."""

import warnings
from copy import deepcopy
from types import SimpleNamespace

import lightning as L
import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from plain_trainer import difference, trained_plainly
from torch import nn
from torch.nn import functional as F

from flcluster.data import Samples, View
from flcluster.datamodules import IID, SplitDataModule, from_arrays
from flcluster.errors import UserError
from flcluster.federation.jobs import Job
from flcluster.federation.lightning_worker import LightningWorker
from flcluster.federation.paths import why_batches, why_trainer
from flcluster.federation.scores.scoring import Scoring
from flcluster.federation.worker import Worker
from flcluster.modules import MLP

N, WIDTH, CLASSES, EPOCHS, SIZE = 37, 6, 3, 3, 8


class Rows(torch.utils.data.Dataset):
    """Samples as pairs, dictionaries, or inputs alone."""

    def __init__(self, form="pair"):
        draw = np.random.default_rng(1)
        self.x = torch.tensor(draw.normal(size=(N, WIDTH)), dtype=torch.float32)
        self.y = torch.tensor(draw.integers(CLASSES, size=N))
        self.form = form

    def __len__(self):
        return N

    def __getitem__(self, i):
        if self.form == "dict":
            return {"inputs": self.x[i], "target": {"label": self.y[i]}}
        return self.x[i] if self.form == "alone" else (self.x[i], self.y[i])


class Base(L.LightningModule):
    """A network, the loss of a batch, and plain SGD."""

    form = "pair"

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.3)


class Smoothed(Base):
    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.2)

    def training_step(self, batch, batch_idx):
        return self.loss(self(batch[0]), batch[1])


class EveryStep(Base):
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Plateau(Base):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 1.0)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.9, factor=0.1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "train_loss"}}


class Clipped(Base):
    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clip_gradients(optimizer, gradient_clip_val=0.01, gradient_clip_algorithm="norm")


class Adversarial(Base):
    """Two optimisers that take turns by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.critic = nn.Linear(CLASSES, 1)

    def training_step(self, batch, batch_idx):
        first, second = self.optimizers()
        for optimizer, sign in ((first, 1.0), (second, -1.0)):
            optimizer.zero_grad()
            self.manual_backward(sign * self.critic(self(batch[0])).mean() + F.cross_entropy(self(batch[0]), batch[1]))
            optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.net.parameters(), 0.1), torch.optim.Adam(self.critic.parameters(), 0.05)


class Tied(Base):
    """An autoencoder whose decoder is its encoder turned round; no labels at all."""

    form = "alone"

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(WIDTH, WIDTH, bias=False)
        self.again = nn.Linear(WIDTH, WIDTH, bias=False)
        self.again.weight = self.net.weight

    def training_step(self, batch, batch_idx):
        return F.mse_loss(self.again(torch.tanh(self.net(batch))), batch)


class Backbone(Base):
    """A frozen backbone in bfloat16, and a head that trains; a constant with infinities; a parameter nobody uses."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(WIDTH, 4).to(torch.bfloat16).requires_grad_(False)
        self.head = nn.Linear(4, CLASSES)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("mask", torch.tensor([0.0, float("-inf"), float("inf")]))

    def forward(self, x):
        return self.head(self.net(x.to(torch.bfloat16)).float())

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], 0.1, weight_decay=0.5)


class Momentum(Base):
    """A slow copy of the network follows it, outside all optimisers."""

    def __init__(self):
        super().__init__()
        self.slow = deepcopy(self.net).requires_grad_(False)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
            slow.data = 0.9 * slow.data + 0.1 * fast.data


class Normed(Base):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, CLASSES))


class Mapped(Base):
    form = "dict"

    def training_step(self, batch, batch_idx):
        return {"loss": F.cross_entropy(self(batch["inputs"]), batch["target"]["label"])}


class Late(Base):
    """Layers that are made when the Trainer sets the module up."""

    def __init__(self):
        super().__init__()
        self.net = None

    def configure_model(self):
        if self.net is None:
            self.net = nn.Linear(WIDTH, CLASSES)


class SecondOrder(Base):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)


class Accumulating(Base):
    """Steps every third batch, by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        self.manual_backward(super().training_step(batch, batch_idx) / 3)
        if (batch_idx + 1) % 3 == 0:
            self.optimizers().step()
            self.optimizers().zero_grad()


class Counting(Base):
    """Counts its own steps, in a number, a list and an object, and learns less at first."""

    def __init__(self):
        super().__init__()
        self.seen, self.history, self.steps = 0, [], SimpleNamespace(done=0)

    def training_step(self, batch, batch_idx):
        self.seen += 1
        self.history.append(self.seen)
        self.steps.done += 1
        share = (self.seen + len(self.history) + self.steps.done) / 30
        return super().training_step(batch, batch_idx) * min(1.0, share)


class Thawing(Base):
    """Takes gradients of a layer from the second step on, and puts it into evaluation mode."""

    def __init__(self):
        super().__init__()
        self.net.insert(1, nn.Dropout(0.5))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.net[0].requires_grad_(False)
        self.net[1].eval()


class Slow(Base):
    """A momentum encoder that starts equal to what it follows, which the first step does not move."""

    def __init__(self):
        super().__init__()
        self.slow = deepcopy(self.net).requires_grad_(False)

    def on_train_batch_start(self, batch, batch_idx):
        for slow, fast in zip(self.slow.parameters(), self.net.parameters(), strict=True):
            slow.data = 0.5 * slow.data + 0.5 * fast.data

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step > 2))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Complex(Base):
    """Parameters that are complex numbers."""

    def __init__(self):
        super().__init__()
        self.spectrum = nn.Parameter(torch.randn(WIDTH, dtype=torch.complex64))

    def forward(self, x):
        return self.net((x * self.spectrum).abs())


class Hooked(Base):
    """Changes batches on their way, with NumPy's generator."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch[0] * np.random.uniform(0.5, 1.5), batch[1]


KINDS = [Base, Smoothed, EveryStep, Plateau, Clipped, Adversarial, Tied, Backbone, Momentum, Normed, Mapped, Late]
KINDS += [SecondOrder, Accumulating, Counting, Thawing, Slow, Complex, Hooked]


def view_of(kind):
    source = Samples(Rows(kind.form))
    return View(((source, torch.arange(N)),))


def worker_of(module, seed=4):
    fabric = Fabric(accelerator="cpu", devices=1)
    return LightningWorker(fabric, module, seed, view_of(type(module)), SIZE, Scoring())


def made(kind, seed=0):
    torch.manual_seed(seed)
    return kind()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_local_training_is_a_plain_trainers(kind):
    """The same weights, to a thousandth of what training changed; and the first job leaves no trace in the second."""
    worker = worker_of(made(kind))
    start = worker.first
    job = Job(3, start, view_of(kind), EPOCHS, SIZE, cycle=2)
    truth = made(kind)
    if kind is Late:
        truth.configure_model()
    truth.load_state_dict(worker.layout.state_dict(start))
    before = {name: value.clone() for name, value in truth.state_dict().items()}
    expected = trained_plainly(truth, Rows(kind.form), range(N), job, worker.seed, batch_norm=kind is Normed)
    worker.train(Job(9, start, job.view, 1, SIZE))
    result = worker.train(job)
    assert result.usable
    assert difference(worker.layout.state_dict(result.row), expected, before) < 1e-3


@pytest.mark.parametrize(
    ("kind", "travels"),
    [(Base, 53), (Backbone, 18), (Tied, 36), (Momentum, 106), (Normed, 73), (Slow, 106), (Complex, 65)],
    ids=lambda v: str(v),
)
def test_only_what_changes_travels(kind, travels):
    """A frozen backbone and constants stay; a momentum encoder and BatchNorm's statistics are after what trains."""
    worker = worker_of(made(kind))
    assert worker.layout.size == travels
    trains = sum((1 + p.is_complex()) * p.numel() for p in worker.module.parameters() if p.requires_grad)
    assert worker.layout.num_parameters == trains


def test_the_given_weights_are_the_start():
    module = made(Normed, seed=5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    worker = worker_of(module)
    for name, value in worker.layout.state_dict(worker.first).items():
        assert torch.equal(value, before[name])


def test_one_step_is_bent_by_hand():
    """w − η·f·(g + ρ (w − a) + c) with SGD, over all parameters."""
    worker = worker_of(made(Base))
    start, p = worker.first, worker.layout.num_parameters
    draw = torch.Generator().manual_seed(0)
    anchor, c = start + torch.randn(start.shape, generator=draw), torch.randn(p, generator=draw)
    view = view_of(Base)
    common = {"cycle": 1, "steps": 1}
    plain = worker.train(Job(0, start, view, 1, N, **common)).row
    bent = worker.train(Job(0, start, view, 1, N, prox=0.5, anchor=anchor, correction=c, lr_factor=0.1, **common)).row
    gradient = (start - plain) / 0.3
    torch.testing.assert_close(bent, start - 0.03 * (gradient + 0.5 * (start - anchor) + c), rtol=0, atol=1e-5)


def test_our_own_classifiers_give_the_same_by_both_paths():
    """The flat loop against the Trainer, with momentum, weight decay and a proximal term."""
    source = Rows()
    source.x = source.x.view(N, 1, 2, 3)
    view = View(((Samples(source), torch.arange(N)),))
    modules = []
    for _ in range(2):
        torch.manual_seed(3)
        modules.append(MLP(CLASSES, (1, 2, 3), hidden=(5,), lr=0.2, momentum=0.9, weight_decay=0.01))
    fabric = Fabric(accelerator="cpu", devices=1)
    flat, slow = Worker(fabric, modules[0], 7), LightningWorker(fabric, modules[1], 7, view, SIZE, Scoring("val_acc"))
    start = flat.layout.snapshot()
    names = [entry.name for entry in flat.layout.entries]
    assert names == [entry.name for entry in slow.layout.entries]
    torch.testing.assert_close(slow.first, start, rtol=0, atol=0)
    job = Job(1, start, view, 3, SIZE, prox=0.3, anchor=start + 0.1, lr_factor=0.5, test=view)
    a, b = flat.train(job), slow.train(job)
    torch.testing.assert_close(b.row, a.row, rtol=1e-5, atol=1e-6)
    assert (a.steps, a.size, a.processed) == (b.steps, b.size, b.processed)
    assert b.loss == pytest.approx(a.loss, rel=1e-5)
    assert b.accuracy == pytest.approx(a.accuracy)


def test_what_is_trained_by_the_trainer():
    class Hooked(MLP):
        def on_train_epoch_end(self):
            pass

    class Scheduled(MLP):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    class Wider(MLP):
        def loss(self, logits, y, reduction="mean"):
            return 2 * super().loss(logits, y, reduction)

    given = {"num_classes": 3, "input_shape": (1, 2, 3)}
    frozen = MLP(**given)
    next(frozen.parameters()).requires_grad_(False)
    assert why_trainer(MLP(**given)) is None
    assert why_trainer(Wider(**given)) is None
    assert why_trainer(Hooked(**given)) == "Hooked has its own on_train_epoch_end"
    assert why_trainer(Scheduled(**given)) == "Scheduled has schedulers or several optimisers"
    assert why_trainer(frozen) == "some parameters of MLP are frozen"
    assert why_trainer(made(Base)) == "Base is a module of your own"


# -------------------------------------------------------------------------------- what is refused


def test_what_begins_to_train_later_is_refused():
    class Later(Base):
        def __init__(self):
            super().__init__()
            self.net[0].requires_grad_(False)

        def on_train_epoch_start(self):
            self.net[0].requires_grad_(self.current_epoch > 0)

    worker = worker_of(made(Later))
    worker.train(Job(0, worker.first, view_of(Base), 1, SIZE))
    with pytest.raises(UserError, match=r"Later changes net\.0\.weight in training later than in the first two steps"):
        worker.train(Job(0, worker.first, view_of(Base), 2, SIZE))


def test_what_has_no_row_is_refused():
    class Growing(Base):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(0))

        def training_step(self, batch, batch_idx):
            self.seen = torch.cat([self.seen, batch[0][:, 0]])
            return super().training_step(batch, batch_idx)

    class Shapeless(Base):
        def __init__(self):
            super().__init__()
            self.net[0] = nn.LazyLinear(5)

    class Idle(Base):
        def configure_optimizers(self):
            return None

    for kind, said in ((Growing, "shape of seen in Growing"), (Shapeless, "has no shape yet"), (Idle, "no optimiser")):
        with pytest.raises(UserError, match=said) as told:
            worker_of(made(kind))
        assert "\n" not in str(told.value)


class Watching(Base):
    """Lowers its rate when what it logs stalls: that grows or falls with the epochs, by the sign of the inputs."""

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.current_epoch * batch[0].mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 1.0)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"}}


def test_a_schedule_watches_what_the_client_set_apart():
    def federated(share):
        held = Rows()
        return from_arrays(held.x, held.y, clients=IID(), num_clients=2, val_share=share, seed=21)

    fabric, data = Fabric(accelerator="cpu", devices=1), federated(0.3)
    shard = data.shard(1)
    assert shard.train.tensors()[0].mean() > 0.05 and shard.val.tensors()[0].mean() < -0.05
    worker = LightningWorker(fabric, made(Watching), 4, shard.train, SIZE, Scoring(), data)
    job = Job(1, worker.first, shard.train, 8, SIZE)
    found = worker.layout.state_dict(worker.train(job).row)
    truth = made(Watching)
    before = {name: value.clone() for name, value in truth.state_dict().items()}
    rows, val = shard.train.dataset(), shard.val.dataset()
    expected = trained_plainly(truth, rows, range(len(rows)), job, 4, val=(val, range(len(val))))
    assert difference(found, expected, before) < 1e-3
    elsewhere = trained_plainly(made(Watching), rows, range(len(rows)), job, 4, val=(rows, range(len(rows))))
    assert difference(found, elsewhere, before) > 1e-3  # the test tells what is watched
    with pytest.raises(UserError, match=r"watches val_loss, which training_step does not log.*set data\.val_share"):
        LightningWorker(fabric, made(Watching), 4, shard.train, SIZE, Scoring(), federated(0))


# --------------------------------------------------------------------------------------------------------------- scores


class Scored(Base):
    logged = ("val_loss", "val_acc")

    def validation_step(self, batch, batch_idx):
        logits = self(batch[0])
        values = {
            "val_loss": F.cross_entropy(logits, batch[1]),
            "val_acc": (logits.argmax(1) == batch[1]).float().mean(),
        }
        values["f1"] = values["val_acc"] / 2
        for name in self.logged:
            self.log(name, values[name])


def test_a_score_is_what_validation_logs():
    worker = worker_of(made(Scored))
    x, y = Rows().x, Rows().y
    logits = worker.module(x)
    loss, score = worker.evaluate(worker.first, view_of(Scored))
    assert loss == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-5)
    assert score == pytest.approx(float((logits.argmax(1) == y).float().mean()))
    assert worker.evaluate(worker.first, View(())) == pytest.approx((np.nan, np.nan), nan_ok=True)


def test_a_metric_may_be_named_and_a_wrong_name_is_told():
    kind = type("Several", (Scored,), {"logged": ("f1", "val_acc")})
    worker = worker_of(made(kind))
    worker.scoring = Scoring("f1")
    assert worker.evaluate(worker.first, view_of(kind))[1] < 0.5
    worker.scoring = Scoring("auc")
    with pytest.raises(UserError, match=r"engine\.metric is auc, but Several logs f1, val_acc"):
        worker.evaluate(worker.first, view_of(kind))


def test_without_a_validation_step_a_classifier_is_scored_by_its_logits():
    worker = worker_of(made(Base))
    loss, score = worker.evaluate(worker.first, view_of(Base))
    logits = worker.module(Rows().x)
    assert loss == pytest.approx(float(F.cross_entropy(logits, Rows().y)), rel=1e-5)
    assert score == pytest.approx(float((logits.argmax(1) == Rows().y).float().mean()))


@pytest.mark.parametrize("kind", [Tied, Mapped])
def test_what_cannot_be_scored_says_so(kind):
    worker = worker_of(made(kind))
    with pytest.raises(UserError, match=r"has no validation_step.*write a validation_step"):
        worker.evaluate(worker.first, view_of(kind))


@pytest.mark.parametrize("wants", ["two inputs", "none", "another shape", "nothing logged"])
def test_what_has_no_score_trains_all_the_same(wants):
    """The record has NaN, and a word is said once."""

    class Unscored(Base):
        if wants == "two inputs":

            def forward(self, x, more):
                return self.net(x)

        elif wants == "none":
            forward = L.LightningModule.forward
        elif wants == "another shape":

            def forward(self, x):
                return self.net(x.view(-1, 2, WIDTH + 1))

        else:

            def validation_step(self, batch, batch_idx):
                pass

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self.net(batch[0]), batch[1])

    worker, said = worker_of(made(Unscored)), []
    worker.tell = said.append
    job = Job(0, worker.first, view_of(Base), 1, SIZE, test=view_of(Base))
    assert np.isnan(worker.train(job).accuracy) and np.isnan(worker.train(job).accuracy)
    assert len(said) == 1 and "scores are nan: Unscored" in said[0]


def test_scoring_leaves_a_frozen_part_in_evaluation_mode():
    worker = worker_of(made(Normed))
    worker.module.net[1].eval()
    worker.evaluate(worker.first, view_of(Base))
    assert worker.module.training and not worker.module.net[1].training


def test_the_modules_hooks_count_beside_a_wrapped_datamodule():
    """A datamodule without hooks of its own must not hide those of the module, whoever passes its hooks on."""

    class Plain(L.LightningDataModule):
        def train_dataloader(self):
            return torch.utils.data.DataLoader(Rows(), batch_size=SIZE)

    data = SplitDataModule(Plain(), IID(), num_clients=2, seed=1)
    worker = LightningWorker(
        Fabric(accelerator="cpu", devices=1), made(Hooked), 4, data.shard(1).train, SIZE, Scoring(), data
    )
    ((_, rows),) = data.shard(1).train.parts
    job, truth = Job(1, worker.first, data.shard(1).train, 2, SIZE), made(Hooked)
    before = {name: value.clone() for name, value in truth.state_dict().items()}
    expected = trained_plainly(truth, Rows(), rows, job, 4)
    assert difference(worker.layout.state_dict(worker.train(job).row), expected, before) < 1e-3


def test_what_only_our_models_tell_is_refused_in_one_line():
    worker = worker_of(made(Base))
    for ask in (worker.per_sample, worker.features, worker.gradient):
        with pytest.raises(UserError, match=r"this method needs .* use a model of flcluster\.modules"):
            ask(worker.first, view_of(Base))


def test_the_datas_hooks_on_batches_are_called():
    """What a datamodule does to a batch on its way to the model, in training and in validation."""

    class Halved(L.LightningDataModule):
        def on_after_batch_transfer(self, batch, dataloader_idx):
            seen.append(self.trainer.training)
            return batch[0] / 2, batch[1]

    seen = []
    fabric, view = Fabric(accelerator="cpu", devices=1), view_of(Scored)
    hooked = LightningWorker(fabric, made(Scored), 4, view, SIZE, Scoring(), Halved())
    plain = worker_of(made(Scored))
    by_hand = Rows()
    by_hand.x = by_hand.x / 2
    halved = View(((Samples(by_hand), torch.arange(N)),))
    job = {"client": 0, "start": plain.first, "epochs": 2, "batch_size": SIZE}
    assert torch.equal(hooked.train(Job(view=view, **job)).row, plain.train(Job(view=halved, **job)).row)
    assert hooked.evaluate(plain.first, view) == plain.evaluate(plain.first, halved)
    assert set(seen) == {True, False}


def test_transforms_and_hooks_take_the_trainer_and_are_drawn_for_every_batch():
    """A transform of training runs once for every sample that training goes through, and never in validation."""
    seen = []
    source = Samples(Rows(), transform=lambda sample: seen.append(1) or sample)
    worker = worker_of(made(Scored))
    view = View(((source, torch.arange(N)),))
    result = worker.train(Job(0, worker.first, view, EPOCHS, SIZE))
    assert len(seen) == EPOCHS * N == result.processed
    worker.evaluate(worker.first, view)
    assert len(seen) == EPOCHS * N
    transformed = type("Data", (L.LightningDataModule,), {"train_transform": str})()
    assert why_batches(transformed, MLP(3, (1, 2, 3))) == "data.train_transform is for every batch anew"
    assert why_batches(L.LightningDataModule(), MLP(3, (1, 2, 3))) is None
    with pytest.raises(UserError, match="takes a Trainer, and LightningModule has no training_step"):
        why_batches(transformed, L.LightningModule())


def test_a_modules_own_warning_is_heard_once():
    """In the short training at the start: not in every local training, and not never."""

    class Warns(Base):
        def training_step(self, batch, batch_idx):
            warnings.warn("rates are high", UserWarning, stacklevel=1)
            return super().training_step(batch, batch_idx)

    with pytest.warns(UserWarning, match="rates are high") as heard:
        worker = worker_of(made(Warns))
    assert all("workers" not in str(each.message) for each in heard)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker.train(Job(0, worker.first, view_of(Base), 1, SIZE))
