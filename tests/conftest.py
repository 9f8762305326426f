"""Shared by all tests: one thread (so that results can be compared bit for bit) and no stray environment."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["WANDB_MODE"] = "offline"

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    """Every test runs in an empty directory, so that nothing is written into the checkout."""
    monkeypatch.chdir(tmp_path)
