"""A user's data whose samples are not divided by a partition, but by shifts or along time."""

from functools import cached_property
from typing import Any

import numpy as np
from lightning import LightningDataModule

from flcluster.data import FederatedDataModule
from flcluster.datamodules.sources.counts import Ints
from flcluster.errors import UserError

from .brought import Brought
from .forwarding import Forwarding
from .module import OwnDataModule
from .wrapped import SplitDataModule, made


class OverOwn(Forwarding, FederatedDataModule):
    """What shifted and drifting data share: they open a datamodule of the user's, and divide it in their own way."""

    def _take_up(self, datamodule: LightningDataModule | dict[str, Any], kwargs: dict[str, Any]) -> None:
        """Keep the datamodule; any that is not one of ours is read through its DataLoaders."""
        given = made(datamodule) if isinstance(datamodule, dict) else datamodule
        self.datamodule: Any = given if isinstance(given, OwnDataModule) else SplitDataModule(given)
        self.name = self.datamodule.name
        if self.datamodule.partition is not None:
            raise UserError(
                f"data.datamodule has a partition of its own, but {type(self).__name__} says which client gets what: "
                "leave it out"
            )
        self.datamodule.seeks_labels = True
        self.train_transform = getattr(self.datamodule, "train_transform", None)
        self._loads = {name: kwargs[name] for name in ("batch_size",) if name in kwargs}

    def prepare_data(self) -> None:
        """Let the datamodule prepare its data."""
        self.datamodule.prepare_data()

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where samples have none."""
        return self._brought.num_classes

    @num_classes.setter
    def num_classes(self, told: int) -> None:
        """Nobody tells: the data know."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of an input; empty where samples are not led by a tensor."""
        return self._brought.input_shape

    @input_shape.setter
    def input_shape(self, told: tuple[int, ...]) -> None:
        """Nobody tells: the data know."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        return self._brought.class_names or super().class_names

    @cached_property
    def _brought(self) -> Brought:
        inner = self.datamodule
        inner.seed = self.seed
        found: Brought = inner.bring()
        if found.ids is not None:
            raise UserError(
                f"data.datamodule names the owner of each sample, but {type(self).__name__} says which client gets "
                "what: leave its clients out"
            )
        self.batch_size = self._loads.get("batch_size", inner.batch_size)
        self.num_workers = inner.num_workers
        return found

    def _learn(self, train: Ints) -> None:
        """Let the datamodule learn scales from the samples that train."""
        self.datamodule.learn(np.sort(train))
