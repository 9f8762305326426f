"""Small good configurations, one for each class that a configuration can name: what bad settings are laid over.

Most classes need nothing but a base with the right kind of data. Where a class needs a setting or a file, it stands
here.
"""

import sys
from pathlib import Path

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import same_numbers

ROOT = Path(__file__).resolve().parents[2]
TINY = ["--config", str(ROOT / "tests/tiny.yaml")]
QUIET = [part for key in ("progress", "table", "pictures") for part in (f"--engine.{key}", "false")]
SKEW = ["--config", str(ROOT / same_numbers.SKEW), "--algorithm", "FedAvg", "--algorithm.batch_size", "20"]
STREAM = ["--config", str(ROOT / same_numbers.DRIFT)]
OWN = ["--config", str(ROOT / "tests/tiny.yaml"), "--algorithm", "FedAvg", "--algorithm.batch_size", "16"]

DIGITS = {"root": "digits", "num_clients": 4}
DATA: dict[str, list[str]] = {
    "SkewedDigits": SKEW,
    "LabelSkewDataModule": SKEW,
    "StreamDigits": STREAM,
    "CSVDataModule": [*OWN, "--data", "CSVDataModule", "--data.path", "table.csv", "--data.label",
                      "y", "--data.clients", "who", "--data.num_clients", "4"],
    "ImageFolderDataModule": [*OWN, "--data", "ImageFolderDataModule", "--data.root", "images",
                              "--data.image_size", "8", "--data.partition", "IID", "--data.num_clients", "3",
                              "--data.proxy_size", "4"],
    "SplitDataModule": [*OWN, "--data", "SplitDataModule", "--data.datamodule", "RotatedDigits", "--data.partition",
                        "IID", "--data.num_clients", "4"],
    "ShiftedDataModule": [*OWN, "--data", "ShiftedDataModule", "--data.datamodule", "RotatedDigits", "--data.shifts",
                          "[none, rot90]", "--data.num_clients", "4"],
    "DriftingDataModule": [*OWN, "--data", "DriftingDataModule", "--data.datamodule", "RotatedDigits",
                           "--data.num_clients", "4"],
    "RotatedDataModule": [*TINY, "--data", "RotatedDataModule", "--data.dataset", "torchvision.datasets.MNIST",
                          "--data.num_classes", "10", "--data.input_shape", "[1,28,28]", "--data.mean", "[0.1]",
                          "--data.std", "[0.3]", "--data.root", "digits"],
    "StreamImages": [*STREAM, "--data", "StreamImages", "--data.dataset", "torchvision.datasets.MNIST",
                     "--data.num_classes", "10", "--data.input_shape", "[1,28,28]", "--data.mean", "[0.1]",
                     "--data.std", "[0.3]", "--data.root", "digits"],
    "HuggingFaceDataModule": [*OWN, "--data", "HuggingFaceDataModule", "--data.path", "someone/digits"],
    "TraceDataModule": [*STREAM, "--data", "TraceDataModule", "--data.manifest", "manifest.csv", "--data.root", "trace",
                        "--data.image_size", "8", "--data.num_clients", "2"],
}  # fmt: skip
"""Data -> flags of a run that uses it; RotatedDigits in tests/tiny.yaml if it is not here."""
NOT_HERE = ("RotatedDataModule", "StreamImages", "HuggingFaceDataModule")
"""Data whose files or library are not there where this runs."""
MODELS: dict[str, list[str]] = {"ViT": ["--model.image_size", "8"]}
PLACES = ("data", "model", "algorithm")
"""Parts of a run whose own parts have flags."""
PARTS: dict[str, dict[str, object]] = {
    "NaturalIds": {"path": "ids.txt"},
    "EdgeList": {"path": "edges.csv"},
    "NamesFile": {"path": "names.csv"},
    "TraceDevices": {"capacity": "devices.csv"},
    "TensorBoardLogger": {"save_dir": "."},
    "CSVLogger": {"save_dir": "."},
    "EarlyStopping": {"monitor": "client_acc_after"},
    "HeterogeneityProbe": {"rounds": [1]},
}
"""A part of data, of a method or of a run -> settings that it needs."""
NOT_OURS = (
    "BackboneFinetuning",
    "OnExceptionCheckpoint",
    "ModelPruning",
    "LambdaCallback",
    "RichProgressBar",
    "ThroughputMonitor",
    "BatchSizeFinder",
    "LearningRateFinder",
)
"""Lightning's callbacks that need code, or a module of another kind, and show nothing of ours."""


def files(folder: Path) -> None:
    """Write the files that good configurations name."""
    from PIL import Image

    draw = np.random.default_rng(0)
    rows = [f"{draw.normal():.3f},{draw.normal():.3f},{i % 3},c{i % 4}" for i in range(80)]
    (folder / "table.csv").write_text("\n".join(["a,b,y,who", *rows]) + "\n")
    for kind in ("one", "two"):
        for i in range(12):
            path = folder / "images" / kind / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)
    (folder / "trace").mkdir(exist_ok=True)
    lines = []
    for i in range(40):
        Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / "trace" / f"{i}.png")
        lines.append(f"{i}.png,{i % 2},c{i % 2},2015-01-{1 + i // 2:02d}")
    (folder / "trace" / "manifest.csv").write_text("\n".join(["image,label,client,time", *lines]) + "\n")
    (folder / "edges.csv").write_text("\n".join(["a,b", *(f"{i},{(i + 1) % 24}" for i in range(24))]) + "\n")
    (folder / "devices.csv").write_text("ms_per_sample,mbps\n1.0,5.0\n2.0,3.0\n")
    (folder / "ids.txt").write_text("\n".join(str(i % 10) for i in range(1797)) + "\n")
    (folder / "names.csv").write_text(
        "\n".join(["name,x,y", *(f"{i},{draw.normal():.3f},{draw.normal():.3f}" for i in range(10))]) + "\n"
    )
    (folder / "study.yaml").write_text(yaml.safe_dump(study()))


def study() -> dict[str, object]:
    """Return a good study file."""
    return {
        "base": str(ROOT / "tests/tiny.yaml"),
        "variants": {"one": {}, "two": {"algorithm": {"init_args": {"rho": 0.2}}}},
        "target": {"variant": "one"},
        "figures": [{"kind": "lines"}],
        "table": ["client_acc"],
    }


def method(name: str) -> list[str]:
    """Return the flags of a run of a method: same_numbers.py has one of each."""
    run = next((run for run in same_numbers.RUNS if run.partition("-")[0] == name), None)
    if run is None:
        raise SystemExit(f"no run of {name}: add one to RUNS in tests/benchmarks/same_numbers.py")
    config, flags = same_numbers.RUNS[run]
    return ["--config", str(ROOT / config), "--algorithm", name, *same_numbers.SHORT[config], *flags]


def data(name: str) -> list[str]:
    """Return the flags of a run on data of a class."""
    return DATA.get(name) or [*(STREAM if name.startswith("Stream") else SKEW if name.startswith("Skewed") else TINY),
                              "--data", name]  # fmt: skip


def model(name: str) -> list[str]:
    """Return the flags of a run of a model."""
    return [*TINY, "--model", name, *MODELS.get(name, [])]
