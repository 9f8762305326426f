"""Vision transformers for small and large images."""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torchvision.models import VisionTransformer

from .classifier import Classifier, OptimizerName, positive_ints

_VARIANTS = {
    "b_16": {"patch_size": 16, "dim": 768, "depth": 12, "heads": 12, "mlp_dim": 3072},
    "b_32": {"patch_size": 32, "dim": 768, "depth": 12, "heads": 12, "mlp_dim": 3072},
    "small": {"patch_size": 4, "dim": 192, "depth": 6, "heads": 3, "mlp_dim": 384},
}


class ViT(Classifier):
    """Vision transformer (Dosovitskiy et al., 2021), torchvision's: B/16 (FIELDING on Waymo) or one for small images.

    As in torchvision the head begins at zero, so that the first step moves the head alone.

    Args:
        num_classes: Number of classes, at least 2.
        input_shape: Channels, height and width of an image; square, its side a multiple of the patch.
        variant: Where the five sizes below come from: ``b_16`` and ``b_32`` for 224x224 images, ``small`` (patch 4,
            dim 192, depth 6, 3 heads, mlp 384) for images like CIFAR's.
        patch_size: Side of a patch, instead of the variant's.
        dim: Width of a token, instead of the variant's.
        depth: Number of encoder blocks, instead of the variant's.
        heads: Attention heads of a block, instead of the variant's.
        mlp_dim: Width of a block's dense layer, instead of the variant's.
        dropout: Dropout of embeddings, attention output and dense layers.
        optimizer: Optimiser of the local training.
        lr: Learning rate (FIELDING: 0.001).
        momentum: Momentum of SGD; Adam and AdamW do not use it.
        weight_decay: L2 penalty of SGD and Adam, decoupled weight decay of AdamW.
    """

    def __init__(
        self,
        num_classes: int,
        input_shape: Sequence[int],
        variant: Literal["b_16", "b_32", "small"] = "small",
        patch_size: int | None = None,
        dim: int | None = None,
        depth: int | None = None,
        heads: int | None = None,
        mlp_dim: int | None = None,
        dropout: float = 0.0,
        optimizer: OptimizerName = "adamw",
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.05,
    ) -> None:
        if variant not in _VARIANTS:
            raise ValueError(f"variant: expected one of {', '.join(_VARIANTS)}, got {variant!r}")
        super().__init__(num_classes, input_shape, optimizer, lr, momentum, weight_decay)
        given = {"patch_size": patch_size, "dim": dim, "depth": depth, "heads": heads, "mlp_dim": mlp_dim}
        sizes = _VARIANTS[variant] | {name: size for name, size in given.items() if size is not None}
        net = _transformer(self.num_classes, self.input_shape, dropout, sizes)
        self.head, net.heads = net.heads.head, nn.Sequential()
        self.body = net

    def features(self, x: Tensor) -> Tensor:
        """Return the class token after the last block."""
        features: Tensor = self.body(x)
        return features


def _transformer(num_classes: int, shape: tuple[int, ...], dropout: float, sizes: dict[str, int]) -> VisionTransformer:
    """Check the sizes, which torchvision does not (or only by an assertion), and build the network."""
    channels, height, width = shape
    patch, dim, heads = sizes["patch_size"], sizes["dim"], sizes["heads"]
    for name, size in sizes.items():
        positive_ints(name, (size,))
    if height != width or height % patch:
        raise ValueError(f"input_shape: expected square images that divide into patches of {patch}, got {shape}")
    if dim % heads:
        raise ValueError(f"dim: {dim} does not divide among {heads} heads")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: expected a number in [0, 1), got {dropout}")
    net = VisionTransformer(
        height, patch, sizes["depth"], heads, dim, sizes["mlp_dim"], dropout=dropout, num_classes=num_classes
    )
    if channels != 3:
        net.conv_proj = _patches(channels, patch, dim)
    return net


def _patches(channels: int, patch: int, dim: int) -> nn.Conv2d:
    conv = nn.Conv2d(channels, dim, patch, stride=patch)
    nn.init.trunc_normal_(conv.weight, std=(channels * patch**2) ** -0.5)  # as torchvision does
    nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
    return conv
