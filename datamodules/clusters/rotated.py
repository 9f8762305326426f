"""Clusters that are rotations of one image dataset."""

from pathlib import Path
from typing import Any, Literal

from flcluster.data import FederatedDataModule, Source
from flcluster.datamodules.sources.class_names import class_names
from flcluster.datamodules.sources.images import Images, ImageSource, scaled_name, scaling
from flcluster.datamodules.sources.loading import check_image_arguments, check_labels, load, open_dataset
from flcluster.errors import UserError

from .module import ClusteredDataModule


class RotatedDataModule(ClusteredDataModule):
    """K clusters by rotation: cluster ``i`` sees every image turned counter-clockwise by ``i * 360 / K`` degrees.

    All clusters share one copy of the images; a batch is rotated when it is taken.

    Args:
        dataset: A torchvision-style dataset class: its class path, or its name in ``torchvision.datasets``.
        num_classes: Number of classes.
        input_shape: Channels, height and width of the stored images.
        mean: Per-channel mean of the pixels scaled to [0, 1].
        std: Per-channel standard deviation of the pixels scaled to [0, 1].
        dataset_kwargs: Further arguments of the dataset class.
        image_size: Resize the images to this height and width before rotating.
        normalise: Take the mean off the pixels and divide by std; false leaves them in [0, 1], as IFCA's code does. The
            dataset's name then says so.
    """

    def __init__(
        self,
        dataset: str,
        num_classes: int,
        input_shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        dataset_kwargs: dict[str, Any] | None = None,
        image_size: int | None = None,
        normalise: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, input_shape=input_shape, **kwargs)
        self.dataset, self.dataset_kwargs = dataset, dict(dataset_kwargs or {})
        if type(self).name == FederatedDataModule.name:
            self.name = dataset.rpartition(".")[2]
        self.name = scaled_name(self.name, normalise)
        self.image_size, self.stored_shape = image_size, self.input_shape
        check_image_arguments(self.input_shape, tuple(mean), tuple(std), image_size)
        self.normalise = normalise
        self.mean, self.std = scaling(mean, std, normalise)
        if image_size is not None:
            self.input_shape = (self.input_shape[0], image_size, image_size)
        self._check_square()

    @property
    def angles(self) -> list[float]:
        """Degrees that each cluster is turned by, counter-clockwise."""
        return [i * 360 / self.num_clusters for i in range(self.num_clusters)]

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, by label."""
        return class_names(self.dataset, self.num_classes, self.dataset_kwargs.get("split"))

    def prepare_data(self) -> None:
        """Download both splits if asked to."""
        if self.download:
            open_dataset(self.dataset, self.root, "train", self.dataset_kwargs, download=True)
            open_dataset(self.dataset, self.root, "test", self.dataset_kwargs, download=True)

    def images(self, split: Literal["train", "test"]) -> Images:
        """Load one split as it is stored."""
        return load(self.dataset, Path(self.root), split, self.dataset_kwargs, self.stored_shape)

    def sources(self, split: Literal["train", "test"]) -> list[Source]:
        """Load one split: one copy of the images, seen under every rotation."""
        images = self.images(split)
        check_labels(images, self.num_classes, split, self.name)
        if self.image_size is not None:
            images = images.resized(self.image_size)
        return [ImageSource(images, self.mean, self.std, angle) for angle in self.angles]

    def _check_square(self) -> None:
        _, height, width = self.input_shape
        if height != width and any(angle % 180 == 90 for angle in self.angles):
            raise UserError(
                f"data.input_shape is {self.input_shape}: with data.num_clusters={self.num_clusters} images are turned "
                f"by 90 degrees and must be square; data.image_size={max(height, width)} makes them so"
            )
