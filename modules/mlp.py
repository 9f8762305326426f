"""Dense networks on flattened images."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from .classifier import Classifier, OptimizerName, positive_ints


class MLP(Classifier):
    """Flatten, then dense layers with ReLU: the quickstart's small model, and DFCA's with ``hidden=[2048]``.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Shape of an input: channels, height and width of an image, or the number of columns of a table.
        hidden: Width of each hidden layer; an empty list is softmax regression.
        optimizer: Optimiser of the local training.
        lr: Learning rate (DFCA: 0.1).
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW.
    """

    images = False
    is_chain = True
    """All that this class does to inputs is to let them through ``layers``, with ReLU in between."""

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        hidden: Sequence[int] = (200,),
        optimizer: OptimizerName = "sgd",
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        hidden = positive_ints("hidden", hidden)
        super().__init__(num_classes, input_shape, optimizer, lr, momentum, weight_decay)
        widths = (prod(self.input_shape), *hidden)
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], self.num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the last hidden layer."""
        features: Tensor = self.body(x)
        return features

    @property
    def layers(self) -> list[nn.Linear]:
        """The dense layers, from the first to the head."""
        return [*(part for part in self.body if isinstance(part, nn.Linear)), self.head]
