"""Rows in memory and in files: the same answers, a bounded file, and no mixture of two moments after a kill."""

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.errors import UserError
from flcluster.federation.bank import Bank, FileTable, Table
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint

COUNT, WIDTH = 9, 5
EXAMPLES = settings(deadline=None, max_examples=40, database=None)


def row(value):
    return torch.arange(WIDTH) + float(value)


def contents(table, count=COUNT):
    return [table[i].tolist() for i in range(count)]


class Model:
    """What a table should hold: a plain dict."""

    def __init__(self):
        self.rows = {}

    def contents(self, count=COUNT):
        return [(self.rows[i] if i in self.rows else torch.zeros(WIDTH)).tolist() for i in range(count)]


def write(table, model, index, value):
    table[index] = row(value)
    model.rows[index] = row(value)


# --------------------------------------------------------------------------------------------------- same behaviour

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, COUNT - 1)),
        st.tuples(st.just("checkpoint"), st.just(0)),
        st.tuples(st.just("resume"), st.just(0)),
        st.tuples(st.just("next step"), st.just(0)),
    ),
    max_size=60,
)


@EXAMPLES
@given(steps)
def test_both_tables_hold_what_was_written(tmp_path_factory, steps):
    """Writes, checkpoints (save, then committed) and resumes from the last one, in any order, against plain dicts."""
    path = tmp_path_factory.mktemp("bank") / "t.rows"
    for make in (
        lambda: Table(COUNT, WIDTH),
        lambda: FileTable(path, COUNT, WIDTH),
        lambda: FileTable(path, COUNT, WIDTH, shared=True),
    ):
        path.unlink(missing_ok=True)
        table, model = make(), Model()
        saved, at_save = table.save(), Model()
        table.committed()
        for n, (what, index) in enumerate(steps):
            if what == "write":
                write(table, model, index, n + 1)
            elif what == "checkpoint":
                saved = copied(table.save())
                table.committed()
                at_save.rows = dict(model.rows)
            elif what == "next step":
                table.next_step()
            else:
                table = make()
                table.restore(saved)
                model.rows = dict(at_save.rows)
            assert contents(table) == model.contents()
            assert [i in table for i in range(COUNT)] == [i in model.rows for i in range(COUNT)]


def copied(saved):
    """What a checkpoint file would give back: nothing shared with the table."""
    return {
        name: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in saved.items()
    }


@pytest.fixture(params=["memory", "file"])
def table(request, tmp_path):
    return Table(COUNT, WIDTH) if request.param == "memory" else FileTable(tmp_path / "t.rows", COUNT, WIDTH)


def test_unwritten_rows_are_zeros(table):
    assert table[3].tolist() == [0.0] * WIDTH
    assert 3 not in table
    table[2] = row(1)
    assert table[3].tolist() == [0.0] * WIDTH
    assert 3 not in table
    assert 2 in table


def test_a_write_is_a_copy(table):
    given_row = row(1)
    table[0] = given_row
    given_row.zero_()
    assert table[0].tolist() == row(1).tolist()


def test_what_was_read_does_not_change_with_a_later_write(table):
    table[0] = row(1)
    read = table[0]
    table[0] = row(2)
    assert read.tolist() == row(1).tolist()


def test_a_row_that_needs_a_gradient_can_be_written(table):
    table[0] = row(1).requires_grad_()
    assert not table[0].requires_grad


def test_extreme_values_survive(table):
    values = torch.tensor([float("inf"), -0.0, 1e-45, 3.4e38, float("nan")])
    table[1] = values
    assert table[1].numpy().tobytes() == values.numpy().tobytes()


# ------------------------------------------------------------------------------------------------------------ kill -9


def killed(table, saved, tmp_path):
    """Copy the file as a kill would leave it, and resume from a saved dict in a new table."""
    left = tmp_path / "left.rows"
    if table.path.exists():
        shutil.copy(table.path, left)
    else:
        left.unlink(missing_ok=True)
    fresh = FileTable(left, table.count, table.width)
    fresh.restore(saved)
    return fresh


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_process_finds_the_last_checkpoint(tmp_path, seed, shared):
    """At any moment the file has every row of the last two committed checkpoints, however much was written since."""
    draw = np.random.default_rng(seed)
    table, model = FileTable(tmp_path / "t.rows", COUNT, WIDTH, shared), Model()
    saved, at_save = copied(table.save()), model.contents()
    before, at_before = saved, at_save
    for n in range(300):
        if draw.random() < 0.5:
            table.next_step()
        write(table, model, int(draw.integers(COUNT)), n + 1)
        assert contents(killed(table, saved, tmp_path)) == at_save
        assert contents(killed(table, before, tmp_path)) == at_before
        if draw.random() < 0.02:  # killed for real, and gone on with
            table = FileTable(table.path, COUNT, WIDTH, shared)
            table.restore(saved)
            model.rows = {i: torch.tensor(at_save[i]) for i in table.slot}
        if draw.random() < 0.1:
            new = copied(table.save())
            assert contents(killed(table, saved, tmp_path)) == at_save  # killed before the rename
            assert contents(killed(table, new, tmp_path)) == model.contents()  # or right after it
            table.committed()
            before, at_before = saved, at_save
            saved, at_save = new, model.contents()


