"""Hooks into a run. A callback is any object with some of these methods; it stops a run by ``loop.stop = "why"``."""

import math
from typing import Any

from flcluster.errors import UserError
from flcluster.given import Recorded
from flcluster.records.recorder import MEASURED
from flcluster.score import Mode


class Callback(Recorded):
    """The hooks a run calls, on every rank. Override what you need."""

    def on_fit_start(self, loop: Any) -> None:
        """Before the first step of this process (also after a resume)."""

    def on_upload(self, loop: Any, upload: Any) -> None:
        """Before an upload is checked; may look at it or, to simulate faults, change it."""

    def on_refused(self, loop: Any, upload: Any, why: str) -> None:
        """When an upload was refused."""

    def on_session_end(self, loop: Any, metrics: dict[str, float]) -> None:
        """After a row of metrics was written."""

    def on_fit_end(self, loop: Any) -> None:
        """After the last step of this process."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""


class EarlyStopping(Callback):
    """Stop when a metric has not improved for some sessions.

    What a method does after its rounds (AP-FL's generator and personal models, FedAvg-FT's fine-tuning) is never cut
    short; a run that stops within its rounds ends without it.

    Args:
        monitor: Column of metrics.csv.
        patience: Sessions without improvement before stopping.
        min_delta: Smallest change that counts as an improvement.
        mode: Whether larger or smaller is better; auto: of the run's score as the run says, of other columns by name.
    """

    def __init__(
        self,
        monitor: str = "client_acc_after",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: Mode = "auto",
    ) -> None:
        self.monitor, self.patience, self.min_delta, self.mode = monitor, patience, min_delta, mode
        self.best, self.waited = -math.inf, 0

    def on_session_end(self, loop: Any, metrics: dict[str, float]) -> None:
        """Compare with the best so far."""
        known = self.monitor in MEASURED or self.monitor in metrics
        if not known:
            raise UserError(f"callbacks: EarlyStopping.monitor={self.monitor} is no column of metrics.csv")
        if not loop.position or loop.closing or self.monitor not in metrics:  # not measured in this session
            return
        higher = loop.fed.score.better(self.monitor) if self.mode == "auto" else self.mode == "max"
        value = metrics[self.monitor] if higher else -metrics[self.monitor]
        if value > self.best + self.min_delta:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        if self.waited >= self.patience:
            loop.stop = f"{self.monitor} has not improved for {self.patience} sessions"

    def state_dict(self) -> dict[str, Any]:
        """Best value and waiting time."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.best, self.waited = state["best"], state["waited"]
