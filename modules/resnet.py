"""ResNet-18 for small and large images."""

from collections.abc import Sequence

from torch import Tensor, nn
from torchvision.models import resnet18

from .classifier import Classifier, OptimizerName


class ResNet18(Classifier):
    """ResNet-18 (He et al., 2016), torchvision's, with a stem that keeps the resolution of small images.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Channels, height and width of an image.
        small_stem: Begin with a 3x3 convolution of stride 1 and no max pool (CIFAR) instead of 7x7, stride 2 and
            a max pool (ImageNet).
        optimizer: Optimiser of the local training.
        lr: Learning rate.
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW.
    """

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        small_stem: bool = True,
        optimizer: OptimizerName = "sgd",
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
    ) -> None:
        super().__init__(num_classes, input_shape, optimizer, lr, momentum, weight_decay)
        net = resnet18(num_classes=self.num_classes)
        if small_stem or self.input_shape[0] != 3:
            net.conv1 = _stem(self.input_shape[0], small_stem)
        if small_stem:
            net.maxpool = nn.Identity()
        self.head, net.fc = net.fc, nn.Identity()
        self.body = net

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled output of the last block, 512 values."""
        features: Tensor = self.body(x)
        return features


def _stem(channels: int, small: bool) -> nn.Conv2d:
    kernel, stride, padding = (3, 1, 1) if small else (7, 2, 3)
    conv = nn.Conv2d(channels, 64, kernel, stride, padding, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")  # as torchvision does
    return conv
