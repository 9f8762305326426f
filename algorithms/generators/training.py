"""A generator that learns on the server from clients' models: what AP-FL and FedGen share."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from flcluster.errors import UserError
from flcluster.federation.descent import descend, mean_of
from flcluster.federation.federation import Federation
from flcluster.federation.flat.fetching import fetched

M = TypeVar("M", bound=nn.Module)


Saved = dict[str, Any]
"""A pupil between two lessons: the weights of its module and the memory of its optimiser, as a state holds them."""


class Pupil(Generic[M]):
    """A module on the server, the Adam that trains it, and how both go into a method's state and come back."""

    def __init__(self, module: M, fed: Federation, lr: float, weight_decay: float = 0.0) -> None:
        self.module: M = module.to(fed.device)
        self.fed = fed
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=lr, weight_decay=weight_decay)

    @property
    def bytes(self) -> int:
        """Bytes of the module on the wire, with all that it needs to draw samples."""
        sent = [tensor for tensor in self.module.state_dict().values() if tensor.is_floating_point()]
        return sum(tensor.numel() * tensor.element_size() for tensor in sent)

    def load(self, saved: Saved, lr: float | None = None) -> "Pupil[M]":
        """Go on where ``save`` stopped, with another learning rate if one is given."""
        self.module.load_state_dict(saved["module"])
        self.optimizer.load_state_dict(deepcopy(saved["optimizer"]))
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] if lr is None else lr
        return self

    def save(self) -> Saved:
        """Return what ``load`` needs, the same on every rank."""
        saved = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}
        return self.fed.agree(_on_host(saved))

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def learn(
        self, steps: int, batch: int, classes: Tensor, draw: np.random.Generator, loss: Callable[[Tensor], Tensor]
    ) -> float:
        """Take steps, each on a batch of classes drawn evenly from ``classes``; return the mean loss.

        Args:
            steps: Steps of the optimiser.
            batch: Samples per step.
            classes: The classes to draw from: those that some teacher knows (or numbers of given samples of them).
            draw: Draws them.
            loss: Returns the loss of samples of the classes ``y`` (of the numbers) that it is given.
        """
        self.module.train()
        numbers = (torch.from_numpy(draw.integers(len(classes), size=batch)) for _ in range(steps))
        device = self.fed.device
        losses = descend((classes[some].to(device) for some in numbers), loss, self._step, device)
        mean = mean_of(fetched([losses])[0])
        if not np.isfinite(mean):
            raise UserError("the generator's loss is NaN or infinite: lower algorithm.generator_lr")
        return mean


def _on_host(value: Any) -> Any:
    """Return a copy of nested dictionaries and lists with all tensors on the host."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _on_host(part) for key, part in value.items()}
    return [_on_host(part) for part in value] if isinstance(value, list) else value
