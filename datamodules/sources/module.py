"""What datamodules made of one image dataset share, whatever clients hold of it."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from flcluster.data import FederatedDataModule

from .class_names import class_names
from .images import Images, scaled_name, scaling
from .known import Known
from .loading import check_image_arguments


class ImageDataModule(FederatedDataModule):
    """A datamodule of one image dataset, which its class attribute ``known`` is the record of."""

    root: Path
    download: bool

    @property
    @abstractmethod
    def known(self) -> Known:
        """The dataset. A ready-made class names it: ``known = CIFAR10``."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        told = self.known.class_names
        return told if len(told) == self.num_classes else super().class_names

    def prepare_data(self) -> None:
        """Download what is missing if asked to, and let a dataset that is decoded once be decoded."""
        if self.download or self.known.caches:
            self.known.read(self.root, self.dataset_kwargs, self.download)

    def images(self) -> tuple[Images, Images]:
        """Read the training and the test split, at the size asked for."""
        train, test = self.known.read(self.root, self.dataset_kwargs)
        return train.resized(self.image_size), test.resized(self.image_size)

    def _take_up(self, dataset_kwargs: dict[str, Any] | None, image_size: int | None, normalise: bool = True) -> None:
        """Set what the record and the arguments say about the images."""
        known = self.known
        check_image_arguments(known.shape, known.mean, known.std, image_size)
        self.dataset_kwargs, self.image_size = dict(dataset_kwargs or {}), image_size
        self.input_shape = known.shape if image_size is None else (known.shape[0], image_size, image_size)
        own = known.name if type(self).name == FederatedDataModule.name else type(self).name
        self.name, self.normalise = scaled_name(own, normalise), normalise
        self.mean, self.std = scaling(known.mean, known.std, normalise)


class ByClassPath(ImageDataModule):
    """Any torchvision-style dataset, which the arguments are the record of.

    Args:
        dataset: A torchvision-style dataset class: its class path, or its name in ``torchvision.datasets``.
        num_classes: Number of classes.
        input_shape: Channels, height and width of the stored images.
        mean: Per-channel mean of the pixels scaled to [0, 1].
        std: Per-channel standard deviation of the pixels scaled to [0, 1].
    """

    def __init__(
        self,
        dataset: str,
        num_classes: int,
        input_shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        **kwargs: Any,
    ) -> None:
        self._known = Known(
            name=dataset.rpartition(".")[2],
            num_classes=num_classes,
            shape=tuple(input_shape),  # type: ignore[arg-type]
            mean=tuple(mean),
            std=tuple(std),
            dataset=dataset,
        )
        super().__init__(**kwargs)

    @property
    def known(self) -> Known:
        """The dataset that the arguments describe."""
        return self._known

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, where the dataset is one that we know."""
        return class_names(self.known.dataset, self.num_classes, self.dataset_kwargs.get("split"))
