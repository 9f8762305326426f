"""Predictions are those of the run's models by their own ``predict_step``: held against plain PyTorch."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning import LightningDataModule
from own_scores import MODULE
from torch.utils.data import DataLoader, TensorDataset

import flcluster as fl
from flcluster.cli import main
from flcluster.datamodules import RotatedDigits
from flcluster.modules import MLP

TINY = Path(__file__).parents[3] / "tiny.yaml"
QUIET = {"progress": False, "threads": 1}
PREDICTS = """

class Predicts(Guesses):
    def predict_step(self, batch, batch_idx):
        guess = self(batch[0])
        pair = torch.stack([guess, batch[1].float()], 1)
        return {"guess": guess, "pair": pair, "text": [str(n) for n in range(len(guess))]}
"""


@pytest.fixture
def run():
    return fl.fit(config=TINY, cycles=1, run_dir="run", engine=QUIET)


def truth(run, view, **whose):
    model = run.model(**whose).eval()
    with torch.no_grad():
        return model(view.tensors()[0])


def data_of():
    data = RotatedDigits(num_clusters=2, num_clients=6, samples=(20, 40), proxy_size=60, test_size=40, seed=3)
    data.setup()
    return data


def test_a_clients_and_a_clusters_samples_are_predicted(run):
    data = data_of()
    for whose, view in (({"client": 3}, data.shard(3).test), ({"cluster": 1}, data.cluster_test(1))):
        found, logits = run.predict(**whose), truth(run, view, **whose)
        torch.testing.assert_close(found["logits"], logits)
        torch.testing.assert_close(found["probabilities"], logits.softmax(1))
        assert found["class"].tolist() == logits.argmax(1).tolist()
        assert found["class_name"] == [data.class_names[k] for k in logits.argmax(1).tolist()]
    torch.testing.assert_close(
        run.predict(client=3, split="train")["logits"], truth(run, data.shard(3).train, client=3)
    )
    with pytest.raises(fl.UserError, match="no samples in its val split"):
        run.predict(client=3, split="val")


class Mine(LightningDataModule):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def predict_dataloader(self):
        return DataLoader(TensorDataset(self.x, self.x), batch_size=7)


def test_anything_with_samples_may_be_given(run):
    x, y = data_of().cluster_test(0).tensors()
    wanted = truth(run, data_of().cluster_test(0), cluster=0)
    for given in (x, x.numpy(), TensorDataset(x, y), DataLoader(TensorDataset(x, y), batch_size=9), Mine(x)):
        torch.testing.assert_close(run.predict(given, cluster=0)["logits"], wanted)
    torch.testing.assert_close(run.predict(data_of(), cluster=0)["logits"], wanted)
    with pytest.raises(fl.UserError, match="data is a list: give one DataLoader"):
        run.predict([x], cluster=0)


def test_the_script_is_left_as_it_was(run):
    torch.manual_seed(4)
    wanted = torch.rand(1)
    torch.manual_seed(4)
    run.predict(cluster=0)
    assert torch.equal(torch.rand(1), wanted)


def test_the_command_writes_a_table_or_any_structure(run, capsys):
    data = data_of()
    logits = truth(run, data.shard(3).test, client=3)
    assert main(["predict", "run", "--client", "3", "--output", "found.csv"]) == 0
    assert "wrote found.csv" in capsys.readouterr().out
    with open("found.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["class"]) for row in rows] == logits.argmax(1).tolist() and len(rows) == len(logits)
    assert list(rows[0])[:4] == ["sample", "class", "class_name", "probabilities_0"]
    np.testing.assert_allclose([float(row["logits_9"]) for row in rows], logits[:, 9], rtol=1e-5)
    assert main(["predict", "run", "--cluster", "1", "--output", "found.pt"]) == 0
    torch.testing.assert_close(
        torch.load("found.pt", weights_only=True)["logits"], truth(run, data.cluster_test(1), cluster=1)
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--client", "1", "--cluster", "1"], "give either --cluster K or --client M"),
        (["--client", "1", "--output", "x.parquet"], "must end in .csv or .pt"),
        (["--client", "9"], "client 9: the run has clients 0 to 5"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(run, flags, said, capsys):
    assert main(["predict", "run", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_module_of_ones_own_predicts_by_its_own_step(tmp_path, monkeypatch, capsys):
    Path("scored.py").write_text(MODULE + PREDICTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    common = ["fit", "--config", str(TINY), "--algorithm", "FedAvg", "--algorithm.rounds", "1"]
    for name in ("Guesses", "Predicts"):
        assert main([*common, "--model", f"scored.{name}", "--run_dir", name]) == 0
    x, y = data_of().shard(2).test.tensors()
    plain, stepped = (fl.load(name) for name in ("Guesses", "Predicts"))
    torch.testing.assert_close(plain.predict(client=2), truth(plain, data_of().shard(2).test, client=2))  # its forward
    found = stepped.predict(client=2)
    assert found["pair"][:, 1].tolist() == y.tolist() and found["text"] == [str(n) for n in range(len(x))]
    assert main(["predict", "Predicts", "--client", "2", "--output", "own.csv"]) == 0
    assert Path("own.csv").read_text().splitlines()[0] == "sample,guess,pair_0,pair_1,text"


def test_names_of_classes_go_with_a_checkpoint():
    from lightning import Trainer

    module = MLP(2, (1, 2, 2), hidden=[3])
    module.class_names, module.normalisation = ("cat", "dog"), {"mean": (0.5,), "std": (0.25,)}
    trainer = Trainer(logger=False, enable_checkpointing=False, max_epochs=0, enable_progress_bar=False)
    trainer.fit(module, [(torch.zeros(1, 1, 2, 2), torch.zeros(1, dtype=torch.int64))])
    trainer.save_checkpoint("mine.ckpt")
    again = MLP.load_from_checkpoint("mine.ckpt")
    assert again.class_names == module.class_names and again.normalisation == module.normalisation
