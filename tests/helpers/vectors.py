"""Short vectors in double precision, and a comparison to rounding."""

import torch


def vec(*values):
    return torch.tensor(values, dtype=torch.float64)


def check(actual, expected, tolerance=1e-12):
    """Compare in float64, element by element, to an absolute and relative tolerance."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)
