"""Rows in memory take pages as they are written, and a checkpoint holds those alone."""

import gc
import sys
from pathlib import Path

import pytest
import torch

from flcluster.federation.bank import Table
from flcluster.federation.pages import rows_of_zeros


def held_mb():
    """What this process holds that no file has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.parametrize(("count", "width"), [(3, 4), (0, 4), (3, 0), (700, 1111)])
def test_rows_are_zeros_that_can_be_written(count, width):
    rows = rows_of_zeros(count, width)
    assert rows.shape == (count, width) and rows.dtype == torch.float32 and not rows.any()
    rows += 1
    assert rows.sum() == count * width


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its pages")
def test_few_written_rows_take_little_memory():
    """Of 200 MB of rows one in thirty is written; with huge pages nearly all of it would be there."""
    gc.collect()
    before, table = held_mb(), Table(10_000, 4_810)
    for client in range(0, 10_000, 33):
        table[client] = torch.ones(4_810)
    assert held_mb() - before < 40
    assert table[33].sum() == 4_810 and table[34].sum() == 0
    kept = table.save()["rows"]
    assert kept["data"].shape == (304, 4_810) and kept["data"].untyped_storage().nbytes() == 304 * 4_810 * 4


def test_memory_lives_as_long_as_the_rows():
    rows = rows_of_zeros(1_000, 1_000)
    part = rows[999, 990:]
    del rows
    gc.collect()
    part += 2
    assert part.sum() == 20
