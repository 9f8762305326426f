"""Plain PyTorch versions of what the engine does, to compare it with.

They know nothing of rows: a model is a module or a state dict, a loss term goes through autograd.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from flcluster.seeds import rng, torch_seed


def first_model(seed, build, i=0):
    """Initialisation i of a run."""
    with torch_seed(seed, "init", i):
        return build()


def train(module, optimizer, view, *, seed, client, cycle=0, epochs=1, batch=16, purpose="train", pulls=()):
    """Train a copy of a module as any PyTorch user would; ``pulls`` are (weight, module): + weight/2 · ‖v − w‖²."""
    module = copy.deepcopy(module)
    x, y = view.tensors()
    steps = optimizer(module)
    order = rng(seed, purpose, client, cycle)
    normed = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in module.modules())
    anchors = [(weight, [p.detach().clone() for p in other.parameters()]) for weight, other in pulls]
    losses = []
    module.train()
    with torch_seed(seed, purpose, client, cycle):
        for _ in range(epochs):
            for index in torch.from_numpy(order.permutation(len(y))).split(batch):
                if normed and len(index) == 1:
                    continue
                loss = F.cross_entropy(module(x[index]), y[index])
                losses.append(loss.item())
                for weight, anchor in anchors:
                    loss = loss + weight / 2 * sum(
                        ((p - a) ** 2).sum() for p, a in zip(module.parameters(), anchor, strict=True)
                    )
                steps.zero_grad()
                loss.backward()
                steps.step()
    return module.eval(), losses


@torch.no_grad()
def per_sample(module, view):
    """Losses and hits of all samples in one batch."""
    module.eval()
    x, y = view.tensors()
    logits = module(x)
    return F.cross_entropy(logits, y, reduction="none"), (logits.argmax(1) == y).float()


def mean_loss(module, view):
    return float(per_sample(module, view)[0].double().mean())


def accuracy(module, view):
    return float(per_sample(module, view)[1].double().mean())


def mixed(weights, modules):
    """Σ_k weight_k · module_k, parameter by parameter; running statistics are mixed too, batch counters are not."""
    out = copy.deepcopy(modules[0])
    states = [m.state_dict() for m in modules]
    with torch.no_grad():
        for name, value in out.state_dict().items():
            if value.is_floating_point():
                value.copy_(sum(float(w) * state[name].double() for w, state in zip(weights, states, strict=True)))
    return out


def vector(module):
    """All parameters, then all running statistics."""
    statistics = [buffer.flatten() for buffer in module.buffers() if buffer.is_floating_point()]
    return torch.cat([parameters_to_vector(module.parameters()).detach(), *statistics])
