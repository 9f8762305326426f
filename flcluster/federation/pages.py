"""Memory for many rows of which few may ever be written: a row takes its pages with its first write."""

import mmap
import sys

import numpy as np
import torch
from torch import Tensor


def rows_of_zeros(count: int, width: int) -> Tensor:
    """Return zeros ``[count, width]``, float32, that take memory where they are written, in pages as small as they are.

    NumPy asks Linux for huge pages, and a row that is written then takes 2 MB. On other systems it is NumPy's zeros.

    >>> rows_of_zeros(2, 3).sum().item()
    0.0
    """
    size = 4 * count * width
    if not size or sys.platform != "linux" or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return torch.from_numpy(np.zeros((count, width), dtype=np.float32))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32).view(count, width)
