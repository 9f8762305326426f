"""A small right file of each kind that an author writes, and the flags of a run that uses it; to be made wrong."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TINY = ["--config", str(ROOT / "tests/tiny.yaml")]
ROUNDS = [*TINY, "--algorithm", "FedAvg", "--algorithm.rounds", "2", "--algorithm.batch_size", "16",
          "--algorithm.local_epochs", "1"]  # fmt: skip

METHOD = """
from dataclasses import dataclass, field, replace
import torch
from flcluster.protocol import Job, Phase, Round, RoundAlgorithm, Served

@dataclass(frozen=True)
class State:
    models: torch.Tensor
    seen: dict = field(default_factory=dict)

@dataclass(frozen=True, kw_only=True)
class Mine(RoundAlgorithm[State]):
    extra_names = ("spread",)

    def init(self, fed):
        return State(fed.init_rows(1))

    def step(self, state, t, fed):
        cohort = self.select(t, fed)
        training = fed.train([self.job(client, state.models[0], t, fed) for client in cohort.clients])
        rows = torch.stack([result.row for result in training])
        new = State(rows.mean(0, keepdim=True), {**state.seen, t: len(rows)})
        return new, Round(cohort, training.results, new.models, extra={"spread": 1.0})

    def clusters(self, state):
        return None

    def server_models(self, state):
        return state.models

    def served(self, state, t, fed):
        import numpy as np
        return Served(state.models, np.zeros(fed.data.num_clients, dtype=np.int64))

    def gauges(self, state):
        return {"spread": float(len(state.seen))}
"""

UPLOADS = """
from dataclasses import dataclass
import torch
from flcluster.protocol import Reply, UploadAlgorithm

@dataclass(frozen=True)
class State:
    model: torch.Tensor
    count: int = 0

@dataclass(frozen=True, kw_only=True)
class Mine(UploadAlgorithm[State]):
    def init(self, fed):
        return State(fed.init_rows(1)[0])

    def join(self, state, client, fed):
        return Reply(state.model)

    def upload(self, state, up, fed):
        model = (state.model + up.row) / 2
        return State(model, state.count + 1), Reply(model)
"""

FLAT = """
import torch
from torch.nn import functional as F
from flcluster.modules import Classifier

class Mine(Classifier):
    def __init__(self, num_classes: int, input_shape: tuple[int, ...], lr: float = 0.1):
        super().__init__(num_classes, input_shape, optimizer="sgd", lr=lr)
        self.lr = lr
        self.head = torch.nn.Linear(64, num_classes)

    def features(self, x):
        return x.flatten(1)

    def forward(self, x):
        return self.head(self.features(x))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr)
"""

MODULE = """
import torch
from lightning import LightningModule
from torch.nn import functional as F

class Mine(LightningModule):
    def __init__(self, num_classes: int, input_shape: tuple[int, ...], lr: float = 0.1):
        super().__init__()
        self.lr, self.net = lr, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, num_classes))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr)
"""

DATA = """
import torch
from flcluster.data import FederatedDataModule, Shard, View

class Points:
    def __init__(self, seed):
        drawn = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(240) % 10
        self.x = torch.randn(240, 1, 8, 8, generator=drawn) + self.labels[:, None, None, None]

    def __len__(self):
        return 240

    def take(self, index):
        return self.x[index], self.labels[index]

class Mine(FederatedDataModule):
    num_classes, input_shape, num_clusters, num_clients, name = 10, (1, 8, 8), 1, 6, "mine"

    def setup(self, stage=None):
        self.train, self.test = Points(1), Points(2)

    def size(self, client, cycle=0):
        return 30

    def shard(self, client, cycle=0):
        index = torch.arange(40 * client, 40 * client + 30)
        later = torch.arange(40 * client + 30, 40 * client + 40)
        return Shard(View(((self.train, index),)), View(((self.test, index),)), torch.ones(1))

    def proxy(self, cluster):
        return View(((self.test, torch.arange(200, 240)),))

    def cluster_train(self, cluster):
        return View(((self.train, torch.arange(240)),))

    def cluster_test(self, cluster):
        return View(((self.test, torch.arange(200)),))
"""

HOOK = """
from flcluster.engine.callbacks import Callback

class Mine(Callback):
    def on_fit_start(self, loop):
        self.steps = loop.total

    def on_session_end(self, loop, metrics):
        if loop.position == loop.total:
            loop.stop = "enough"
"""

TRAINER_HOOK = """
from lightning import Callback

class Mine(Callback):
    def on_train_start(self, trainer, module):
        self.seen = trainer.max_epochs
"""

KINDS: dict[str, tuple[str, list[str]]] = {
    "a method in rounds": (METHOD, [*TINY, "--algorithm", "mine.Mine", "--algorithm.rounds", "2",
                                    "--algorithm.batch_size", "16", "--algorithm.local_epochs", "1"]),
    "a method of uploads": (UPLOADS, [*TINY, "--algorithm", "mine.Mine", "--algorithm.cycles", "1",
                                      "--algorithm.batch_size", "16", "--algorithm.local_epochs", "1"]),
    "a classifier": (FLAT, [*ROUNDS, "--model", "mine.Mine"]),
    "a LightningModule": (MODULE, [*ROUNDS, "--model", "mine.Mine"]),
    "a datamodule": (DATA, [*ROUNDS, "--data", "mine.Mine"]),
    "a callback": (HOOK, [*ROUNDS, "--callbacks", "[{class_path: mine.Mine}]"]),
    "a Trainer's callback": (TRAINER_HOOK, [*ROUNDS, "--trainer_callbacks", "[{class_path: mine.Mine}]"]),
}  # fmt: skip
"""What an author writes -> a right file, and the flags of a run that uses it."""
