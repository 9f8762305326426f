"""What a run leaves in numbers: exact cells, files that go back to a checkpoint, summaries by hand."""

import csv
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.errors import UserError
from flcluster.files import write_json
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint
from flcluster.records.csv_file import CsvFile, cell
from flcluster.records.exchange import Exchange
from flcluster.records.recorder import Recorder, worst_tenth

EXAMPLES = settings(deadline=None, max_examples=200, database=None)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def exchange(client, before, after, **changes):
    common = dict(
        time=1.0,
        client=client,
        cycle=0,
        samples=10,
        staleness=1,
        status="accepted",
        acc_before=before,
        acc_after=after,
        loss=0.5,
        true=torch.tensor([0.75, 0.25]),
        estimate=torch.tensor([0.75, 0.25], dtype=torch.float64),
        uploaded=100,
        downloaded=200,
        client_compute=30,
        server_compute=4,
    )
    return Exchange(**{**common, **changes})


@pytest.fixture
def recorder(tmp_path):
    out = Recorder(num_clients=4, num_clusters=2, extra=("clamped",))
    out.open(tmp_path, None)
    return out


def flushed(recorder):
    recorder.save()


# ------------------------------------------------------------------------------------------------------------- cells


@EXAMPLES
@given(st.floats(allow_nan=False))
def test_a_float_comes_back_exactly(value):
    back = float(cell(value))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


@EXAMPLES
@given(st.integers())
def test_an_integer_comes_back_exactly(value):
    assert int(cell(value)) == value


def test_none_and_nan_are_empty():
    assert (cell(None), cell(math.nan), cell(0), cell(0.0)) == ("", "", "0", "0.0")


def test_numpy_floats_are_floats():
    """A method's extra number may come from NumPy, whose repr is not a number."""
    assert float(cell(np.float64(0.1))) == 0.1


def test_every_column_of_clients_csv(recorder, tmp_path):
    recorder.add(
        exchange(
            3,
            0.1,
            2 / 3,
            time=12.5,
            cycle=6,
            samples=77,
            staleness=9,
            status="accepted",
            fresh=True,
            label=2,
            loss=1e-300,
            true=torch.tensor([0.5, 0.5]),
            estimate=torch.tensor([0.25, 0.75], dtype=torch.float64),
        ),
        epoch=41,
    )
    flushed(recorder)
    (row,) = read(tmp_path / "clients.csv")
    head = "update,epoch,time,client,cycle,samples,staleness,status,fresh,label,acc_before,acc_after,loss,kl"
    assert ",".join(row) == f"{head},true_0,true_1,est_0,est_1"
    found = {name: row[name] if name == "status" else float(row[name]) for name in row}
    kl = found.pop("kl")
    assert kl == pytest.approx(0.5 * math.log(4 / 3), rel=1e-12)  # .5 ln(.5/.25) + .5 ln(.5/.75)
    assert found == {
        "update": 1,
        "epoch": 41,
        "time": 12.5,
        "client": 3,
        "cycle": 6,
        "samples": 77,
        "staleness": 9,
        "status": "accepted",
        "fresh": 1,
        "label": 2,
        "acc_before": 0.1,
        "acc_after": 2 / 3,
        "loss": 1e-300,
        "true_0": 0.5,
        "true_1": 0.5,
        "est_0": 0.25,
        "est_1": 0.75,
    }


def test_what_is_unknown_is_empty(recorder, tmp_path):
    recorder.add(exchange(0, math.nan, 0.5, status="refused", estimate=None, loss=math.nan), epoch=0)
    flushed(recorder)
    (row,) = read(tmp_path / "clients.csv")
    assert [row[name] for name in ("acc_before", "loss", "kl", "est_0", "est_1")] == [""] * 5
    assert row["status"] == "refused"


# ----------------------------------------------------------------------------------------------------------- summary


