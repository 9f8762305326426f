"""The small convolutional networks of the federated learning papers."""

from collections.abc import Sequence

from torch import Tensor, nn

from .classifier import Classifier, OptimizerName, positive_ints


class CNN(Classifier):
    """Blocks of convolution, ReLU and 2x2 max pool, then one dense layer: the papers' CNNs by their arguments.

    CCFL: the defaults (it does not state the padding; FedSoft's code has 2). AP-FL: Adam with lr 2e-4 on 32x32 images,
    where the dense layer reads 1600 values. DFCA: ``batch_norm=True`` and SGD; the norm comes after the pool, as that
    paper writes it.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Channels, height and width of an image.
        channels: Output channels of each block.
        kernel_size: Side of the square kernels.
        padding: Zero padding of the convolutions; ``kernel_size // 2`` keeps the image size for an odd kernel.
        hidden: Width of the dense layer before the head.
        batch_norm: End each block with a BatchNorm2d.
        optimizer: Optimiser of the local training.
        lr: Learning rate (CCFL: 0.01).
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW (CCFL: 0.005).
    """

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        channels: Sequence[int] = (32, 64),
        kernel_size: int = 5,
        padding: int = 0,
        hidden: int = 512,
        batch_norm: bool = False,
        optimizer: OptimizerName = "adam",
        lr: float = 0.01,
        momentum: float = 0.0,
        weight_decay: float = 0.005,
    ) -> None:
        channels = positive_ints("channels", channels)
        positive_ints("kernel_size", (kernel_size,))
        positive_ints("hidden", (hidden,))
        if padding < 0:
            raise ValueError(f"padding: expected at least 0, got {padding}")
        super().__init__(num_classes, input_shape, optimizer, lr, momentum, weight_decay)
        height, width = (_side(n, len(channels), kernel_size, padding, self.input_shape) for n in self.input_shape[1:])
        layers: list[nn.Module] = []
        fan_in = self.input_shape[0]
        for fan_out in channels:
            layers += _block(fan_in, fan_out, kernel_size, padding, batch_norm)
            fan_in = fan_out
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(fan_in * height * width, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, self.num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the dense layer before the head."""
        features: Tensor = self.body(x)
        return features


def _block(fan_in: int, fan_out: int, kernel_size: int, padding: int, batch_norm: bool) -> list[nn.Module]:
    layers = [nn.Conv2d(fan_in, fan_out, kernel_size, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
    return [*layers, nn.BatchNorm2d(fan_out)] if batch_norm else layers


def _side(side: int, blocks: int, kernel_size: int, padding: int, input_shape: tuple[int, ...]) -> int:
    """Return what ``blocks`` convolutions and pools leave of one side of an image."""
    for block in range(1, blocks + 1):
        side = (side + 2 * padding - kernel_size + 1) // 2
        if side < 1:
            raise ValueError(
                f"input_shape: images of {input_shape} are too small, nothing is left after block {block} of {blocks} "
                f"with kernel_size={kernel_size} and padding={padding}; use a smaller kernel or more padding"
            )
    return side
