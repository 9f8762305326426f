"""Exported models give the module's own logits in every format, and tell names of classes and normalisation."""

import json
from pathlib import Path

import pytest
import torch

import flcluster as fl
from flcluster.cli import main
from flcluster.datamodules import RotatedDigits
from flcluster.modules import CNN, MLP

TINY = Path(__file__).parents[2] / "tiny.yaml"
MODELS = {
    "MLP": ["--model.hidden", "[16]"],
    "CNN": ["--model", "CNN", "--model.kernel_size", "3", "--model.padding", "1", "--model.hidden", "8"],
}


@pytest.fixture(params=MODELS)
def run(request):
    flags = ["--algorithm", "FedAvg", "--algorithm.rounds", "1", *MODELS[request.param]]
    assert main(["fit", "--config", str(TINY), "--run_dir", "run", *flags]) == 0
    return fl.load("run")


@pytest.fixture
def images():
    data = RotatedDigits(num_clusters=2, num_clients=6, proxy_size=60, test_size=40, seed=3)
    data.setup()
    x = data.cluster_test(0).tensors()[0]
    mean, std = data.normalisation
    return x, x * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]


def wanted(run, x):
    with torch.no_grad():
        return run.model(cluster=0).eval()(x)


def exported(form, path, *flags):
    assert main(["export", "run", "--cluster", "0", "--format", form, "--output", path, *flags]) == 0


def test_a_checkpoint_tells_what_it_is_of(run, images):
    assert main(["export", "run", "--cluster", "0"]) == 0
    module = {"MLP": MLP, "CNN": CNN}[type(run.model(cluster=0)).__name__].load_from_checkpoint("run/cluster0.ckpt")
    x, raw = images
    assert module.class_names == RotatedDigits().class_names and raw.min() >= 0 and raw.max() <= 1.0001
    mean, std = (torch.tensor(module.normalisation[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        torch.testing.assert_close(module.eval()((raw - mean) / std), wanted(run, x), rtol=1e-4, atol=1e-5)


def test_safetensors_hold_the_weights(run):
    safe = pytest.importorskip("safetensors")
    exported("safetensors", "x.safetensors")
    state = run.model(cluster=0).state_dict()
    with safe.safe_open("x.safetensors", "pt") as file:
        assert set(file.keys()) == state.keys()
        assert all(torch.equal(file.get_tensor(name), value) for name, value in state.items())
        told = {name: json.loads(file.metadata()[name]) for name in ("class_names", "normalisation")}
    assert told["class_names"][0] == RotatedDigits().class_names[0] and len(told["normalisation"]["mean"]) == 1


@pytest.mark.parametrize("normalised", [True, False])
def test_a_program_takes_pixels_or_what_the_data_gave(run, images, normalised):
    exported("torch.export", "x.pt2", *([] if normalised else ["--normalised", "false"]))
    told = {"flcluster.json": ""}
    program = torch.export.load("x.pt2", extra_files=told).module()
    x, raw = images
    for some in (slice(None), slice(1), slice(7)):  # however many samples
        torch.testing.assert_close(
            program((raw if normalised else x)[some]), wanted(run, x[some]), rtol=1e-4, atol=1e-5
        )
    assert json.loads(told["flcluster.json"])["class_names"] == list(RotatedDigits().class_names)


@pytest.mark.parametrize("normalised", [True, False])
def test_onnx_gives_the_same_logits(run, images, normalised):
    onnx, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxscript")
    from onnx.reference import ReferenceEvaluator

    exported("onnx", "x.onnx", *([] if normalised else ["--normalised", "false"]))
    model = onnx.load("x.onnx")
    x, raw = images
    (found,) = ReferenceEvaluator(model).run(None, {"x": (raw if normalised else x)[:9].numpy()})
    torch.testing.assert_close(torch.from_numpy(found), wanted(run, x[:9]), rtol=1e-4, atol=1e-5)
    assert {prop.key for prop in model.metadata_props} >= {"class_names", "normalisation"}


@pytest.mark.parametrize(("form", "missing"), [("safetensors", "safetensors"), ("onnx", "onnx")])
def test_what_is_missing_is_one_line(form, missing, monkeypatch, capsys):
    assert main(["fit", "--config", str(TINY), "--run_dir", "run", "--algorithm.cycles", "1"]) == 0
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    monkeypatch.setitem(__import__("sys").modules, f"{missing}.torch", None)
    assert main(["export", "run", "--cluster", "0", "--format", form]) == 2
    assert capsys.readouterr().err.strip().endswith(f"--format {form} needs {missing}: pip install 'flcluster[export]'")
