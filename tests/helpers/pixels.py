"""From model-ready inputs back to what was stored."""

import numpy as np


def stored_pixels(view, data):
    """Undo the normalisation of a view: its pixels as bytes, and its labels."""
    x, y = view.tensors()
    mean, std = (np.reshape(values, (-1, 1, 1)) for values in (data.mean, data.std))
    return np.rint((x.numpy() * std + mean) * 255).astype(int), y.numpy()
