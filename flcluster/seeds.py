"""Every random draw of a run comes from here: a seed, a purpose and ids, never global state."""

import contextlib
import random
import zlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch


@lru_cache(maxsize=16)
def sequence(seed: int, purpose: str, *ids: int) -> np.random.SeedSequence:
    """Return the seed sequence of one purpose, e.g. ``sequence(seed, "train", client, cycle)``.

    The last ones are kept (what trains draws orders and seeds dropout from the same one): nobody may spawn of them.
    """
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *ids])


def rng(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """Return a NumPy generator for one purpose."""
    return np.random.Generator(np.random.Philox(sequence(seed, purpose, *ids)))


@contextlib.contextmanager
def torch_seed(seed: int, purpose: str, *ids: int) -> Iterator[None]:
    """Seed torch's global generators inside the block (initialisation, dropout), and restore them after."""
    generators = [torch.default_generator]
    if torch.cuda.is_initialized():
        generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
    before = [generator.get_state() for generator in generators]
    number = int(sequence(seed, purpose, *ids).generate_state(1)[0])
    try:
        for generator in generators:
            generator.manual_seed(number)
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)


@contextlib.contextmanager
def every_seed(seed: int, purpose: str, *ids: int) -> Iterator[None]:
    """Seed torch's, NumPy's and Python's global generators inside the block, and restore them after."""
    python, numpy = random.getstate(), np.random.get_state()
    number = int(sequence(seed, purpose, *ids).generate_state(1)[0])
    try:
        random.seed(number)
        np.random.seed(number)
        with torch_seed(seed, purpose, *ids):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
