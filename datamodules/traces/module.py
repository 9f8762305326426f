"""Real clients and times from a manifest: FMoW, Cityscapes, Waymo Open, Open Images, or any images of one's own."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flcluster import seeds
from flcluster.datamodules.sources.checks import stays_inside
from flcluster.datamodules.sources.counts import Ints
from flcluster.datamodules.sources.images import Images, ImageSource
from flcluster.datamodules.streams.arrivals import SampleArrivals, StreamSetting
from flcluster.datamodules.streams.holding import Loaded
from flcluster.datamodules.streams.module import StreamDataModule
from flcluster.datamodules.streams.set_apart import choose_proxy
from flcluster.errors import UserError, at_least

from .arrivals import TraceDays, TracePlan, TraceSetting
from .manifest import Manifest, read_manifest
from .pixels import cached_pixels


class TraceDataModule(StreamDataModule):
    """A stream whose clients, labels and times come from a manifest.

    A manifest is a CSV file with the columns image, label and client, and if need be time and box (``ManifestLine``).
    ``flcluster convert`` writes one from the files that FMoW, Cityscapes, Waymo Open and Open Images are published as.
    Images are decoded once, to ``image_size``, into a file beside the manifest that is mapped into memory.

    Args:
        manifest: The manifest, relative to ``root``.
        image_size: Height and width that images are resized to.
        arrivals: When samples arrive: TraceDays (the default), TraceIntervals or TraceLabelBuckets.
        num_clients: Take that many clients at random; all if not given.
        mean: Per-channel mean of the pixels scaled to [0, 1].
        std: Per-channel standard deviation of the pixels scaled to [0, 1].
        cache: Folder for the decoded images, instead of the manifest's.
        images: Folder that the manifest's images must lie in; data.root or the manifest's own if not given.
        name: What the dataset is called in tables.
    """

    name = "Trace"

    def __init__(
        self,
        manifest: str,
        image_size: int = 64,
        arrivals: TracePlan | None = None,
        num_clients: int | None = None,
        mean: tuple[float, float, float] = (0.485, 0.456, 0.406),
        std: tuple[float, float, float] = (0.229, 0.224, 0.225),
        cache: str | None = None,
        images: str | None = None,
        name: str | None = None,
        root: str | Path = "data",
        **kwargs: Any,
    ) -> None:
        self.manifest = _open(Path(root).expanduser() / Path(manifest).expanduser())
        _check_places(self.manifest, [Path(root), self.manifest.path.parent] if images is None else [Path(images)])
        everyone = len(self.manifest.client_names)
        if num_clients is not None and num_clients > everyone:
            raise UserError(f"data.num_clients is {num_clients}, but {self.manifest.path} has {everyone} clients")
        super().__init__(
            num_classes=len(self.manifest.classes),
            input_shape=(3, image_size, image_size),
            num_clients=everyone if num_clients is None else num_clients,
            arrivals=arrivals or TraceDays(),
            root=root,
            **kwargs,
        )
        if not isinstance(self.arrivals, TracePlan):
            raise UserError(
                f"data.arrivals is {type(self.arrivals).__name__}, which makes up clients: a manifest needs TraceDays, "
                "TraceIntervals or TraceLabelBuckets"
            )
        at_least("image_size", image_size, 1, "data.")
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise UserError(f"data.mean and data.std need three values, those of std above 0, not {mean} and {std}")
        self.image_size, self.mean, self.std = image_size, tuple(mean), tuple(std)
        self.cache = None if cache is None else Path(cache).expanduser()
        self.name = name or type(self).name

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by number."""
        return self.manifest.classes

    @property
    def client_names(self) -> list[str]:
        """What the manifest calls each client."""
        return [self.manifest.client_names[client] for client in self._chosen().tolist()]

    def prepare_data(self) -> None:
        """Decode the images once, before other processes look for them."""
        cached_pixels(self.manifest, self.image_size, self.cache)

    def load(self) -> Loaded:
        """Map the decoded images, and take those of the chosen clients."""
        pixels = cached_pixels(self.manifest, self.image_size, self.cache)
        source = ImageSource(Images(pixels, torch.from_numpy(self.manifest.labels)), self.mean, self.std)
        pool = self._pool()
        return Loaded(source, pool, pool)

    def draw_arrivals(self, setting: StreamSetting) -> SampleArrivals:
        """Let each client's own samples arrive as the plan says."""
        rows = self.manifest
        proxy = choose_proxy(rows.labels, self._pool(), self.num_classes, self.proxy_per_class, self.seed)
        free = np.setdiff1d(self._pool(), proxy)  # the samples that the setting counts
        number = np.full(len(rows.client_names), -1, dtype=np.int64)
        number[self._chosen()] = np.arange(self.num_clients)
        client, time = number[rows.clients[free]], rows.times[free]
        return self.arrivals.draw(TraceSetting(**vars(setting), client=client, time=time, first=rows.times.min()))

    def _chosen(self) -> Ints:
        """Return the manifest's numbers of the clients that take part, ascending."""
        everyone = len(self.manifest.client_names)
        if self.num_clients == everyone:
            return np.arange(everyone)
        return np.sort(seeds.rng(self.seed, "trace clients").permutation(everyone)[: self.num_clients])

    def _pool(self) -> Ints:
        return np.flatnonzero(np.isin(self.manifest.clients, self._chosen()))


def _check_places(manifest: Manifest, folders: list[Path]) -> None:
    """Refuse images that lie elsewhere than they should: a manifest may be anybody's."""
    allowed, passed = [folder.expanduser() for folder in folders], set[str]()
    for image, line in zip(manifest.images, manifest.lines, strict=True):
        folder = os.path.dirname(image)
        if folder not in passed and not stays_inside(os.path.join(manifest.path.parent, folder), *allowed):
            raise UserError(
                f"{manifest.path}, line {line}: the image {image} does not lie in {allowed[-1].resolve()}; if it is to "
                "be read, name its folder in data.images"
            )
        passed.add(folder)


def _open(path: Path) -> Manifest:
    if not path.is_file():
        raise UserError(
            f"data.manifest: there is no {path.resolve()}. Make one with flcluster convert, or write a CSV file with "
            "the columns image,label,client,time; it cannot be downloaded"
        )
    return read_manifest(path)
