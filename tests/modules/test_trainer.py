"""The models under a plain Lightning Trainer."""

import pytest
import torch
from lightning import Trainer
from torch.utils.data import DataLoader, TensorDataset

from flcluster.modules import CNN, MLP

QUIET = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


@pytest.fixture
def loader() -> DataLoader:
    """Three classes, each lit in its own row of a 4x4 image."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(96) % 3
    x = 0.1 * torch.randn(96, 1, 4, 4, generator=generator)
    x[torch.arange(96), 0, y] += 1.0
    return DataLoader(TensorDataset(x, y), batch_size=16)


@pytest.mark.filterwarnings("ignore")
def test_fit_validate_test_and_restore(loader, tmp_path):
    torch.manual_seed(0)
    model = MLP(3, (1, 4, 4), hidden=[16], lr=0.5)
    trainer = Trainer(max_epochs=2, default_root_dir=tmp_path, **QUIET)
    (before,) = trainer.validate(model, loader, verbose=False)
    trainer.fit(model, loader, loader)
    assert {"train_loss", "train_acc", "val_loss", "val_acc"} <= set(trainer.callback_metrics)
    (after,) = trainer.validate(model, loader, verbose=False)
    (test,) = trainer.test(model, loader, verbose=False)
    assert after["val_loss"] < 0.5 * before["val_loss"]
    assert test["test_acc"] == after["val_acc"] == 1.0

    x, y = loader.dataset.tensors
    model.eval()
    assert test["test_loss"] == pytest.approx(model.loss(model(x), y).item(), rel=1e-4)
    trainer.save_checkpoint(tmp_path / "mlp.ckpt")
    loaded = MLP.load_from_checkpoint(tmp_path / "mlp.ckpt", weights_only=True).eval()
    assert torch.equal(loaded(x), model(x))


@pytest.mark.filterwarnings("ignore")
def test_accuracy_is_micro_over_unequal_batches(tmp_path):
    """A mean of batch means would give (1 + 0) / 2."""
    model = MLP(3, (1, 1, 3), hidden=[])
    with torch.no_grad():
        model.head.weight.copy_(torch.eye(3))
        model.head.bias.zero_()
    x = torch.eye(3)[torch.tensor([0, 1, 2, 0])].view(4, 1, 1, 3)
    y = torch.tensor([0, 1, 2, 1])
    (result,) = Trainer(**QUIET, default_root_dir=tmp_path).test(
        model, DataLoader(TensorDataset(x, y), batch_size=3), verbose=False
    )
    assert result["test_acc"] == 0.75


@pytest.mark.filterwarnings("ignore")
def test_cnn_checkpoint_of_a_trainer(tmp_path):
    model = CNN(3, (1, 8, 8), channels=[4, 8], kernel_size=3, padding=1, hidden=8, batch_norm=True)
    data = DataLoader(TensorDataset(torch.randn(8, 1, 8, 8), torch.arange(8) % 3), batch_size=4)
    trainer = Trainer(max_steps=2, default_root_dir=tmp_path, **QUIET)
    trainer.fit(model, data)
    trainer.save_checkpoint(tmp_path / "cnn.ckpt")
    loaded = CNN.load_from_checkpoint(tmp_path / "cnn.ckpt").eval()
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(loaded(x), model.eval()(x))
