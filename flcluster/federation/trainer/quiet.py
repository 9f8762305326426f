"""A Trainer inside a run: it says nothing at each start, knows of no other processes, has seeds of its own."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch


@contextlib.contextmanager
def quiet(all_of_it: bool = True) -> Iterator[None]:
    """Silence what a Trainer says at each start.

    Warnings of the module's own, which every local training would repeat, are heard once, in the first short training.
    """
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            if all_of_it:
                warnings.simplefilter("ignore")
            else:
                warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning)\.")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def alone() -> AbstractContextManager[Any]:
    """Hide the other processes: torchmetrics and modules that gather would wait for ranks that train other clients."""
    return patch("torch.distributed.is_initialized", return_value=False)
