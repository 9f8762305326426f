"""FedDF: the average of clients' models learns from all of them on unlabelled data (Lin et al., 2020)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from flcluster.algorithms.generators.losses import distillation_loss
from flcluster.data import View, joined
from flcluster.errors import UserError
from flcluster.federation.averaging import is_usable
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Recipe, Trained, samples_processed
from flcluster.federation.layout import all_finite
from flcluster.federation.worker import Worker
from flcluster.protocol.base import at_least
from flcluster.protocol.rounds import Round

from .clustered import ClusteredState
from .fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedDF(FedAvg):
    """FedAvg, and every round the server distils the participants' mean logits on its proxy data into their average.

    Labels of the proxy data are not looked at. The authors' code takes up to 10,000 steps a round and stops early by a
    validation set; the default here is what two cores can pay, without early stopping.
    """

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

    def observe(self, fed: Federation, t: int) -> Observe:
        """Add the trained model's logits of the proxy data."""
        look = super().observe(fed, t)

        def observe(worker: Worker, job: Job, trained: Trained) -> dict[str, Any]:
            seen = look(worker, job, trained)
            return {**seen, "logits": logits_of(worker, trained.row, fed.proxies).cpu()}

        return observe if self.distillation_steps else look

    def after(self, state: ClusteredState, t: int, done: Round, fed: Federation) -> tuple[ClusteredState, Round]:
        """Distil into the average; it stays as it is if nobody can teach it or the result is not finite."""
        logits = [result.seen.pop("logits", None) for result in done.trained]
        taught = [
            one
            for one, result in zip(logits, done.trained, strict=True)
            if one is not None and result.steps and result.seen["finite"] and all_finite(one)
        ]
        if not taught:
            return state, done
        teacher = torch.stack(taught).mean(0).to(fed.device)
        (student,) = fed.train([self.distillation(state.models[0], teacher, t, fed)])
        if not is_usable(student):
            return state, done
        batch, steps, norm = self.distillation_batch, self.distillation_steps, fed.layout.has_batch_norm
        passes = len(taught) * len(teacher) + 3 * samples_processed(len(teacher), 1, batch, steps, norm)
        said = {"distillation_loss": student.loss}
        done = replace(done, row_of=lambda i: student.row, extra=said, server_compute=passes)
        return replace(state, models=student.row[None].clone()), done

    def distillation(self, start: Tensor, teacher: Tensor, t: int, fed: Federation) -> Job:
        """Plan the server's training towards given logits of the proxy data, ``[n, C]``, in their order."""
        proxy = joined(fed.proxies)

        def objective(worker: Worker, x: Tensor, number: Tensor) -> Tensor:
            return distillation_loss(worker.module(x), teacher[number], self.temperature)

        return Job(
            client=0,
            start=start,
            view=View(((Numbered(proxy), torch.arange(len(proxy))),)),
            epochs=1,
            batch_size=self.distillation_batch,
            purpose="distil",
            cycle=t,
            steps=self.distillation_steps,
            objective=objective,
            recipe=Recipe(lr=self.distillation_lr, cosine=True, clip=self.distillation_clip),
        )


class Numbered:
    """The samples of a view, each labelled with its place in it: an objective looks up what belongs to a sample."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __len__(self) -> int:
        return len(self.view)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and numbers at ``index``."""
        return self.view.tensors()[0][index], index


@torch.no_grad()
def logits_of(worker: Worker, row: Tensor, views: list[View]) -> Tensor:
    """Return a model's logits of all samples of some views, ``[n, C]``, in evaluation mode."""
    worker.layout.load(row)
    worker.module.eval()
    parts = [part for view in views for part in worker.parts(view)]
    inputs = ((worker.pinned.get(part) or worker.to_device(*part.tensors()))[0] for part in parts)
    with worker.fabric.autocast():
        return torch.cat([worker.module(x).float() for x in inputs])
