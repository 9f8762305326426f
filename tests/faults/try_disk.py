"""Fill a small disk under runs and commands, and close it: ``python tests/faults/try_disk.py [STEP]``, as root.

At every amount of room a run either finishes or says in one line what cannot be written, and with room again it goes on
to the same bits; commands say it in one line and leave nothing half-written; a logger on a full disk is switched off.
"""

import contextlib
import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import verdict

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "offline")
TINY = str(Path(__file__).parents[1] / "tiny.yaml")
FIT = ["--config", TINY, "--algorithm", "CA2FL", "--engine.checkpoint_minutes", "0", "--engine.memory_gb", "0"]
SIZE = 2_000_000
LOGGERS = ("CSVLogger", "TensorBoardLogger", "WandbLogger")


def command(*words):
    """Return the exit code of a command and what it said; a traceback has the code None."""
    from flcluster.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
        except BaseException:
            return None, said.getvalue() + traceback.format_exc()
    gc.collect()  # what is still mapped of files that were removed takes room on the disk
    return code, said.getvalue()


def numbers(folder):
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


class Small:
    """A disk of 2 MB."""

    def __init__(self):
        self.place = Path(tempfile.mkdtemp())
        self.tried = 0
        options = f"size={SIZE}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.place], check=True, capture_output=True)

    @classmethod
    def or_skip(cls):
        """Skip the test that asks where nothing can be mounted."""
        import pytest

        try:
            return cls()
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs to mount a small disk")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.place], check=False)
        shutil.rmtree(self.place, ignore_errors=True)

    def leave(self, room):
        """Take all of the disk but some bytes."""
        ballast = self.place / "ballast"
        ballast.unlink(missing_ok=True)
        free = shutil.disk_usage(self.place).free
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            file.write(bytes(max(0, free - room)))

    def free(self):
        (self.place / "ballast").unlink(missing_ok=True)

    def problems(self, rooms):
        """Return what is wrong, of runs at these amounts of room and of everything else."""
        whole = Path(tempfile.mkdtemp()) / "whole"
        assert command("fit", *FIT, "--run_dir", whole)[0] == 0
        found = [why for why in [self.closed()] if why]  # first: it needs a disk on which nothing is open
        found += [why for room in rooms if (why := self.run_with(room, whole))]
        found += [why for name in LOGGERS if (why := self.logger_on(name, whole))]
        found += [why for words in self.commands(whole) if (why := self.without_room(*words))]
        shutil.rmtree(whole.parent)
        return found

    def run_with(self, room, whole):
        self.tried += 1
        run = self.place / "run"
        shutil.rmtree(run, ignore_errors=True)
        self.leave(room)
        code, said = command("fit", *FIT, "--run_dir", run, "--ckpt_path", "auto")
        self.free()
        if code not in (0, 2) or (code == 2 and (said.count("\n") != 1 or "the disk is full" not in said)):
            return f"room for {room} bytes: exit code {code}: {said}"
        code, said = command("fit", *FIT, "--run_dir", run, "--ckpt_path", "auto")
        same = code == 0 and numbers(run) == numbers(whole)
        shutil.rmtree(run, ignore_errors=True)
        return None if same else f"room for {room} bytes: does not go on, or to other numbers: {code} {said}"

    def logger_on(self, name, whole):
        """A logger writes to the full disk, the run to another."""
        self.tried += 1
        self.leave(0)
        run = whole.with_name(name)
        flags = ["--logger", name, "--logger.save_dir", self.place / name]
        code, said = command("fit", *FIT, "--run_dir", run, "--engine.progress", "true", *flags)
        self.free()
        shutil.rmtree(self.place / name, ignore_errors=True)
        quiet = name == "WandbLogger"  # writes in a process of its own, which does not tell
        if code != 0 or numbers(run) != numbers(whole) or not (quiet or said.count(f"the logger {name} failed") == 1):
            return f"{name} on a full disk: exit code {code}: {said}"
        return None

    def commands(self, whole):
        yield "export", whole, "--cluster", "0", "--output", self.place / "a.ckpt"
        yield "export", whole, "--cluster", "0", "--format", "safetensors", "--output", self.place / "a.safetensors"
        yield "predict", whole, "--cluster", "0", "--output", self.place / "a.csv"
        yield "predict", whole, "--cluster", "0", "--output", self.place / "a.pt"
        yield "report", whole, "--html", self.place / "a.html"
        yield "report", whole, "--output", self.place / "figures"
        yield "gather", whole, "--output", self.place / "a.csv"
        yield "data", "--config", TINY, "--output", self.place / "a.png"

    def without_room(self, *words):
        self.tried += 1
        self.leave(0)
        code, said = command(*words)
        left = [path.name for path in self.place.rglob("*") if path.is_file() and path.name != "ballast"]
        self.free()
        shutil.rmtree(self.place / "figures", ignore_errors=True)
        if code != 2 or said.strip().count("\n") > 40 or "the disk is full" not in said or left:
            return f"{words[0]} on a full disk: exit code {code}, left {left}: {said[-500:]}"
        return None

    def closed(self):
        self.tried += 1
        subprocess.run(["mount", "-o", "remount,ro", self.place], check=True)
        code, said = command("fit", *FIT, "--run_dir", self.place / "run")
        subprocess.run(["mount", "-o", "remount,rw", self.place], check=True)
        told = said.count("\n") == 1 and str(self.place) in said and "you may not write to its folder" in said
        return None if code == 2 and told else f"a closed folder: exit code {code}: {said}"


def main():
    """Try, count, and show what is wrong."""
    with Small() as small:
        found = small.problems(range(0, 400_000, int(sys.argv[1]) if len(sys.argv) > 1 else 16_000))
        tried = small.tried
    for why in found:
        print(why, flush=True)
    well = "told it in one line and lost nothing"
    verdict.tell("full and closed disks", {well: tried - len(found), "did not": len(found)}, (well,))


if __name__ == "__main__":
    main()
