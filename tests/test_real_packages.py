"""With the real pandas, datasets and Jupyter, where they are installed: they are no dependencies of the tests."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import flcluster as fl
from flcluster.datamodules import Dirichlet, HuggingFaceDataModule
from flcluster.modules import MLP

NOTEBOOK = Path(__file__).parents[1] / "docs" / "quickstart.ipynb"


def test_a_saved_dataset_and_a_data_frame():
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    features = datasets.Features(
        {
            "x": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "user": datasets.Value("string"),
        }
    )

    def split(n):
        numbers = range(n)
        labels, users = [i % 3 for i in numbers], [f"u{i % 6}" for i in numbers]
        rows = {"x": rng.random((n, 4)).tolist(), "label": labels, "user": users}
        return datasets.Dataset.from_dict(rows, features=features)

    datasets.DatasetDict({"train": split(60), "test": split(18)}).save_to_disk("saved")
    data = HuggingFaceDataModule("saved", clients="user", pair=("x", "label"))
    assert (data.num_clients, data.class_names, data.input_shape) == (6, ("a", "b", "c"), (4,))
    assert len(data.pool("train")) == 60 and len(data.pool("test")) == 18
    dicts = HuggingFaceDataModule("saved", partition=Dirichlet(alpha=1.0), num_clients=3)
    assert set(next(iter(dicts.client_dataloader(0)))) == {"x", "label", "user"}
    run = fl.fit(data, MLP(3, (4,), hidden=[8]), "FedAvg", rounds=2, run_dir="run", engine={"progress": False})
    frame = run.frame()
    assert isinstance(frame, pandas.DataFrame) and frame["client_acc_after"].iloc[-1] == run.summary["client_acc_after"]


@pytest.mark.slow
def test_the_notebook_runs_in_a_real_kernel(monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    kernel = Path("share/kernels/real/kernel.json")
    kernel.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": argv, "display_name": "real", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(Path("share").resolve()))
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    folder = {"metadata": {"path": os.getcwd()}}
    nbclient.NotebookClient(notebook, timeout=500, kernel_name="real", resources=folder).execute()
    shown = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("CDFL Digits" in text for text in shown) and any("Median Digits" in text for text in shown)
    assert not any("Traceback" in text for text in shown)
