"""Datamodules that wrap another and let it see batches on their way to the model."""

from typing import Any

import torch
from lightning import LightningDataModule


class Forwarding(LightningDataModule):
    """Hands the hooks on batches on to the datamodule that is wrapped."""

    datamodule: Any

    @property
    def hooked(self) -> Any:
        """The innermost datamodule, whose hooks count."""
        return getattr(self.datamodule, "hooked", self.datamodule)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Let the datamodule do it."""
        return self._told().on_before_batch_transfer(batch, dataloader_idx)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Let the datamodule do it."""
        return self._told().transfer_batch_to_device(batch, device, dataloader_idx)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Let the datamodule do it."""
        return self._told().on_after_batch_transfer(batch, dataloader_idx)

    def _told(self) -> Any:
        self.hooked.trainer = self.trainer
        return self.hooked
