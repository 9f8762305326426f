"""Clusters that are rotations of one image dataset."""

from typing import Any

from flcluster.data import Source
from flcluster.datamodules.sources.images import ImageSource
from flcluster.datamodules.sources.module import ByClassPath, ImageDataModule
from flcluster.errors import UserError

from .module import ClusteredDataModule


class Rotated(ImageDataModule, ClusteredDataModule):
    """K clusters by rotation: cluster ``i`` sees every image turned counter-clockwise by ``i * 360 / K`` degrees.

    All clusters share one copy of the images; a batch is rotated when it is taken. A subclass says of which dataset:
    ``known = CIFAR10``.

    Args:
        dataset_kwargs: Further arguments of the dataset class.
        image_size: Resize the images to this height and width before rotating.
        normalise: Take the mean off the pixels and divide by std; false leaves them in [0, 1], as IFCA's code does. The
            dataset's name then says so.
    """

    def __init__(
        self,
        dataset_kwargs: dict[str, Any] | None = None,
        image_size: int | None = None,
        normalise: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=self.known.num_classes, input_shape=self.known.shape, **kwargs)
        self._take_up(dataset_kwargs, image_size, normalise)
        self._check_square()

    @property
    def angles(self) -> list[float]:
        """Degrees that each cluster is turned by, counter-clockwise."""
        return [i * 360 / self.num_clusters for i in range(self.num_clusters)]

    def sources(self) -> list[tuple[Source, Source]]:
        """Load one copy of the images, seen under every rotation."""
        train, test = self.images()
        scale = self.mean, self.std
        return [(ImageSource(train, *scale, angle), ImageSource(test, *scale, angle)) for angle in self.angles]

    def _check_square(self) -> None:
        _, height, width = self.input_shape
        if height != width and any(angle % 180 == 90 for angle in self.angles):
            raise UserError(
                f"data.input_shape is {self.input_shape}: with data.num_clusters={self.num_clusters} images are turned "
                f"by 90 degrees and must be square; data.image_size={max(height, width)} makes them so"
            )


class RotatedDataModule(ByClassPath, Rotated):
    """K clusters by rotation: cluster ``i`` sees every image turned counter-clockwise by ``i * 360 / K`` degrees."""