def test_writes_between_save_and_committed(tmp_path):
    """A checkpoint that was saved but not yet declared committed is whole too, and so is the one before it."""
    table, model = FileTable(tmp_path / "t.rows", COUNT, WIDTH), Model()
    for i in range(COUNT):
        write(table, model, i, i + 1)
    first, at_first = copied(table.save()), model.contents()
    table.committed()
    for i in range(0, COUNT, 2):
        write(table, model, i, 100 + i)
    second, at_second = copied(table.save()), model.contents()
    for i in range(COUNT):
        write(table, model, i, 200 + i)
    assert contents(killed(table, first, tmp_path)) == at_first
    assert contents(killed(table, second, tmp_path)) == at_second
    table.committed()
    for i in range(COUNT):
        write(table, model, i, 300 + i)
    assert contents(killed(table, second, tmp_path)) == at_second
    assert contents(table) == model.contents()


def test_a_resumed_table_protects_the_checkpoint_it_came_from(tmp_path):
    """Killed, resumed, written to and killed again before any new checkpoint."""
    table, model = FileTable(tmp_path / "t.rows", COUNT, WIDTH), Model()
    for i in range(COUNT):
        write(table, model, i, i + 1)
    saved = copied(table.save())
    table.committed()
    write(table, model, 0, 50)
    at_save = [row(i + 1).tolist() for i in range(COUNT)]
    for attempt in range(3):
        resumed = FileTable(table.path, COUNT, WIDTH)
        resumed.restore(saved)
        assert contents(resumed) == at_save
        for i in range(COUNT):
            resumed[i] = row(1000 * (attempt + 1) + i)
        assert contents(killed(resumed, saved, tmp_path)) == at_save


def test_another_table_on_the_same_file_sees_the_same_writes(tmp_path):
    """Two ranks of one machine: both make the same writes, and either may be ahead with growing the file."""
    a, b = (FileTable(tmp_path / "t.rows", 100, WIDTH) for _ in range(2))
    for i in range(100):
        a[i] = row(i)
    for i in range(100):
        b[i] = row(i)
        assert b[i].tolist() == row(i).tolist()
    assert a.slot == b.slot
    assert contents(a, 100) == contents(b, 100) == [row(i).tolist() for i in range(100)]


def test_a_rank_that_is_behind_still_finds_its_rows(tmp_path):
    """Within a step another rank may have replaced a row already, several times; the slots agree again afterwards."""
    ahead, behind = (FileTable(tmp_path / "t.rows", COUNT, WIDTH, shared=True) for _ in range(2))
    draw = np.random.default_rng(0)
    held = [[0.0] * WIDTH] * COUNT
    for step in range(60):
        writes = [(int(i), 10 * step + j) for j, i in enumerate(draw.integers(COUNT, size=4))]
        for table in (ahead, behind):
            table.next_step()
        for index, value in writes:
            ahead[index] = row(value)
        assert contents(behind) == held
        for index, value in writes:
            behind[index] = row(value)
            held[index] = row(value).tolist()
        assert contents(ahead) == contents(behind) == held
        assert ahead.slot == behind.slot
        if step % 7 == 6:
            for table in (ahead, behind):
                table.save()
                table.committed()
    assert ahead.slots <= 2 * COUNT + 16


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("count", [9, 60])
def test_the_file_stays_bounded(tmp_path, count, shared):
    """Three slots a row (one now, one for each of two checkpoints), and what the last growth added (or 16)."""
    draw = np.random.default_rng(0)
    table = FileTable(tmp_path / "t.rows", count, WIDTH, shared)
    for n in range(2000):
        table.next_step()
        table[int(draw.integers(count))] = row(n)
        if n % 97 == 0:
            table.save()
            table.committed()
    assert table.slots <= 2 * count + max(16, count)
    assert table.path.stat().st_size == table.slots * WIDTH * 4


