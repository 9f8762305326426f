"""A step that would leave a state not finite is taken back: models, tables, counters; and it is counted and named."""

import csv
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from replay import begun
from upload_methods import COMMON, METHODS, Breaker, make

from flcluster.algorithms import CA2FL, FedAvg, Scaffold
from flcluster.cli import main
from flcluster.engine.loops.guard import broken
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.layout import all_finite

TINY = str(Path(__file__).parents[3] / "tiny.yaml")
ROUNDS = {"local_epochs": 1, "batch_size": 16, "rounds": 6}


@dataclass(frozen=True, kw_only=True)
class SpoiltUploads(CA2FL):
    """Makes its own model infinite at the first upload of a client, after it has written its tables."""

    bad: int = 2

    def upload(self, state, up, fed):
        after, reply = super().upload(state, up, fed)
        if (up.client, up.cycle) == (self.bad, 1):
            after = replace(after, model=after.model + math.inf)
        return after, reply


@dataclass(frozen=True, kw_only=True)
class SpoiltReply(CA2FL):
    """Sends one client a model with a NaN; the state stays finite."""

    bad: int = 2

    def upload(self, state, up, fed):
        after, reply = super().upload(state, up, fed)
        return after, replace(reply, row=reply.row * math.nan) if (up.client, up.cycle) == (self.bad, 1) else reply


@dataclass(frozen=True, kw_only=True)
class SpoiltRounds(Scaffold):
    """Makes its own model infinite in its third round, after it has written its clients' controls."""

    def step(self, state, t, fed):
        after, done = super().step(state, t, fed)
        return (replace(after, models=after.models * math.inf) if t == 2 else after), done


def rows(loop):
    return {name: [t[i].tolist() for i in range(len(t))] for name, t in loop.fed.bank.tables.items()}


def values(state):
    return {name: v.tolist() if isinstance(v, torch.Tensor) else v for name, v in vars(state).items()}


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "file"])
@pytest.mark.parametrize("spoilt", [SpoiltUploads, SpoiltReply])
def test_an_upload_that_would_spoil_the_state_is_as_good_as_refused(spoilt, budget, federation):
    """The same run in which that upload was refused as it came in has the same states, tables, replies, epochs."""
    settings = METHODS["ca2fl"]()[0]
    own = {"buffer_size": 5, "server_lr": 0.8}
    loop = make(federation, spoilt(**COMMON, **own), budget=budget)
    at = next(n for n, pair in enumerate(zip(loop.clients, loop.cycles, strict=True)) if pair == (2, 1))
    other = make(federation, settings, budget=budget, callbacks=[Breaker({at}, lambda row: row * math.nan)])
    for n in range(30):
        ((one,), (two,)) = loop.advance(), other.advance()
        assert one.status == ("undone" if n == at else "accepted")
        assert two.status == ("refused" if n == at else "accepted")
        assert values(loop.state) == values(other.state) and rows(loop) == rows(other)
        assert (loop.epoch, one.acc_after) == (other.epoch, two.acc_after)
    (told,) = loop.troubles
    assert told.startswith("undid the upload of client 2: ") and "would not be finite" in told


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "file"])
def test_a_round_that_would_spoil_the_state_is_taken_back(budget, federation, blobs):
    fed = federation(blobs(), budget=budget)
    loop = begun(SpoiltRounds(**ROUNDS, participation=0.5), fed)
    for _ in range(2):
        loop.advance()
    state, tables, time = values(loop.state), rows(loop), loop.time
    exchanges = loop.advance()
    assert {e.status for e in exchanges} == {"undone"} and len(exchanges) == 3
    assert values(loop.state) == state and rows(loop) == tables
    assert (loop.position, loop.time >= time) == (3, True)
    (told,) = loop.troubles
    assert told.startswith("undid rounds 3 (clients ") and "models would not be finite" in told
    assert {e.status for e in loop.advance()} == {"accepted"}
    assert values(loop.state) != state


@pytest.mark.parametrize("size", [3e38, -1e20])
def test_a_number_whose_square_overflows_is_refused_as_it_comes_in(size, federation):
    """Finite in itself, but every distance to it and soon every mean with it would be infinite."""
    algorithm = METHODS["cdfl"]()[0]

    def huge(row):
        row[0] = size
        return row

    loop = make(federation, algorithm, callbacks=[Breaker({9}, huge)])
    statuses = [loop.advance()[0].status for _ in range(20)]
    assert statuses[9] == "refused" and set(statuses) - {"refused"} <= {"accepted", "deprecated"}
    assert all_finite(loop.state.clusters) and loop.state.clusters.abs().max() < 1e3


def test_what_is_finite():
    assert all_finite(torch.tensor([1e18, -1e18])) and all_finite(torch.zeros(0))
    for bad in (math.nan, math.inf, -math.inf, 3e38, -2e19):
        assert not all_finite(torch.tensor([[0.0, bad], [1.0, 2.0]]))


