"""The generator of FedGen: features of a class, as a classifier's head reads them, from noise and the label."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .classifier import positive_ints


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
        return self.body(torch.cat([noise, F.one_hot(y, self.num_classes).to(noise.dtype)], dim=1))

    def noise(self, count: int) -> Tensor:
        """Draw uniform noise, ``[count, noise_dim]``, from torch's global generator."""
        return torch.rand(count, self.noise_dim, device=next(self.parameters()).device)
