"""Vectors that are written down, compared to rounding; steps of an aggregator on such rows, a weighted mean by hand."""

import torch

COMMON = {"local_epochs": 1, "batch_size": 8}


def vec(*values):
    return torch.tensor(values, dtype=torch.float64)


def check(actual, expected, tolerance=1e-12):
    """Compare in float64, element by element, to an absolute and relative tolerance."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


def rows(*values):
    return torch.tensor(values, dtype=torch.float32)


def close(actual, expected, tolerance=1e-5):
    check(actual, expected, tolerance)


def combine(server, trained, labels, old, memory=None, parameters=None, lr=0.1):
    memory = server.start(old) if memory is None else memory
    return server.combine(iter(trained), labels, old, memory, parameters or old.shape[1], lr)


def weighted_mean(rows, weights):
    weights = torch.tensor(weights, dtype=torch.float64)
    return ((weights / weights.sum())[:, None] * torch.stack(rows).double()).sum(0).float()


def two_kinds(script, each=5, samples=12):
    """Clients with labels 0 and 1, and clients with labels 2 and 3, of different sizes."""
    held = {m: [0] * (samples + m) + [1] * samples for m in range(each)}
    held |= {m: [2] * samples + [3] * (samples + m) for m in range(each, 2 * each)}
    return script({0: held})
