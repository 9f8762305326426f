"""One public module against a plain Trainer: what a user would bring, and what became of it."""

import random
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import lightning as L
import numpy as np
import torch
from lightning.fabric import Fabric
from plain_trainer import difference, trained_plainly
from torch.nn import functional as F
from torch.utils.data import DataLoader

from flcluster.datamodules import IID, SplitDataModule
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job
from flcluster.federation.scores.scoring import Scoring

OUTCOMES = []
SEED, CLIENTS, SIZE = 3, 2, 4


class Loaded(L.LightningDataModule):
    """A dataset in a DataLoader, as most tutorials have it."""

    def __init__(self, dataset, collate=None):
        super().__init__()
        self.dataset, self.collate = dataset, collate

    def train_dataloader(self):
        return DataLoader(self.dataset, batch_size=SIZE, shuffle=True, collate_fn=self.collate)


class Classifier(L.LightningModule):
    """A network, cross-entropy, accuracy as it is logged everywhere."""

    def __init__(self, net=None):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 4)) if net is None else net

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05, momentum=0.9)


@dataclass
class Outcome:
    """A line of the table."""

    name: str
    package: str
    path: str = ""
    travels: str = ""
    outcome: str = ""
    score: str = ""


def described(packages):
    return " + ".join(f"{name} {version(name)}" for name in packages.split())


def check(make, data, package, refused=None, epochs=2, name=None, val_share=0.0, validates=False, metric=None):
    """Train a module as a client does and by a plain Trainer; or see it refused in one line."""
    line = Outcome(name or make.__name__, described(package))
    OUTCOMES.append(line)
    try:
        _compare(make, data, epochs, line, val_share, validates, Scoring(metric))
    except UserError as error:
        said = str(error)
        line.outcome = f"refused: {said}"
        assert "\n" not in said
        assert refused is not None and refused in said, said
    except BaseException as error:
        line.outcome = f"FAILS: {type(error).__name__}: {str(error)[:200]}"
        raise
    else:
        assert refused is None, f"should be refused: {refused}"


def _made(make):
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    return make()


def _brought(data):
    torch.manual_seed(1)
    brought = data()
    return brought if hasattr(brought, "train_dataloader") else Loaded(*brought)


def _compare(make, data, epochs, line, val_share, validates, scoring):
    shares = {"test_share": 0.25, "val_share": val_share}
    split = SplitDataModule(_brought(data), IID(), num_clients=CLIENTS, batch_size=SIZE, seed=SEED, **shares)
    split.setup()
    module = _made(make)
    fabric = Fabric(accelerator="cpu", devices=1)
    federation = Federation(fabric, module, split, lambda width: Bank(Path("rows"), width, 1 << 30), SEED, scoring)
    line.path = "Trainer" if federation.by_trainer else "flat loop"
    layout = federation.layout
    whole = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    line.travels = f"{layout.size:,} of {whole:,}"
    start = federation.init_rows(1)[0]
    given, truth = layout.state_dict(start), _made(make)
    for key, value in truth.state_dict().items():
        same = not hasattr(value, "shape") or torch.equal(given[key].nan_to_num(), value.nan_to_num())
        assert same, f"{key} is not as it was given"
    shard = split.shard(1)
    ((source, rows),) = shard.train.parts
    job = Job(1, start, shard.train, epochs, SIZE)
    federation.worker.train(Job(0, start, split.shard(0).train, 1, SIZE))
    row = federation.worker.train(job).row
    for key, value in layout.state_dict(start).items():
        counts = not hasattr(value, "shape") or not value.is_floating_point()
        assert counts or torch.equal(given[key].nan_to_num(), value.nan_to_num()), f"{key} stays"
    found = layout.state_dict(row)
    expected = trained_plainly(
        *(truth, source.dataset, rows, job, SEED, source.collate, _brought(data), given, layout.has_batch_norm),
        val=None if not validates else (shard.val.parts[0][0].dataset, shard.val.parts[0][1].tolist()),
    )
    share = difference(found, expected, given)
    line.outcome = "the same" if share == 0 else f"differs by {share:.1e} of the change"
    assert share < 1e-3, line.outcome
    try:
        line.score = f"{federation.worker.measure(start, shard.test):.3g}"
    except UserError as error:
        assert "\n" not in str(error)
        line.score = f"refused: {error}"
    federation.init_rows(2)


def table():
    """What became of each module so far."""
    rows = [(o.name, o.package, o.path, o.travels, o.outcome, o.score) for o in OUTCOMES]
    heads = ("module", "package", "path", "travels", "outcome", "score")
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ("---",) * len(heads), *rows))
