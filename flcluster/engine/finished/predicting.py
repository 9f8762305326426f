"""What a run's models say of data: by Lightning's ``Trainer.predict`` and the module's own ``predict_step``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from lightning import LightningModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from flcluster.data import FederatedDataModule, View
from flcluster.engine.finished.saved import Saved
from flcluster.errors import UserError
from flcluster.federation.paths import fed_by, lightning_of
from flcluster.federation.trainer.quiet import quiet

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be predicted: whose model, and on what; the run's own data where nothing is given."""

    cluster: int | None = None
    client: int | None = None
    data: Any = None
    split: Split = "test"


def predicted(saved: Saved, asked: Asked) -> Any:
    """Return what a model of a run says of data, all batches joined into one structure of what ``predict_step`` gives.

    A module without a ``predict_step`` gives what its ``forward`` makes of the inputs.
    """
    module = saved.module(asked.cluster, asked.client)
    if getattr(module, "class_names", None) == ():  # one of ours, that was not told yet
        vars(module)["class_names"] = saved.data.class_names
    batches = predictions(module, _loader(saved, asked), saved.data)
    return joined(batches)


def predictions(module: LightningModule, data: Any, hooks: FederatedDataModule | None = None) -> list[Any]:
    """Return what ``Trainer.predict`` does, batch by batch, with a datamodule's hooks on batches."""
    package = lightning_of(module)
    if not overrides_predict(module):
        module.predict_step = lambda batch, *_: module(_inputs(batch))  # type: ignore[method-assign]
    with quiet():
        trainer = package.Trainer(
            accelerator="auto",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        if isinstance(data, package.LightningDataModule):
            return cast(list[Any], trainer.predict(module, datamodule=data))
        own = fed_by(package, hooks, trainer, predict=data)
        return cast(list[Any], trainer.predict(module, datamodule=own))


def overrides_predict(module: LightningModule) -> bool:
    """Say whether a module has a ``predict_step`` of its own."""
    base = lightning_of(module).LightningModule
    return getattr(type(module), "predict_step", None) is not base.predict_step


def _inputs(batch: Any) -> Any:
    """Return the inputs of a batch: of a pair of inputs and labels the first, else all of it."""
    return batch[0] if isinstance(batch, tuple | list) and len(batch) in (1, 2) else batch


def joined(batches: Sequence[Any]) -> Any:
    """Join what batches gave: tensors along the first axis, lists end to end, dicts and tuples part by part.

    >>> joined([{"a": torch.ones(2), "b": ["x"]}, {"a": torch.zeros(1), "b": ["y"]}])
    {'a': tensor([1., 1., 0.]), 'b': ['x', 'y']}
    """
    first = batches[0] if batches else None
    if isinstance(first, Tensor):
        return torch.cat([each if each.dim() else each[None] for each in batches])
    if isinstance(first, Mapping):
        return {key: joined([each[key] for each in batches]) for key in first}
    if isinstance(first, tuple):
        return tuple(joined(parts) for parts in zip(*batches, strict=True))
    if isinstance(first, list):
        return [part for each in batches for part in each]
    return list(batches)


def _loader(saved: Saved, asked: Asked) -> Any:
    """Return what a Trainer predicts from: batches, or a datamodule of the user's own."""
    given = asked.data
    if given is None or isinstance(given, FederatedDataModule):
        data = saved.data if given is None else given
        data.prepare_data()
        data.setup("fit")
        return data.loader(_view(data, asked, _cycle(saved)))
    if isinstance(given, View):
        return saved.data.loader(given)
    if isinstance(given, np.ndarray):
        given = torch.from_numpy(given)
    if isinstance(given, Tensor):
        return DataLoader(cast("Dataset[Any]", given), batch_size=saved.data.batch_size)
    if isinstance(given, Dataset) and not isinstance(given, DataLoader):
        return DataLoader(given, batch_size=saved.data.batch_size)
    several = isinstance(given, list | tuple | Mapping | str)  # what a Trainer would take for several loaders
    if not several and (isinstance(given, Iterable) or hasattr(given, "predict_dataloader")):
        return given
    raise UserError(f"data is a {type(given).__name__}: give one DataLoader, dataset, datamodule, tensor or array")


def _cycle(saved: Saved) -> int:
    """Return the round whose data are the last that the run saw, where data change with rounds."""
    return int(saved.content["loop"].get("step", 0)) if saved.data.rounds_only else 0


def _view(data: FederatedDataModule, asked: Asked, cycle: int) -> View:
    if asked.split not in ("train", "val", "test"):
        raise UserError(f"split is {asked.split!r}: it is train, val or test")
    if asked.client is None:
        if asked.split == "val":
            raise UserError("split val: only clients have validation samples; take train or test")
        if asked.cluster is None or asked.cluster >= data.num_clusters:
            return data.pool(asked.split)
        return data.cluster_train(asked.cluster) if asked.split == "train" else data.cluster_test(asked.cluster)
    shard = data.shard(asked.client, cycle)
    view = {"train": shard.train, "val": shard.val, "test": shard.test}[asked.split]
    if view is None or not len(view):
        raise UserError(f"client {asked.client} has no samples in its {asked.split} split")
    return view
