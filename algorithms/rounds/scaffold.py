"""SCAFFOLD: local training corrected for the drift of clients by control variates (Karimireddy et al., 2020)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from flcluster.errors import UserError
from flcluster.federation.bank import Table
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.protocol.participation import Cohort, Load

from .aggregation import Aggregator
from .fedavg import Average, ClusteredState, FedAvg


@dataclass(frozen=True, eq=False)
class ScaffoldState(ClusteredState):
    """Adds the server's control; those of the clients are rows of the table ``control``."""

    control: Tensor
    """c: the mean of all clients' controls, ``[P]``; 0 behind the parameters."""


@dataclass(frozen=True, kw_only=True)
class Scaffold(FedAvg[ScaffoldState]):
    """FedAvg whose local steps are corrected by c − c_k: where all clients head, less where this one does.

    A client's new control is its mean step of the round (option II of the paper), which needs plain SGD: steps of Adam
    or with momentum are no gradients. Weight decay is part of the local objective and of its gradient. A result that
    does not count (not finite, or no steps) leaves its client's control as it was.
    """

    paper: ClassVar[str] = "Karimireddy et al., 2020"

    server_lr: float = 1.0
    """η_g: how far the model moves towards the mean of the trained models."""
    server: Aggregator = field(default_factory=lambda: Average("uniform"))
    """How trained models become the new one: Average (the paper's is uniform), Yogi, QFair."""

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
        check_plain_sgd(fed)
        first = self.one_model(fed)
        return ScaffoldState(**vars(first), control=torch.zeros_like(first.models[0]))

    def jobs(self, state: ScaffoldState, cohort: Cohort, t: int, fed: Federation) -> Iterable[Job]:
        """Correct each client's gradients by c − c_k."""
        controls, numbers = self.controls(fed), fed.layout.num_parameters
        for job in super().jobs(state, cohort, t, fed):
            correction = state.control - controls[job.client].to(fed.device)
            yield replace(job, correction=correction[:numbers])

    def aggregate(
        self, state: ScaffoldState, trained: Iterable[Trained[Any]], cohort: Cohort, t: int, fed: Federation
    ) -> ScaffoldState:
        """x ← x + η_g (mean − x) and c ← c + (1/N) Σ (c_k⁺ − c_k), N: all who ever take part.

        c_k⁺ = c_k − c + (x − y_k) / (K·lr): a client's control goes on by what its result y_k tells.
        """
        controls, numbers = self.controls(fed), fed.layout.num_parameters
        total = torch.zeros_like(state.control)

        def heard() -> Iterator[Trained[Any]]:
            for result in trained:
                if result.usable:
                    change = (state.models[0] - result.row) / (result.steps * result.lr) - state.control
                    change[numbers:] = 0
                    controls[result.client] = controls[result.client].to(fed.device) + change
                    total.add_(change)
                yield result

        after = super().aggregate(state, heard(), cohort, t, fed)
        models = after.models.clone()
        models[:, :numbers] = state.models[:, :numbers].lerp(after.models[:, :numbers], self.server_lr)
        return replace(after, models=models, control=state.control + total / len(fed.data.participants))


def check_plain_sgd(fed: Federation) -> None:
    """Refuse an optimiser whose mean step is not a mean gradient."""
    groups = fed.optimizer.param_groups
    if fed.scales_losses:
        raise UserError("SCAFFOLD must know how many steps were taken, and 16-mixed leaves some out: use bf16-mixed")
    if not isinstance(fed.optimizer, torch.optim.SGD):
        raise UserError(f"SCAFFOLD needs plain SGD, not {type(fed.optimizer).__name__}: use model.optimizer=sgd")
    if not fed.constant_steps:
        raise UserError("SCAFFOLD needs steps of one optimiser with one learning rate: leave out schedulers")
    if any(group["momentum"] for group in groups):
        raise UserError("SCAFFOLD needs SGD without momentum: use model.momentum=0")
    if len(rates := {group["lr"] for group in groups}) > 1:
        raise UserError(f"SCAFFOLD needs one learning rate for all parameters, not {sorted(rates)}")
