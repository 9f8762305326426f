"""FedDF: the average of clients' models learns from all of them on unlabelled data (Lin et al., 2020)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from flcluster.algorithms.generators.losses import distillation_loss
from flcluster.data import View, joined
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Recipe, Trained
from flcluster.federation.layout import all_finite
from flcluster.federation.worker import Worker
from flcluster.protocol.base import at_least
from flcluster.protocol.needs import OWN_LOSS
from flcluster.protocol.outcome import Round

from .fedavg import ClusteredState, FedAvg


@dataclass(frozen=True, kw_only=True)
class FedDF(FedAvg):
    """FedAvg, and every round the server distils the participants' mean logits on its proxy data into their average.

    Labels of the proxy data are not looked at. The authors' code takes up to 10,000 steps a round and stops early by a
    validation set; the default here is what two cores can pay, without early stopping.
    """

    needs: ClassVar[tuple[str, ...]] = (OWN_LOSS,)
    paper: ClassVar[str] = "Lin et al., 2020"

    distillation_steps: int = 100
    """Steps of distillation per round; 0 is FedAvg."""
    distillation_batch: int = 128
    """Proxy samples per step."""
    distillation_lr: float = 1e-3
    """Adam's learning rate, which falls to 0 over a round's steps along half a cosine."""
    distillation_clip: float = 5.0
    """Largest norm of a gradient."""
    temperature: float = 1.0
    """T: both the teachers' logits and the student's are divided by it."""
    distillation_data: str = "proxy set: images of the same dataset that no client holds"
    """What the proxy data are, for the run's summary: results depend on it."""

    extra_names: ClassVar[tuple[str, ...]] = ("distillation_loss",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("distillation_steps", self.distillation_steps, 0)
        at_least("distillation_batch", self.distillation_batch, 1)
        for name in ("distillation_lr", "distillation_clip", "temperature"):
            if not getattr(self, name) > 0:
                raise UserError(f"algorithm.{name} must be above 0, got {getattr(self, name)}")

    @property
    def described(self) -> dict[str, str]:
        """Name the proxy data."""
        return {"distillation_data": self.distillation_data}

    def init(self, fed: Federation) -> ClusteredState:
        """One random model; data without proxy sets are refused now."""
        fed.note(f"distils on {sum(map(len, fed.proxies)):,} proxy samples")
        return super().init(fed)

    def observe(self, fed: Federation) -> Observe[Tensor] | None:
        """See the trained model's logits of the proxy data."""
        return ProxyLogits(fed.proxies) if self.distillation_steps else None

    def learn(self, state: ClusteredState, t: int, done: Round, fed: Federation) -> tuple[ClusteredState, Round]:
        """Distil into the average; it stays as it is if nobody can teach it or the result is not finite."""
        logits = [result.seen for result in done.results if result.usable]
        taught = [one for one in logits if one is not None and all_finite(one)]
        if not taught:
            return state, done
        teacher = torch.stack(taught).mean(0).to(fed.device)
        (student,) = fed.train([self.distillation(state.models[0], teacher, t, fed)])
        if not student.usable:
            return state, done
        models, passes = student.row[None].clone(), len(taught) * len(teacher) + 3 * student.processed
        said = {"distillation_loss": student.loss}
        return replace(state, models=models), replace(done, models=models, extra=said, server_compute=passes)

    def distillation(self, start: Tensor, teacher: Tensor, t: int, fed: Federation) -> Job:
        """Plan the server's training towards given logits of the proxy data, ``[n, C]``, in their order."""
        proxy = joined(fed.proxies)
        return Job(
            client=0,
            start=start,
            view=View(((Numbered(proxy), torch.arange(len(proxy))),)),
            epochs=1,
            batch_size=self.distillation_batch,
            purpose="distil",
            cycle=t,
            steps=self.distillation_steps,
            objective=Distil(teacher, self.temperature),
            recipe=Recipe(lr=self.distillation_lr, cosine=True, clip=self.distillation_clip),
        )


@dataclass(frozen=True, eq=False)
class Distil:
    """The loss of a student whose samples are labelled with their numbers."""

    teacher: Tensor
    """Logits by number, ``[n, C]``."""
    temperature: float

    def __call__(self, worker: Worker, x: Tensor, number: Tensor) -> Tensor:
        """Return the distance to the teacher's predictions."""
        return distillation_loss(worker.module(x), self.teacher[number], self.temperature)


class Numbered:
    """The samples of a view, each labelled with its place in it: an objective looks up what belongs to a sample."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __len__(self) -> int:
        return len(self.view)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and numbers at ``index``."""
        return self.view.tensors()[0][index], index


@dataclass(frozen=True, eq=False)
class ProxyLogits:
    """Looks at a trained model's logits of all samples of some views, ``[n, C]``, in evaluation mode."""

    views: list[View]

    @torch.no_grad()
    def __call__(self, worker: Worker, job: Job, trained: Trained[Tensor]) -> Tensor:
        """Return the logits."""
        worker.layout.load(trained.row)
        worker.learning(False)
        parts = [part for view in self.views for part in worker.parts(view)]
        inputs = ((worker.pinned.get(part) or worker.to_device(*part.tensors()))[0] for part in parts)
        with worker.autocast():
            return torch.cat([worker.module(x).float() for x in inputs])
