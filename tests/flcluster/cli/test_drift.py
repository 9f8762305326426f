"""Commands and parts around drifting runs: drift, convert, the probe of Table 7, exports, scratch tables."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from PIL import Image

from flcluster.algorithms.drift.probe import HeterogeneityProbe, mean_squares
from flcluster.cli import main
from flcluster.datamodules import LabelBuckets, StreamDigits
from flcluster.errors import UserError
from flcluster.federation.bank import Bank, FileTable, Table
from flcluster.federation.federation import Federation
from flcluster.modules import MLP

DIGITS = str(Path(__file__).parents[3] / "configs" / "fielding" / "digits.yaml")
SHORT = ["fit", "--config", DIGITS, "--data.num_clients", "12", "--algorithm.participants", "4"]


def rows_of(path: str) -> list[dict]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_drift_prints_the_table_and_draws(capsys):
    assert main(["drift", "--config", DIGITS, "--embedding_epochs", "1", "--output", "s.png", "--until", "20"]) == 0
    out = capsys.readouterr().out
    assert "Digits (ours)" in out and "embedding_L2" in out and "OpenImage" in out
    assert "2 events" in out
    assert Image.open("s.png").size[0] > 500


def test_drift_is_of_streams(capsys):
    assert main(["drift", "--config", str(Path(DIGITS).parents[1] / "quickstart.yaml")]) == 2
    assert "RotatedDigits" in capsys.readouterr().err


def test_convert_by_command(capsys):
    folder = Path("openImage")
    (folder / "client_data_mapping").mkdir(parents=True)
    rows = ["client_id,sample_path,label_name,label_id"]
    for label in range(12):
        path = folder / "train" / f"{label}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(path)
        rows.append(f"7,{label}.png,name{label},{label}")
    (folder / "client_data_mapping" / "train.csv").write_text("\n".join(rows) + "\n")
    assert main(["convert", "open_images", "openImage", "open.csv"]) == 0
    assert len(rows_of("open.csv")) == 12
    assert main(["convert", "nonsense", "openImage", "x.csv"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_mean_squares_by_brute_force():
    draw = np.random.default_rng(0)
    points, labels = draw.normal(size=(20, 3)).astype(np.float32) + 100, draw.integers(4, size=20)
    labels[0] = 9  # alone
    for i, found in enumerate(mean_squares(points, labels)):
        others = [j for j in range(20) if labels[j] == labels[i] and j != i]
        apart = [((points[i].astype(float) - points[j].astype(float)) ** 2).sum() for j in others]
        assert found == pytest.approx(np.mean(apart) if apart else 0.0, rel=1e-9)


def federation() -> Federation:
    data = StreamDigits(num_clients=12, window=20, arrivals=LabelBuckets(gap=10, groups=3, group_noise=0.0))
    data.setup()
    model = MLP(10, (1, 8, 8), hidden=[16])
    return Federation(Fabric(accelerator="cpu", devices=1), model, data, lambda w: Bank(Path("bank"), w, 2**20), 0)


def test_the_probe_finds_groups_by_labels():
    """Three groups with the same labels each: label clusters are alike, all clients together are not."""
    fed = federation()
    rows = {row["clustering"]: row for row in HeterogeneityProbe([1]).measure(fed.init_rows(1)[0], 0, fed)}
    assert set(rows) == {"none", "gradient", "label"}
    assert rows["label"]["label_L1"] < 0.7 < rows["none"]["label_L1"]
    assert rows["label"]["embedding_sqL2"] < rows["none"]["embedding_sqL2"]


def test_the_probe_writes_and_goes_on(capsys):
    probe = "[{class_path: flcluster.algorithms.drift.probe.HeterogeneityProbe, init_args: {rounds: [1, 3]}}]"
    flags = [*SHORT, "--algorithm", "FedAvg", "--algorithm.rounds", "4", "--callbacks", probe, "--run_dir", "a"]
    assert main([*flags, "--engine.max_updates", "2"]) == 0
    assert len(rows_of("a/heterogeneity.csv")) == 3
    assert main(["fit", "--run_dir", "a", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    rows = rows_of("a/heterogeneity.csv")
    assert [row["rounds"] for row in rows] == ["1"] * 3 + ["3"] * 3
    assert "Heterogeneity of clusters (OURS)" in capsys.readouterr().out


def test_the_probe_refuses_rounds_it_would_miss(capsys):
    probe = "[{class_path: flcluster.algorithms.drift.probe.HeterogeneityProbe, init_args: {rounds: [3]}}]"
    flags = [*SHORT, "--algorithm", "FedAvg", "--algorithm.rounds", "4", "--callbacks", probe]
    assert main([*flags, "--engine.session", "2"]) == 2
    assert "[3]" in capsys.readouterr().err


def test_a_clients_model_is_that_of_its_cluster():
    assert main([*SHORT, "--algorithm.rounds", "2", "--run_dir", "a"]) == 0
    content = torch.load("a/checkpoints/last.ckpt", weights_only=True)
    label = int(content["loop"]["state"]["labels"][5])
    assert main(["export", "a", "--client", "5"]) == 0
    assert main(["export", "a", "--cluster", str(label)]) == 0
    mine, its = (
        torch.load(f"a/{name}.ckpt", weights_only=True)["state_dict"] for name in ("client5", f"cluster{label}")
    )
    assert all(torch.equal(mine[name], its[name]) for name in its)
    assert main(["export", "a", "--client", "12"]) == 2


def test_uploads_do_not_run_on_streams(capsys):
    assert main([*SHORT, "--algorithm", "Local", "--run_dir", "a"]) == 2
    assert "StreamDigits" in capsys.readouterr().err


def test_scratch_tables_leave_nothing(tmp_path):
    bank = Bank(tmp_path / "bank", width=10, budget=100 * 4)
    with bank.scratch(5) as small, bank.scratch(50) as large:
        assert type(small) is Table and isinstance(large, FileTable)
        large[49] = torch.arange(10.0)
        assert large[49].tolist() == list(range(10))
    assert list((tmp_path / "bank").iterdir()) == []
    assert bank.save() == {}


def test_a_distance_must_fit_the_representation():
    from flcluster.algorithms import Fielding
    from flcluster.algorithms.drift.representations import Gradient
    from flcluster.clustering.distances import L2, JensenShannon

    assert Fielding(representation=Gradient()).metric == L2()
    with pytest.raises(UserError, match=r"JensenShannon does not fit Gradient: use L2"):
        Fielding(representation=Gradient(), distance=JensenShannon())


def test_summaries_have_the_gauges():
    assert main([*SHORT, "--algorithm.rounds", "3", "--run_dir", "a"]) == 0
    summary = json.loads(Path("a/summary.json").read_text())
    rows = rows_of("a/metrics.csv")
    assert summary["client_acc"] == float(rows[-1]["client_acc"])
    assert summary["client_acc_last"] == pytest.approx(np.mean([float(row["client_acc"]) for row in rows[-5:]]))
    assert sum(summary[f"cluster_size_{k}"] for k in range(int(summary["clusters"]))) == 12
