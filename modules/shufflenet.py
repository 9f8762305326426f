"""ShuffleNet v2 for small and large images."""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torchvision.models import (
    shufflenet_v2_x0_5,
    shufflenet_v2_x1_0,
    shufflenet_v2_x1_5,
    shufflenet_v2_x2_0,
)

from .classifier import Classifier, OptimizerName

_NETS = {"x0_5": shufflenet_v2_x0_5, "x1_0": shufflenet_v2_x1_0, "x1_5": shufflenet_v2_x1_5, "x2_0": shufflenet_v2_x2_0}


class ShuffleNetV2(Classifier):
    """ShuffleNet v2 (Ma et al., 2018), torchvision's: FIELDING's model for OpenImages.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Channels, height and width of an image.
        width: Multiplier of the channels.
        small_stem: Begin with stride 1 and no max pool, which keeps the resolution of small images, instead of
            stride 2 and a max pool (ImageNet).
        optimizer: Optimiser of the local training.
        lr: Learning rate (FIELDING: 0.05).
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW.
    """

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        width: Literal["x0_5", "x1_0", "x1_5", "x2_0"] = "x1_0",
        small_stem: bool = False,
        optimizer: OptimizerName = "sgd",
        lr: float = 0.05,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
    ) -> None:
        if width not in _NETS:
            raise ValueError(f"width: expected one of {', '.join(_NETS)}, got {width!r}")
        super().__init__(num_classes, input_shape, optimizer, lr, momentum, weight_decay)
        net = _NETS[width](num_classes=self.num_classes)
        if small_stem or self.input_shape[0] != 3:
            stride = 1 if small_stem else 2
            net.conv1[0] = nn.Conv2d(self.input_shape[0], net.conv1[0].out_channels, 3, stride, 1, bias=False)
        if small_stem:
            net.maxpool = nn.Identity()
        self.head, net.fc = net.fc, nn.Identity()
        self.body = net

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled output of the last convolution."""
        features: Tensor = self.body(x)
        return features
