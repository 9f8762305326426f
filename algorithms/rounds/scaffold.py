"""SCAFFOLD: local training corrected for the drift of clients by control variates (Karimireddy et al., 2020)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.averaging import is_usable
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Observe, Trained
from flcluster.federation.worker import Worker
from flcluster.protocol.participation import Load
from flcluster.protocol.rounds import Round

from .aggregation import Aggregator, Average
from .clustered import ClusteredRounds, ClusteredState, one_cluster


@dataclass(frozen=True, eq=False)
class ScaffoldState(ClusteredState):
    """Adds the server's control; those of the clients are rows of the table ``control``."""

    control: Tensor
    """c: the mean of all clients' controls, ``[P]``; 0 behind the parameters."""
    change: Tensor
    """Σ (c_k⁺ − c_k) over the results of the round under way; empty between rounds."""


@dataclass(frozen=True, kw_only=True)
class Scaffold(ClusteredRounds[ScaffoldState]):
    """FedAvg whose local steps are corrected by c − c_k: where all clients head, less where this one does.

    A client's new control is its mean step of the round (option II of the paper), which needs plain SGD: steps of Adam
    or with momentum are no gradients. Weight decay is part of the local objective and of its gradient. A result that
    does not count (not finite, or no steps) leaves its client's control as it was.
    """

    server_lr: float = 1.0
    """η_g: how far the model moves towards the mean of the trained models."""
    server: Aggregator = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average (the paper's is uniform), Yogi, QFair."""

    state_type: ClassVar[type] = ScaffoldState

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.server_lr > 0:
            raise UserError(f"algorithm.server_lr must be above 0, got {self.server_lr}")

    @property
    def title(self) -> str:
        """The paper's name."""
        return "SCAFFOLD"

    @property
    def load(self) -> Load:
        """A model and a control each way."""
        return replace(super().load, downloads=2.0, uploads=2.0)

    def controls(self, fed: Federation) -> Table:
        """Return the clients' controls c_k; a client that never trained has 0."""
        return fed.table("control")

    def init(self, fed: Federation) -> ScaffoldState:
        """One random model, and controls of 0."""
        check_plain_sgd(fed.worker)
        first = one_cluster(self, fed)
        return ScaffoldState(**vars(first), control=torch.zeros_like(first.models[0]), change=torch.zeros(0))

    def step(self, state: ScaffoldState, t: int, fed: Federation) -> tuple[ScaffoldState, Round]:
        """Run a round, then x ← x + η_g (mean − x) and c ← c + (1/N) Σ (c_k⁺ − c_k), N: all who ever take part."""
        state = replace(state, change=torch.zeros_like(state.control))
        after, done = super().step(state, t, fed)
        models, parameters = after.models.clone(), fed.layout.num_parameters
        models[:, :parameters] = state.models[:, :parameters].lerp(after.models[:, :parameters], self.server_lr)
        control = state.control + state.change / len(fed.data.participants)
        done = replace(done, row_of=lambda i: models[0], upload_models=2, download_models=2)
        return replace(after, models=models, control=control, change=torch.zeros(0)), done

    def plan(self, state: ScaffoldState, job: Job, t: int, fed: Federation) -> Job:
        """Correct a client's gradients by c − c_k."""
        correction = state.control - self.controls(fed)[job.client].to(fed.device)
        return replace(job, correction=correction[: fed.layout.num_parameters])

    def observe(self, fed: Federation, t: int) -> Observe:
        """Add the learning rate that a model was trained with."""
        look = super().observe(fed, t)

        def observe(worker: Worker, job: Job, trained: Trained) -> dict[str, Any]:
            return {**look(worker, job, trained), "lr": worker.rates[0] * job.lr_factor}

        return observe

    def received(self, state: ScaffoldState, results: Iterable[Trained], fed: Federation) -> Iterator[Trained]:
        """Update the clients' controls, c_k⁺ = c_k − c + (x − y_k) / (K·lr), and add up the changes."""
        controls, parameters = self.controls(fed), fed.layout.num_parameters
        for result in results:
            if is_usable(result):
                change = (state.models[0] - result.row) / (result.steps * result.seen["lr"]) - state.control
                change[parameters:] = 0
                controls[result.client] = controls[result.client].to(fed.device) + change
                state.change.add_(change)
            yield result


def check_plain_sgd(worker: Worker) -> None:
    """Refuse an optimiser whose mean step is not a mean gradient."""
    optimizer = worker.bare_optimizer
    if worker.scaler is not None:
        raise UserError("SCAFFOLD must know how many steps were taken, and 16-mixed leaves some out: use bf16-mixed")
    if not isinstance(optimizer, torch.optim.SGD):
        raise UserError(f"SCAFFOLD needs plain SGD, not {type(optimizer).__name__}: use model.optimizer=sgd")
    if any(worker.momenta):
        raise UserError("SCAFFOLD needs SGD without momentum: use model.momentum=0")
    if len(set(worker.rates)) > 1:
        raise UserError(f"SCAFFOLD needs one learning rate for all parameters, not {worker.rates}")
