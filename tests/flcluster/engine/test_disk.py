"""A full disk and folders that are closed: one line, nothing lost, and the run goes on once there is room."""

import errno
import os
from pathlib import Path

import pytest
import torch
from try_disk import Small

from flcluster import files
from flcluster.cli import main
from flcluster.errors import UnwritableError
from flcluster.federation.tables import FileTable
from flcluster.files import replacing, reserve
from flcluster.records.csv_file import CsvFile
from flcluster.records.tensors import Told

TINY = str(Path(__file__).parents[2] / "tiny.yaml")
FULL = OSError(errno.ENOSPC, "No space left on device")


def go(folder, *flags):
    return main(["fit", "--run_dir", folder, *(flags or ("--ckpt_path", "last"))])


def numbers(folder):
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


def failing(function, after, on=lambda *given: True):
    """The function, until it has been called so often; from then on the disk is full."""
    left = [after]

    def call(*given, **named):
        if on(*given):
            left[0] -= 1
        if left[0] < 0 and on(*given):
            raise FULL
        return function(*given, **named)

    return call


WRITES = {
    "checkpoint": (Told, "write", 40, lambda *given: True, "last.ckpt"),
    "rows": (os, "fsync", 12, lambda *given: True, ""),
    "tables": (os, "posix_fallocate", 1, lambda *given: True, ".rows"),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_full_disk_is_told_in_one_line_and_the_run_goes_on_bit_for_bit(what, capsys):
    place, name, after, on, file = WRITES[what]
    flags = ["--config", TINY, "--engine.checkpoint_minutes", "0", "--engine.memory_gb", "0", "--algorithm", "CA2FL"]
    assert go("whole", *flags) == 0
    with pytest.MonkeyPatch.context() as full:
        full.setattr(place, name, failing(getattr(place, name), after, on))
        assert go("cut", *flags) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and file in said[0] and "the disk is full: make room" in said[0]
    assert not list(Path("cut").rglob("*.tmp"))
    assert go("cut", *([] if files.has_checkpoint(Path("cut")) else flags)) == 0
    assert numbers("cut") == numbers("whole")


def test_rows_that_find_no_room_are_told_with_their_file(tmp_path):
    """A real one: every write to /dev/full finds no room."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    (tmp_path / "clients.csv").symlink_to("/dev/full")
    file = CsvFile(tmp_path / "clients.csv", ["a"], None)
    file.write({"a": 1})
    with pytest.raises(UnwritableError, match=r"clients\.csv cannot be written: the disk is full: make room"):
        file.flush()
    file.close()


def test_a_file_that_is_reserved_has_its_room_on_the_disk(tmp_path, monkeypatch):
    """Also where the system cannot reserve; and it never gets shorter."""
    for way in ("fallocate", "not on this file system", "not on this system"):
        path = tmp_path / way
        if way == "not on this file system":
            monkeypatch.setattr(
                os, "posix_fallocate", lambda *given: (_ for _ in ()).throw(OSError(errno.EINVAL, "no"))
            )
        elif way == "not on this system":
            monkeypatch.delattr(os, "posix_fallocate")
        path.write_bytes(b"kept")
        reserve(path, 3_000_000)
        assert path.stat().st_size == 3_000_000 and path.stat().st_blocks * 512 >= 2_900_000
        assert path.read_bytes()[:5] == b"kept\0"
        reserve(path, 10)
        assert path.stat().st_size == 3_000_000


def test_a_table_says_that_there_is_no_room_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", failing(os.posix_fallocate, 0))
    table = FileTable(tmp_path / "a.rows", 4, 10)
    with pytest.raises(UnwritableError, match=r"a\.rows cannot be written: the disk is full"):
        table[0] = torch.ones(10)


def test_an_error_of_another_file_is_not_told_as_this_ones(tmp_path):
    with pytest.raises(PermissionError), replacing(tmp_path / "mine"):
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/its")
    told = r"mine cannot be written: you may not write to its folder"
    with pytest.raises(UnwritableError, match=told), replacing(tmp_path / "mine") as draft:
        raise PermissionError(errno.EACCES, "Permission denied", str(draft))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_on_a_disk_that_is_really_full():
    with Small.or_skip() as small:
        assert small.problems(range(8_000, 300_000, 40_000)) == []