@pytest.mark.parametrize("seed", range(3))
def test_every_flipped_bit_of_a_row_is_noticed(tmp_path, seed):
    """In a row that the checkpoint needs; what lies in free slots is nobody's."""
    draw = np.random.default_rng(seed)
    bank = Bank(tmp_path, WIDTH, 0)
    table = bank.table("own", COUNT)
    for n in range(30):
        table[int(draw.integers(COUNT))] = row(n)
        if n % 7 == 0:
            bank.save()
            bank.committed()
    saved = copied(bank.save())
    bank.committed()
    table[0] = row(99)
    assert Bank.damage(tmp_path, saved) is None
    whole, needed = table.path.read_bytes(), set(saved["own"]["slot"].values())
    for bit in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        table.path.write_bytes(damaged)
        matters = bit // 8 // (4 * WIDTH) in needed
        assert (Bank.damage(tmp_path, saved) is not None) == matters
    table.path.write_bytes(whole[:-1])
    assert "cut short" in Bank.damage(tmp_path, saved)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a\\\\b"])
def test_a_table_outside_the_folder_is_refused(tmp_path, name):
    saved = {name: {"count": 1, "width": WIDTH, "file": True, "slot": {}, "slots": 0}}
    with pytest.raises(UserError, match="no run of flcluster makes"):
        Bank(tmp_path, WIDTH, 0).restore(saved)


def test_without_rows_there_is_no_file(tmp_path):
    table = FileTable(tmp_path / "t.rows", COUNT, WIDTH)
    saved = table.save()
    table.committed()
    other = FileTable(tmp_path / "t.rows", COUNT, WIDTH)
    other.restore(saved)
    assert contents(other) == [[0.0] * WIDTH] * COUNT
    assert not table.path.exists()


@pytest.mark.parametrize("harm", ["missing", "short"])
def test_a_missing_or_short_file_is_the_users_to_know(tmp_path, harm):
    table = FileTable(tmp_path / "t.rows", COUNT, WIDTH)
    table[0] = row(1)
    saved = table.save()
    table.committed()
    if harm == "missing":
        table.path.unlink()
    else:
        with open(table.path, "r+b") as file:
            file.truncate(table.slots * WIDTH * 4 - 1)
    with pytest.raises(UserError, match=r"t\.rows"):
        FileTable(table.path, COUNT, WIDTH).restore(saved)


# -------------------------------------------------------------------------------------------------------------- bank


def test_the_budget_decides(tmp_path):
    """100 bytes: 4 rows of 5 floats (80 bytes) fit, a second table of 2 rows (40) does not, one of 1 row (20) does."""
    bank = Bank(tmp_path, WIDTH, 100)
    first, second, third = bank.table("a", 4), bank.table("b", 2), bank.table("c", 1)
    assert [isinstance(t, FileTable) for t in (first, second, third)] == [False, True, False]
    assert bank.table("a", 4) is first
    second[0] = row(1)
    assert (tmp_path / "b.rows").stat().st_size >= WIDTH * 4
    assert not (tmp_path / "a.rows").exists()


def test_a_bank_comes_back_from_a_checkpoint(tmp_path):
    """Through a real checkpoint file; tables stay in memory or in their file whatever the new budget says."""
    bank = Bank(tmp_path, WIDTH, 80)
    memory, file = bank.table("a", 4), bank.table("b", COUNT)
    for i in range(4):
        memory[i], file[2 * i] = row(i), row(10 + i)
    save_checkpoint(tmp_path / "c.ckpt", {"bank": bank.save()})
    bank.committed()
    memory[0], file[0] = row(70), row(80)
    back = Bank(tmp_path, WIDTH, 0)
    back.restore(load_checkpoint(tmp_path / "c.ckpt")["bank"])
    assert not isinstance(back.table("a", 4), FileTable)
    assert isinstance(back.table("b", COUNT), FileTable)
    assert contents(back.table("a", 4), 4) == [row(i).tolist() for i in range(4)]
    assert [back.table("b", COUNT)[2 * i].tolist() for i in range(4)] == [row(10 + i).tolist() for i in range(4)]
    assert 1 not in back.table("b", COUNT)


def test_restored_tables_count_against_the_budget(tmp_path):
    bank = Bank(tmp_path, WIDTH, 100)
    bank.table("a", 4)[0] = row(1)
    saved = bank.save()
    back = Bank(tmp_path, WIDTH, 100)
    back.restore(saved)
    assert isinstance(back.table("b", 4), FileTable)
