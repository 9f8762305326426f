"""FedGen: a generator of features that clients' heads teach and that regularises local training (Zhu et al., 2021)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flcluster.algorithms.generators.losses import (
    class_weights,
    distillation_loss,
    fedgen_diversity,
    taught_classes,
    teacher_loss,
)
from flcluster.algorithms.generators.training import Pupil, Saved
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Trained
from flcluster.federation.worker import Worker
from flcluster.modules import LatentGenerator
from flcluster.protocol.base import at_least
from flcluster.protocol.needs import CLASSES, OWN_LOSS
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import Cohort
from flcluster.seeds import rng, torch_seed

from .fedavg import ClusteredState, FedAvg

LEAST = 1e-4
"""Where the regularisers' weights stop falling."""


@dataclass(frozen=True, eq=False)
class FedGenState(ClusteredState):
    """Adds the generator."""

    generator: Saved
    """What the generator's pupil saves."""
    classes: Tensor
    """The classes that some client which takes part holds now, ascending."""


@dataclass(frozen=True, kw_only=True)
class FedGen(FedAvg[FedGenState]):
    """FedAvg with a generator of features, taught every round by the participants' heads.

    From the second round on clients receive it with the model. Their loss is then CE + (gen_batch / batch_size) a_t
    CE(head(G(y')), y') + b_t KL(head(G(y)) ‖ p(x)), for classes y' that are drawn from all that clients hold and the
    labels y of the batch, with a_t and b_t falling from round to round. Defaults are those of the authors' code for
    MNIST; it has ``latent_weight`` 1 and ``generator_lr`` 1e-4 for EMNIST, and stops to regularise after 20 epochs of a
    round, which is not done here. The generator's bytes are counted, but devices download it in no time.
    """

    needs: ClassVar[tuple[str, ...]] = (
        CLASSES,
        OWN_LOSS,
    )
    paper: ClassVar[str] = "Zhu et al., 2021"

    label_weight: float = 10.0
    """a: weight of the loss of generated features of drawn classes, in the first round."""
    latent_weight: float = 10.0
    """b: weight of the distance between predictions for a batch and for generated features of its labels."""
    weight_decline: float = 0.98
    """Factor on both weights from one round to the next, down to 1e-4."""
    gen_batch: int = 32
    """Classes drawn per local step."""
    generator_steps: int = 50
    """Steps of training the generator per round."""
    generator_batch: int = 32
    """Generated features per step."""
    generator_lr: float = 3e-4
    """Adam's learning rate for the generator."""
    generator_lr_decline: float = 0.98
    """Factor on it from one round to the next."""
    generator_weight_decay: float = 1e-2
    """Adam's L2 penalty for the generator."""
    diversity: float = 1.0
    """Weight of the generator's diversity loss; the teachers' loss has 1."""
    noise_dim: int = 32
    """Dimensions of the generator's noise (the authors' 64 for CIFAR)."""
    generator_hidden: int = 256
    """Width of the generator's hidden layer (512)."""

    extra_names: ClassVar[tuple[str, ...]] = ("generator_loss",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("gen_batch", "generator_steps", "noise_dim", "generator_hidden"):
            at_least(name, getattr(self, name), 1)
        at_least("generator_batch", self.generator_batch, 2)
        for name in ("label_weight", "latent_weight", "generator_weight_decay", "diversity"):
            at_least(name, getattr(self, name), 0)
        for name in ("weight_decline", "generator_lr", "generator_lr_decline"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"algorithm.{name} must be above 0, got {getattr(self, name)}")

    def init(self, fed: Federation) -> FedGenState:
        """One random model and a random generator."""
        first = self.one_model(fed)
        return FedGenState(**vars(first), generator=self.pupil(fed).save(), classes=torch.zeros(0, dtype=torch.int64))

    def generator(self, fed: Federation) -> LatentGenerator:
        """Return a random generator of what the model's head reads."""
        latent_dim = head_of(fed.module).in_features
        with torch_seed(fed.seed, "generator"):
            made = LatentGenerator(fed.data.num_classes, latent_dim, self.noise_dim, self.generator_hidden)
        return made.to(fed.device)

    def pupil(self, fed: Federation) -> Pupil[LatentGenerator]:
        """Return the generator before its first lesson."""
        return Pupil(self.generator(fed), fed, self.generator_lr, self.generator_weight_decay)

    # clients ----------------------------------------------------------------------------------------------------

    def follow(self, state: FedGenState, t: int, fed: Federation) -> tuple[FedGenState, float]:
        """Find out which classes clients hold now."""
        held = fed.data.label_counts(fed.data.participants, t)
        return replace(state, classes=taught_classes(torch.from_numpy(held))), 0.0

    def jobs(self, state: FedGenState, cohort: Cohort, t: int, fed: Federation) -> Iterable[Job]:
        """Send the generator along, once it has been taught."""
        plain = super().jobs(state, cohort, t, fed)
        if t == 0:
            return plain
        objective = self.objective(state, t, fed)
        return (replace(job, objective=objective) for job in plain)

    def objective(self, state: FedGenState, t: int, fed: Federation) -> "Regularised":
        """Return the loss of local training in round ``t``, with the generator as it is now."""
        generator = self.generator(fed).eval()
        generator.load_state_dict(state.generator["module"])
        return Regularised(
            generator,
            state.classes.to(fed.device),
            self.gen_batch,
            on_drawn=self.gen_batch / self.batch_size * self.faded(self.label_weight, t),
            on_alike=self.faded(self.latent_weight, t),
        )

    def faded(self, weight: float, t: int) -> float:
        """Return a regulariser's weight in round ``t``."""
        return min(weight, max(LEAST, weight * self.weight_decline**t))

    def observe(self, fed: Federation) -> Observe[Tensor]:
        """See the head of the trained model."""
        return head_row

    # the server -------------------------------------------------------------------------------------------------

    def learn(self, state: FedGenState, t: int, done: Round, fed: Federation) -> tuple[FedGenState, Round]:
        """Let the heads that came in teach the generator."""
        pupil = self.pupil(fed).load(state.generator, self.generator_lr * self.generator_lr_decline**t)
        kept = [(result.client, result.seen) for result in done.results if result.usable and result.seen is not None]
        extra = {}
        if kept:
            held = torch.from_numpy(fed.data.label_counts(np.array([client for client, _ in kept]), t))
            extra["generator_loss"] = self.lesson(pupil, torch.stack([head for _, head in kept]), held, t, fed)
        done = replace(done, download_bytes=pupil.bytes if t else 0, extra=extra)
        return replace(state, generator=pupil.save()), done

    def lesson(self, pupil: Pupil[LatentGenerator], heads: Tensor, held: Tensor, t: int, fed: Federation) -> float:
        """Teach the generator once, return its mean loss.

        Args:
            pupil: Learns.
            heads: The teachers: weights, and biases in the last column, ``[K, C, F + 1]``.
            held: Their training samples per class, ``[K, C]``.
            t: The round.
            fed: The federation.
        """
        generator = pupil.module
        heads, weights = heads.to(fed.device), class_weights(held, prior=1).to(fed.device)

        def loss(y: Tensor) -> Tensor:
            noise = generator.noise(len(y))
            features = generator(noise, y)
            logits = torch.einsum("bf,kcf->kbc", features, heads[..., :-1]) + heads[:, None, :, -1]
            return teacher_loss(logits, y, weights) + self.diversity * fedgen_diversity(noise, features)

        draw = rng(fed.seed, "generator's lesson", t)
        with torch_seed(fed.seed, "generator's lesson", t):
            return pupil.learn(self.generator_steps, self.generator_batch, taught_classes(held), draw, loss)


@dataclass(frozen=True, eq=False)
class Regularised:
    """The loss of local training with a generator."""

    generator: LatentGenerator
    classes: Tensor
    """The classes that may be drawn."""
    drawn: int
    """How many are drawn per step."""
    on_drawn: float
    """Weight of the loss of generated features of drawn classes."""
    on_alike: float
    """Weight of the distance between predictions for a batch and for generated features of its labels."""

    def __call__(self, worker: Worker, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch."""
        generator, classes = self.generator, self.classes
        drawn = classes[torch.randint(len(classes), (self.drawn,), device=classes.device)]
        with torch.no_grad():
            alike, other = (generator(generator.noise(len(labels)), labels) for labels in (y, drawn))
        logits, head = worker.module(x), head_of(worker.module)
        own = worker.loss(logits, y) + self.on_drawn * F.cross_entropy(head(other), drawn)
        return own + self.on_alike * distillation_loss(logits, head(alike))


def head_row(worker: Worker, job: Job, trained: Trained[Tensor]) -> Tensor:
    """Return the head of a trained model: weights, and biases in the last column, ``[C, F + 1]``."""
    state = worker.layout.state_dict(trained.row)
    weight = state["head.weight"]
    bias = state.get("head.bias", weight.new_zeros(len(weight)))
    return torch.cat([weight, bias[:, None]], dim=1)


def head_of(module: nn.Module) -> nn.Linear:
    """Return the linear layer that makes logits of features."""
    head = getattr(module, "head", None)
    if not isinstance(head, nn.Linear) or not callable(getattr(module, "features", None)):
        raise UserError(
            f"FedGen needs a model that is head(features(x)) with a linear head, which {type(module).__name__} is not: "
            "use a model of flcluster.modules, or give yours a method features(x) and an nn.Linear named head"
        )
    return head