def test_gaps_and_what_was_not_finite_before_do_not_count():
    finite, gap = torch.ones(3), torch.tensor([1.0, math.nan, 2.0])
    assert broken({"a": finite}, {"a": gap}) == "a"
    assert broken({"a": gap}, {"a": gap.clone()}) is None
    assert broken({"a": finite}, {"a": gap}, gaps={"a"}) is None
    assert broken({"m": {"v": finite}, "n": [1.0]}, {"m": {"v": gap}, "n": [1.0]}) == "v"
    assert broken([finite, finite], [finite, gap]) == "1"
    assert broken(None, (gap, None), name="reply") == "reply[0]"
    assert broken({"i": torch.ones(2, dtype=torch.int64), "s": "x", "f": 1}, {"i": torch.zeros(1), "s": "y"}) is None


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "file"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_bank_undoes_what_changed_since(tmp_path, budget, shared):
    """Rows that were there, rows that were not, a row written twice, a table that is new; then a checkpoint."""
    bank = Bank(tmp_path / f"{budget}", 3, budget, shared)
    table = bank.table("own", 4)
    table[0], table[1] = torch.ones(3), torch.full((3,), 2.0)
    bank.save()
    bank.committed()
    table[1] = torch.full((3,), 5.0)
    bank.next_step()
    before = [table[i].tolist() for i in range(4)]
    with bank.tracked():
        table[0], table[1], table[2] = torch.zeros(3), torch.full((3,), 9.0), torch.full((3,), 7.0)
        table[1] = torch.full((3,), 8.0)
        bank.table("new", 2)[0] = torch.ones(3)
        bank.undo()
    assert [table[i].tolist() for i in range(4)] == before
    assert [i in table for i in range(4)] == [True, True, False, False] and 0 not in bank.table("new", 2)
    saved = bank.save()
    bank.committed()
    for n in range(20):  # slots that came free are used again, and none of them twice
        bank.next_step()
        with bank.tracked():
            table[n % 4] = torch.full((3,), float(n))
    assert [table[i].tolist() for i in range(4)] == [[float(n)] * 3 for n in (16, 17, 18, 19)]
    back = Bank(tmp_path / f"{budget}", 3, budget, shared)
    back.restore(saved)
    assert [back.table("own", 4)[i].tolist() for i in range(4)] == before


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "file"])
def test_mixed_rows_are_not_taken_back_but_said_so(tmp_path, budget):
    """Gossip replaces all rows in place: to remember them would take the memory of another table."""
    table = Bank(tmp_path, 3, budget).table("own", 2)
    table[0], table[1] = torch.ones(3), torch.zeros(3)
    table.begin()
    table.rewrite(np.array([0, 1]), np.array([0, 1]), lambda rows: rows + 1, 2)
    with pytest.raises(UserError, match="cannot be taken back: go on from the last checkpoint"):
        table.undo()
    table.keep()
    table.begin()  # in the next step it can be again
    table[0] = torch.full((3,), 9.0)
    table.undo()
    assert [table[i].tolist() for i in range(2)] == [[2.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("method", ["FedAvg", "CDFL"])
def test_a_run_that_learnt_nothing_says_so(method, capsys):
    """A learning rate at which every local training ends in numbers that are not finite."""
    flags = ["--algorithm", method, "--model.optimizer", "sgd", "--model.lr", "1e30", "--engine.progress", "true"]
    flags += ["--algorithm.rounds", "2"] if method == "FedAvg" else ["--algorithm.pretrain_epochs", "0"]
    assert main(["fit", "--config", TINY, *flags, "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["refused"] == summary["updates"] > 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"nothing was learnt: none of {summary['updates']} updates" in said and "model.lr" in said


def test_first_models_that_are_not_finite_are_refused(capsys):
    """Weights of one's own with a NaN in them."""
    from flcluster.modules import MLP

    weights = MLP(10, (1, 8, 8), hidden=[16]).state_dict()
    next(iter(weights.values())).fill_(math.nan)
    torch.save(weights, "mine.pt")
    flags = ["--algorithm", "FedAvg", "--algorithm.rounds", "2", "--model_start", "mine.pt"]
    assert main(["fit", "--config", TINY, *flags, "--run_dir", "run"]) == 2
    assert "the first models are not finite" in capsys.readouterr().err


def test_files_of_a_version_without_a_column_are_gone_on_with(capsys):
    """The columns of a file that is gone on with are its own."""
    assert main(["fit", "--config", TINY, "--run_dir", "run", "--engine.max_updates", "6"]) == 0
    path = Path("run/metrics.csv")
    assert "undone" in path.read_text().splitlines()[0]
    from flcluster.records.csv_file import CsvFile

    old = Path("old.csv")
    old.write_text("update,refused\n1,0\n")
    file = CsvFile(old, ["update", "refused", "undone"], (old.stat().st_size,))
    file.write({"update": 2, "refused": 1, "undone": 5})
    file.file.close()
    assert list(csv.reader(old.open())) == [["update", "refused"], ["1", "0"], ["2", "1"]]


def test_fedavg_is_not_undone_without_reason(federation, blobs):
    loop = begun(FedAvg(**ROUNDS), federation(blobs()))
    for _ in range(6):
        assert {e.status for e in loop.advance()} == {"accepted"}
    assert loop.troubles == []