def test_the_summary_by_hand(recorder):
    """Client 0 uploads twice: its last counts. Client 3 never does. KL of three exact estimates is zero."""
    recorder.end_session(0, 0.0, [0.2, 0.4])  # before the first update: no part of the mean over the run
    recorder.add(exchange(0, 0.9, 0.9, fresh=True), 1)
    recorder.add(exchange(1, 0.2, 0.3), 2)
    recorder.end_session(2, 2.0, [0.5, 0.7])
    recorder.add(exchange(0, 0.4, 0.6), 3)
    recorder.add(exchange(2, 0.3, 0.6, status="deprecated", estimate=None), 4)
    recorder.add(exchange(1, 0.5, 0.3, status="refused", estimate=None, uploaded=1000), 4)
    recorder.end_session(4, 5.0, [0.6, 1.0])
    summary = recorder.summary()
    # last before: .4 .5 .3, mean .4, variance (0 + .01 + .01)/3; last after: .6 .3 .6, mean .5, variance .02
    expected = {
        "updates": 5,
        "client_acc_before": 0.4,
        "client_acc_before_std": math.sqrt(0.02 / 3),
        "client_acc_after": 0.5,
        "client_acc_after_std": math.sqrt(0.02),
        "client_acc_worst": 0.3,
        "cluster_acc": 0.8,
        "cluster_acc_mean": 0.7,  # of .6 and .8
        "kl": 0.0,
        "refused": 1,
        "undone": 0,
        "upload_bytes": 1400,
        "download_bytes": 1000,
        "client_compute": 150,
        "server_compute": 20,
        "fresh_share": 0.2,
        "deprecated_share": 0.2,
    }
    assert set(summary) == set(expected)
    for name, value in expected.items():
        assert summary[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name
    json.dumps(summary)


def test_the_summary_before_anything_happened(recorder):
    summary = recorder.summary()
    assert [summary[k] for k in ("updates", "client_acc_after", "cluster_acc", "kl")] == [0, None, None, None]


def test_the_mean_kl_counts_estimates_only(recorder):
    sure = torch.tensor([0.5, 0.5], dtype=torch.float64)
    one = exchange(0, 0.5, 0.5, true=torch.tensor([1.0, 0.0]), estimate=sure)  # ln 2
    recorder.add(one, 1)
    recorder.add(exchange(1, 0.5, 0.5, estimate=None), 2)
    recorder.add(exchange(2, 0.5, 0.5, true=torch.tensor([0.5, 0.5]), estimate=sure), 3)  # 0
    assert recorder.summary()["kl"] == pytest.approx(math.log(2) / 2, rel=1e-12)


def test_a_diverged_client_is_not_forgotten(recorder):
    """Its refused upload has no accuracy before, but the model it keeps has one: the mean must not lose it."""
    recorder.add(exchange(0, 0.8, 0.9), 1)
    recorder.add(exchange(1, 0.2, 0.1), 2)
    recorder.add(exchange(1, math.nan, 0.1, status="refused", estimate=None), 2)
    assert recorder.summary()["client_acc_after"] == pytest.approx(0.5, rel=1e-12)


def test_sessions(recorder, tmp_path):
    """A session's means are over its own updates, accuracies over each client's last; totals run on, NaN is no part."""
    recorder.add(exchange(0, 0.2, 0.4, extra={"clamped": 3}), 1)
    recorder.add(exchange(1, math.nan, 0.6, fresh=True, extra={"clamped": 0}), 2)
    first = recorder.end_session(2, 7.5, [0.25, 0.75])
    recorder.add(exchange(2, 0.9, 0.8, status="deprecated", estimate=None), 3)
    second = recorder.end_session(3, 9.0, [])
    flushed(recorder)
    a, b = ({k: float(v) for k, v in row.items() if v} for row in read(tmp_path / "metrics.csv"))
    assert a == first
    assert b == second
    assert {k: a[k] for k in ("update", "epoch", "time")} == {"update": 2, "epoch": 2, "time": 7.5}
    assert a["client_acc_before"] == 0.2
    assert a["client_acc_after"] == pytest.approx(0.5)
    assert (a["fresh_share"], a["deprecated_share"], a["clamped"]) == (0.5, 0.0, 1.5)
    assert (a["cluster_acc"], a["cluster_acc_0"], a["cluster_acc_1"], a["upload_bytes"]) == (0.5, 0.25, 0.75, 200)
    assert (b["client_acc_before"], b["client_acc_after"]) == pytest.approx((0.55, 0.6))  # .2, .9 and .4, .6, .8
    assert (b["client_acc_worst"], b["deprecated_share"]) == (0.4, 1.0)
    assert all(b[name] == pytest.approx(recorder.summary()[name]) for name in ("client_acc_before", "client_acc_after"))
    assert (b["upload_bytes"], b["download_bytes"]) == (300, 600)
    assert "cluster_acc" not in b
    assert "kl" not in b


@pytest.mark.parametrize(("clients", "counted"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (35, 3)])
def test_the_worst_tenth_is_at_least_one_client(clients, counted):
    accuracies = [(7 * i % clients) / clients for i in range(clients)]  # in no order
    assert worst_tenth([math.nan, *accuracies]) == pytest.approx(sum(sorted(accuracies)[:counted]) / counted)
    assert math.isnan(worst_tenth([math.nan]))


# ------------------------------------------------------------------------------------------------------------ resume


def test_a_file_that_was_begun_with_other_columns_goes_on_with_them(tmp_path):
    (tmp_path / "m.csv").write_text("a,b\n1,2\n")
    file = CsvFile(tmp_path / "m.csv", ["b", "new", "a"], [8])
    file.write({"a": 3, "b": 4, "new": 5})
    file.file.close()
    assert (tmp_path / "m.csv").read_text() == "a,b\n1,2\n3,4\n"


def drive(recorder, numbers):
    draw = np.random.default_rng(0)
    for n in range(100):
        values = draw.random(3).tolist()
        if n in numbers:
            recorder.add(exchange(n % 4, values[0], values[1], loss=values[2], extra={"clamped": n % 3}), n + 1)
            if n % 7 == 6:
                recorder.end_session(n + 1, float(n), [values[2], values[0]])


def test_a_resumed_run_leaves_the_same_files(tmp_path):
    """Saved in the middle of a session; what was written after is cut off and written again."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    straight = Recorder(4, 2, ("clamped",))
    straight.open(whole, None)
    drive(straight, range(40))
    flushed(straight)

    killed = Recorder(4, 2, ("clamped",))
    killed.open(parts, None)
    drive(killed, range(24))
    save_checkpoint(tmp_path / "c.ckpt", {"recorder": killed.save()})
    drive(killed, range(24, 33))
    flushed(killed)
    with open(parts / "clients.csv", "a", encoding="utf-8") as file:
        file.write("33,33,half a li")

    saved = load_checkpoint(tmp_path / "c.ckpt")["recorder"]
    resumed = Recorder(4, 2, ("clamped",))
    resumed.restore(saved)
    resumed.open(parts, saved["positions"])
    drive(resumed, range(24, 40))
    flushed(resumed)
    for name in ("clients.csv", "metrics.csv"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    assert resumed.summary() == straight.summary()
    assert len(read(whole / "clients.csv")) == 40
    assert len(read(whole / "metrics.csv")) == 5


def test_what_was_saved_does_not_change_afterwards(recorder):
    recorder.add(exchange(0, 0.2, 0.4), 1)
    saved = recorder.save()
    recorder.add(exchange(0, 0.9, 0.9, status="refused"), 2)
    recorder.end_session(2, 2.0, [0.5, 0.5])
    fresh = Recorder(4, 2, ("clamped",))
    fresh.restore(saved)
    summary = fresh.summary()
    assert (summary["updates"], summary["refused"], summary["upload_bytes"]) == (1, 0, 100)
    assert summary["client_acc_after"] == 0.4


@pytest.mark.parametrize("harm", ["missing", "short"])
def test_a_lost_csv_is_the_users_to_know(tmp_path, harm):
    """A file that no longer reaches the checkpoint cannot be gone on with: no zero bytes, no traceback."""
    path = tmp_path / "clients.csv"
    file = CsvFile(path, ["a"], None)
    for n in range(5):
        file.write({"a": n})
    position = file.position()
    if harm == "missing":
        path.unlink()
    else:
        path.write_text("a\n0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"clients\.csv"):
        CsvFile(path, ["a"], position)


def test_other_ranks_write_nothing(tmp_path):
    recorder = Recorder(4, 2, ())
    recorder.open(None, None)
    recorder.add(exchange(0, 0.2, 0.4), 1)
    recorder.end_session(1, 1.0, [0.5, 0.5])
    recorder.save()
    assert recorder.summary()["updates"] == 1
    assert not list(tmp_path.iterdir())


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"a": 0.1, "b": None})
    assert json.loads(path.read_text()) == {"a": 0.1, "b": None}
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 0.1, "b": None}


# ------------------------------------------------------------------------------------------------------------- gauges


def gauged(tmp_path):
    out = Recorder(num_clients=4, num_clusters=1, extra=("client_acc", "delta", "clusters"))
    out.open(tmp_path, None)
    return out


def test_gauges_are_shown_as_they_are_and_the_last_are_in_the_summary(tmp_path):
    recorder = gauged(tmp_path)
    recorder.end_session(0, 0.0, [], {"client_acc": 0.1, "delta": 0.1, "clusters": 2.0})
    recorder.add(exchange(0, math.nan, math.nan, estimate=None), 1)
    shown = recorder.end_session(1, 1.5, [], {"client_acc": 0.25, "delta": 0.2, "clusters": math.nan})
    flushed(recorder)
    first, second = read(tmp_path / "metrics.csv")
    assert [first[k] for k in ("client_acc", "delta", "clusters")] == ["0.1", "0.1", "2.0"]
    assert [second[k] for k in ("client_acc", "delta", "clusters", "time")] == ["0.25", "0.2", "", "1.5"]
    assert shown["client_acc"] == 0.25
    summary = recorder.summary()
    assert (summary["client_acc"], summary["delta"], summary["clusters"]) == (0.25, 0.2, None)
    assert summary["client_acc_after"] is None  # nobody's own accuracy was measured


@pytest.mark.parametrize("rows", [1, 4, 5, 8])
def test_client_acc_last_is_the_mean_of_the_last_five_rows(rows, tmp_path):
    recorder = gauged(tmp_path)
    values = [0.1 * n * n for n in range(rows)]
    for n, value in enumerate(values):
        recorder.end_session(n, float(n), [], {"client_acc": value})
    last = values[-5:]
    assert recorder.summary()["client_acc_last"] == pytest.approx(sum(last) / len(last), rel=1e-12)


def test_without_gauges_the_summary_has_none(recorder):
    recorder.add(exchange(0, 0.2, 0.4), 1)
    recorder.end_session(1, 1.0, [0.5, 0.5])
    assert not {"client_acc", "client_acc_last"} & set(recorder.summary())


def test_gauges_survive_a_checkpoint(tmp_path):
    """The five rows that count may lie on both sides of it."""
    whole = gauged(tmp_path)
    for n in range(7):
        whole.end_session(n, float(n), [], {"client_acc": n / 7})
        if n == 3:
            save_checkpoint(tmp_path / "c.ckpt", {"recorder": whole.save()})
    resumed = Recorder(4, 1, ("client_acc", "delta", "clusters"))
    saved = load_checkpoint(tmp_path / "c.ckpt")["recorder"]
    resumed.restore(saved)
    assert resumed.summary()["client_acc"] == 3 / 7
    resumed.open(tmp_path, saved["positions"])
    for n in range(4, 7):
        resumed.end_session(n, float(n), [], {"client_acc": n / 7})
    assert resumed.summary() == whole.summary()
