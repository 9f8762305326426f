"""The process of a script is its author's: what a run changes of it is put back."""

import os
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from flcluster.engine.process import SIGNALS, give_freed_memory_back


@contextmanager
def untouched() -> Iterator[None]:
    """Put back what is global in this process, however the block ends.

    Random generators of Python, NumPy and PyTorch, PyTorch's threads, default device and type, signal handlers,
    warnings filters, environment, working directory and the allocator's limits.
    """
    state, threads, dtype = random.getstate(), torch.get_num_threads(), torch.get_default_dtype()
    drawn = np.random.get_state()
    environment, here = dict(os.environ), os.getcwd()
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if main else {}
    plain = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with warnings.catch_warnings(), torch.random.fork_rng(devices), plain:
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(drawn)
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)
            os.chdir(here)
            give_freed_memory_back()
