"""The process's memory: kept after use, because a training loop asks for the same sizes again; and its peak."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Tell glibc not to hand activations back to the kernel after every step (page faults cost a CNN a third)."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def peak_gb() -> float | None:
    """Return the most memory this process ever held, in GiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
