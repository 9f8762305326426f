"""Runs step by step, and softmax regression by hand in float64: what replays of whole runs are made of."""

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


def descended(row, samples, epochs, lr):
    """Gradient descent of softmax regression on all samples at once."""
    x, y = samples[0].double(), samples[1]
    row = row.double()
    for _ in range(epochs):
        at = row.clone().requires_grad_()
        row = row - lr * torch.autograd.grad(F.cross_entropy(logits(at, x), y), at)[0]
    return row


def right(row, view):
    """The share of right predictions."""
    x, y = view.tensors()
    return float((logits(row.double(), x.double()).argmax(1) == y).double().mean())
