"""Runs step by step, and softmax regression by hand in float64: what replays of whole runs are made of."""

import numpy as np
import torch
from torch.nn import functional as F

from flcluster.engine.run import make_loop


def begun(algorithm, fed):
    """A run of a method that has made its first state."""
    loop = make_loop(algorithm, fed, None, None)
    loop.begin()
    return loop


def logits(row, x):
    """Softmax regression's logits; its row is weights ``[classes, pixels]``, then biases."""
    x = x.flatten(1)
    classes = len(row) // (1 + x.shape[1])
    return x @ row[:-classes].view(classes, -1).T + row[-classes:]


def gradient(row, x, y):
    """The gradient of the mean loss of softmax regression, by autograd."""
    at = row.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(logits(at, x.double()), y), at)[0]


def descended(row, samples, epochs, lr):
    """Gradient descent of softmax regression on all samples at once."""
    row = row.double()
    for _ in range(epochs):
        row = row - lr * gradient(row, *samples)
    return row


def scores(row, view):
    """Losses and hits of softmax regression, sample by sample, in NumPy."""
    x, y = view.tensors()
    out, y = logits(torch.as_tensor(row).double(), x.double()).numpy(), y.numpy()
    top = out.max(1, keepdims=True)
    return np.log(np.exp(out - top).sum(1)) + top[:, 0] - out[np.arange(len(y)), y], out.argmax(1) == y


def mean_loss(row, view):
    return float(scores(row, view)[0].mean())


def right(row, view):
    """The share of right predictions."""
    return float(scores(row, view)[1].mean())
