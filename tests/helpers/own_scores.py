"""Modules of a user's own that are scored by something else than accuracy, as the text of a file."""

MODULE = '''
import math
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F


class Guesses(LightningModule):
    """Guesses a digit as a number."""

    def __init__(self, num_classes: int, input_shape: tuple[int, ...]):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), 1))

    def forward(self, x):
        return self.net(x)[:, 0]

    def training_step(self, batch, batch_idx):
        return F.mse_loss(self(batch[0]), batch[1].float())

    def validation_step(self, batch, batch_idx):
        guess, y = self(batch[0]), batch[1]
        self.log("val_loss", F.mse_loss(guess, y.float()))
        self.log("val_rmse", F.mse_loss(guess, y.float()).sqrt())
        self.log("val_acc", (guess.round() == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.001)


class NoLoss(Guesses):
    def validation_step(self, batch, batch_idx):
        self.log("val_acc", (self(batch[0]).round() == batch[1]).float().mean())
'''
