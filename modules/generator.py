"""The generator of AP-FL: images of a class from noise and from what the class's name means."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .classifier import positive_ints


class SemanticGenerator(nn.Module):
    """Draws images x̂ = G(z, A(y)) from Gaussian noise z and the semantic vector A(y) of a class (AP-FL, Eq. 11).

    It sees a class only through its vector, so it can be asked for classes that nobody taught it, and it is a plain
    module because it classifies nothing: the classifiers that teach it bring the loss. The paper takes the network from
    elsewhere without a description; this is the small upsampling network that is common in data-free distillation.

    Images come as tanh leaves them, in [-1, 1]; ``normalised`` turns them into what the classifiers read.

    Args:
        semantics: One vector per class, ``[classes, D]``, of length 1 each.
        image_shape: Channels, height and width of an image.
        noise_dim: Dimensions of z (the paper compares 20, 100, 400 and 512: accuracy falls with more).
        project_dim: Dimensions that the semantic vector is projected to before it meets the noise.
        hidden: Channels of the first convolution; the second has half of them.
        mean: What the data subtracts from pixels in [0, 1], per channel; 0.5 for all if not given.
        std: What it divides by then; 0.5 for all if not given, so that images stay in [-1, 1].
    """

    semantics: Tensor
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        semantics: Tensor,
        image_shape: Sequence[int],
        noise_dim: int = 20,
        project_dim: int = 100,
        hidden: int = 128,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        (self.noise_dim,) = positive_ints("noise_dim", (noise_dim,))
        positive_ints("project_dim", (project_dim,))
        channels, height, width = self.image_shape = _checked(semantics, image_shape, hidden)
        self.register_buffer("semantics", semantics.detach().float().clone())
        self.register_buffer("mean", _per_channel("mean", mean, channels))
        self.register_buffer("std", _per_channel("std", std, channels))
        quarter, half = (-(-height // 4), -(-width // 4)), (-(-height // 2), -(-width // 2))
        self.project = nn.Linear(semantics.shape[1], project_dim)
        nn.init.normal_(self.project.weight)  # vectors of length 1 become values of the size of the noise
        nn.init.zeros_(self.project.bias)
        self.body = nn.Sequential(
            nn.Linear(self.noise_dim + project_dim, hidden * quarter[0] * quarter[1]),
            nn.Unflatten(1, (hidden, *quarter)),
            nn.BatchNorm2d(hidden),
            *_up(hidden, hidden, half),
            *_up(hidden, hidden // 2, (height, width)),
            nn.Conv2d(hidden // 2, channels, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Return images in [-1, 1], ``[batch, *image_shape]``, from noise ``[batch, noise_dim]`` and classes."""
        images: Tensor = self.body(torch.cat([z, self.project(self.semantics[y])], dim=1))
        return images

    def noise(self, count: int, draw: np.random.Generator) -> Tensor:
        """Draw standard Gaussian noise, ``[count, noise_dim]``; the same on every device."""
        z = torch.from_numpy(draw.standard_normal((count, self.noise_dim), dtype=np.float32))
        return z.to(self.semantics.device)

    @torch.no_grad()
    def sample(self, y: Tensor, draw: np.random.Generator) -> Tensor:
        """Return one new image per class of ``y``, normalised, without gradients.

        BatchNorm uses its running values here, so that an image does not depend on those drawn beside it.
        """
        training = self.training
        self.eval()
        try:
            return self.normalised(self(self.noise(len(y), draw), y.to(self.semantics.device)))
        finally:
            self.train(training)

    def normalised(self, images: Tensor) -> Tensor:
        """Turn images in [-1, 1] into what the classifiers read: pixels in [0, 1], less the mean, over the std."""
        return ((images + 1) / 2 - self.mean) / self.std


def _up(fan_in: int, fan_out: int, size: tuple[int, int]) -> list[nn.Module]:
    """Repeat pixels up to a size (twice as many each way if it is even), then convolve."""
    convolution = nn.Conv2d(fan_in, fan_out, 3, padding=1)
    return [nn.Upsample(size=size, mode="nearest"), convolution, nn.BatchNorm2d(fan_out), nn.LeakyReLU(0.2)]


def _checked(semantics: Tensor, image_shape: Sequence[int], hidden: int) -> tuple[int, int, int]:
    if semantics.ndim != 2 or 0 in semantics.shape:
        raise ValueError(f"semantics: expected one vector per class, [classes, D], got {tuple(semantics.shape)}")
    if hidden < 2:
        raise ValueError(f"hidden: expected at least 2, got {hidden}")
    shape = positive_ints("image_shape", image_shape)
    if len(shape) != 3:
        raise ValueError(f"image_shape: expected (channels, height, width), got {shape}")
    return shape


def _per_channel(name: str, values: Sequence[float] | None, channels: int) -> Tensor:
    held = torch.tensor([0.5] * channels if values is None else list(values), dtype=torch.float32)
    if len(held) != channels or (name == "std" and not (held > 0).all()):
        raise ValueError(f"{name}: expected {channels} numbers, one per channel (std above 0), got {values}")
    return held[:, None, None]


class LatentGenerator(nn.Module):
    """Draws features z = G(ε, y) from uniform noise ε and a one-hot class (FedGen; Zhu et al., 2021).

    One hidden layer with BatchNorm and ReLU, then a linear layer; heads of classifiers teach it, so that it makes no
    images. The authors' code draws ε from U[0, 1), though its comment says Gaussian.

    Args:
        num_classes: Number of classes.
        latent_dim: Features that the heads read, ``head.in_features``.
        noise_dim: Dimensions of ε (the authors' 32 for MNIST and EMNIST, 64 for CIFAR).
        hidden: Width of the hidden layer (256 and 512).
    """

    def __init__(self, num_classes: int, latent_dim: int, noise_dim: int = 32, hidden: int = 256) -> None:
        super().__init__()
        (self.num_classes,) = positive_ints("num_classes", (num_classes,))
        (self.noise_dim,) = positive_ints("noise_dim", (noise_dim,))
        positive_ints("latent_dim", (latent_dim,))
        positive_ints("hidden", (hidden,))
        self.body = nn.Sequential(
            nn.Linear(noise_dim + num_classes, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, latent_dim),
        )

    def forward(self, noise: Tensor, y: Tensor) -> Tensor:
        """Return features, ``[batch, latent_dim]``, from noise ``[batch, noise_dim]`` and classes ``[batch]``."""
        features: Tensor = self.body(torch.cat([noise, F.one_hot(y, self.num_classes).to(noise.dtype)], dim=1))
        return features

    def noise(self, count: int) -> Tensor:
        """Draw uniform noise, ``[count, noise_dim]``, from torch's global generator."""
        return torch.rand(count, self.noise_dim, device=next(self.parameters()).device)
