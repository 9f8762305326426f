"""Shared by all tests: one thread (so that results can be compared bit for bit) and no stray environment."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["WANDB_MODE"] = "offline"

import federations
import plain as plain_versions
import pytest
import torch
from lightning.fabric import Fabric

torch.set_num_threads(1)
pytest.register_assert_rewrite("dfca_rounds", "upload_methods")


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    """Every test runs in an empty directory, so that nothing is written into the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def plain():
    """The plain versions."""
    return plain_versions


@pytest.fixture
def blobs():
    return federations.Blobs


@pytest.fixture
def points():
    return federations.view_of


@pytest.fixture
def mlp():
    return federations.make_mlp


@pytest.fixture
def fabric():
    return Fabric(accelerator="cpu", devices=1)


@pytest.fixture
def federation(tmp_path):
    return federations.federations(tmp_path)
