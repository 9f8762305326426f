"""A model of a run as a file for elsewhere: a Lightning checkpoint, safetensors, a torch.export or ONNX program."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning import LightningModule
from torch import Tensor, nn

from flcluster.engine.finished.saved import Saved, told_by
from flcluster.errors import UserError
from flcluster.files import replacing
from flcluster.records.tensors import save


@dataclass(frozen=True, eq=False)
class Exported:
    """A model and what must be known to use it."""

    module: LightningModule
    told: Mapping[str, Any]
    """Names of classes and normalisation."""
    shape: tuple[int, ...]
    """Of an input; empty where inputs are no single tensors."""
    position: int
    """Where the run was."""

    @classmethod
    def of(cls, saved: Saved, cluster: int | None, client: int | None) -> "Exported":
        """Take a model out of a run."""
        module = saved.module(cluster, client).eval().cpu()
        return cls(module, told_by(saved.data), tuple(saved.data.input_shape), int(saved.content["position"]))


class Normalising(nn.Module):
    """A model that takes pixels in [0, 1] and normalises them itself, where it is known how.

    Args:
        model: The model.
        scale: ``mean`` and ``std``, per channel; None if inputs go in as they are.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, scale: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.model = model
        mean, std = (torch.tensor((scale or {"mean": [0.0], "std": [1.0]})[name]) for name in ("mean", "std"))
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("std", std[:, None, None])
        self.scaled = scale is not None

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's logits."""
        logits: Tensor = self.model((x - self.mean) / self.std if self.scaled else x)
        return logits


def write_checkpoint(exported: Exported, path: Path, normalised: bool) -> None:
    """Write what ``TheModule.load_from_checkpoint`` reads, with names of classes and normalisation beside."""
    content = {
        "state_dict": exported.module.state_dict(),
        "hyper_parameters": dict(exported.module.hparams),
        "pytorch-lightning_version": lightning.__version__,
        "epoch": 0,
        "global_step": exported.position,
        **exported.told,
    }
    with replacing(path) as temporary:
        save(content, temporary)


def write_safetensors(exported: Exported, path: Path, normalised: bool) -> None:
    """Write weights by name; tied ones once. Names of classes and normalisation are JSON in the file's metadata."""
    as_bytes = _needed("safetensors.torch", "safetensors").save
    weights, seen = {}, set[tuple[int, int]]()
    for name, tensor in exported.module.state_dict().items():
        place = (tensor.data_ptr(), tensor.numel())
        if place in seen and tensor.numel():
            continue  # tied: the module ties them again
        seen.add(place)
        weights[name] = tensor.contiguous().clone()
    metadata = {name: json.dumps(value) for name, value in exported.told.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(as_bytes(weights, metadata={"format": "pt", **metadata}))


def write_program(exported: Exported, path: Path, normalised: bool) -> None:
    """Write a program that ``torch.export.load`` reads; names of classes and normalisation are a file in it."""
    program = _program(exported, normalised)
    content = BytesIO()
    torch.export.save(program, content, extra_files={"flcluster.json": json.dumps(exported.told)})
    with replacing(path) as temporary:
        temporary.write_bytes(content.getvalue())


def write_onnx(exported: Exported, path: Path, normalised: bool) -> None:
    """Write an ONNX program; names of classes and normalisation are in its metadata."""
    onnx = _needed("onnx", "onnx")
    _needed("onnxscript", "onnx")
    made = torch.onnx.export(_program(exported, normalised), dynamo=True, verbose=False)
    assert made is not None
    model = made.model_proto
    for name, value in exported.told.items():
        model.metadata_props.add(key=name, value=json.dumps(value))
    onnx.checker.check_model(model)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _program(exported: Exported, normalised: bool) -> Any:
    """Return the model as a program of one input ``x`` ``[batch, …]``, as many samples as one likes."""
    if not exported.shape:
        raise UserError("the data say no shape of an input, which a program needs: take --format lightning")
    kind = type(exported.module).__name__
    scale = exported.told["normalisation"] if normalised else None
    exported.module.requires_grad_(False)
    module = Normalising(_bare(exported.module), scale).eval()
    example, batch = torch.rand(2, *exported.shape), torch.export.Dim("batch", min=1)
    try:
        return torch.export.export(module, (example,), dynamic_shapes={"x": {0: batch}})
    except Exception as error:  # torch.export tells of what it cannot trace in many kinds of error
        said = " ".join(str(error).split())[:300]
        raise UserError(f"{kind} cannot be made a program by torch.export ({said}): take --format lightning") from error


def _bare(module: LightningModule) -> LightningModule:
    """Leave out metrics, which are no part of what a model computes."""
    for name, part in list(module.named_children()):
        if type(part).__module__.startswith("torchmetrics"):
            delattr(module, name)
    return module


def _needed(name: str, format_: str) -> Any:
    """Import what a format needs."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        missing = name.partition(".")[0]
        raise UserError(f"--format {format_} needs {missing}: pip install 'flcluster[export]'") from None


Write = Callable[[Exported, Path, bool], None]
FORMATS: dict[str, tuple[str, Write]] = {
    "lightning": (".ckpt", write_checkpoint),
    "safetensors": (".safetensors", write_safetensors),
    "torch.export": (".pt2", write_program),
    "onnx": (".onnx", write_onnx),
}
"""Name of a format -> the end of a file's name, and what writes it."""
