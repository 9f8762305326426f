"""What a resumed run reads is as it was written, or the run goes on from the checkpoint before, or it says why not."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from flcluster.cli import main

TINY = str(Path(__file__).parents[2] / "tiny.yaml")
READ = ("checkpoints/last.ckpt", "metrics.csv", "clients.csv", "config.yaml", "bank/start.rows")


def go(*flags):
    try:
        return main(["fit", *flags])
    except SystemExit as stop:  # the parser's
        return stop.code


def go_on(folder):
    return go("--run_dir", folder, "--ckpt_path", "last", "--engine.max_updates", "null")


def numbers(folder):
    return Path(folder, "metrics.csv").read_text(), Path(folder, "clients.csv").read_text()


@pytest.fixture(params=["1", "0"], ids=["memory", "file"])
def cut(request):
    """A run that was stopped twice, so that it has two checkpoints; and the same run, never stopped, in ``whole``."""
    flags = ["--config", TINY, "--engine.memory_gb", request.param]
    assert go("--run_dir", "whole", *flags) == 0
    assert go("--run_dir", "cut", *flags, "--engine.max_updates", "7") == 0
    assert go("--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "13") == 0
    return Path("cut")


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_a_flipped_bit_changes_no_number_without_a_word(cut, capsys):
    """Anywhere in anything that is read: refused with the file's name, or the same numbers as ever."""
    draw = np.random.default_rng(0)
    present = [name for name in READ if (cut / name).exists()]
    for n in range(10):
        name = present[n % len(present)]
        shutil.rmtree("damaged", ignore_errors=True)
        shutil.copytree(cut, "damaged")
        flip(Path("damaged", name), int(draw.integers(8 * (cut / name).stat().st_size)))
        capsys.readouterr()
        code = go_on("damaged")
        said = capsys.readouterr().err
        if code == 0:
            assert numbers("damaged") == numbers("whole"), name
        else:
            assert code == 2 and (Path(name).name in said or name == "config.yaml"), said


@pytest.mark.parametrize("harm", ["flipped", "cut short", "missing"])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it(cut, harm, monkeypatch, capsys):
    last = cut / "checkpoints" / "last.ckpt"
    if harm == "flipped":
        flip(last, 8 * 1000 + 3)
    elif harm == "cut short":
        last.write_bytes(last.read_bytes()[:-700])
    else:
        last.unlink()
    assert (
        go("--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "null", "--engine.progress", "true") == 0
    )
    said = capsys.readouterr().err
    assert "last.ckpt is" in said and "going on from" in said and "previous.ckpt, 7 steps into the run" in said
    assert numbers("cut") == numbers("whole")
    assert last.exists() and last.with_name("set_aside.ckpt").exists() == (harm != "missing")


def test_the_one_before_is_whole_after_going_on_from_it(cut):
    """Both checkpoints are good again once the run has written one, whatever was set aside."""
    flip(cut / "checkpoints" / "last.ckpt", 9999)
    assert go("--run_dir", "cut", "--ckpt_path", "last", "--engine.max_updates", "11") == 0
    flip(cut / "checkpoints" / "last.ckpt", 7777)
    assert go_on("cut") == 0
    assert numbers("cut") == numbers("whole")


def test_two_damaged_checkpoints_are_refused(cut, capsys):
    for name in ("last.ckpt", "previous.ckpt"):
        flip(cut / "checkpoints" / name, 9999)
    assert go_on("cut") == 2
    assert "previous.ckpt is damaged" in capsys.readouterr().err


def test_a_checkpoint_of_another_run_is_refused_by_what_differs(cut, capsys):
    """As if it had been copied into this run's directory."""
    assert go("--config", TINY, "--algorithm", "CCFL", "--run_dir", "other", "--engine.max_updates", "3") == 0
    shutil.copy("other/checkpoints/last.ckpt", cut / "checkpoints" / "last.ckpt")
    assert go_on("cut") == 2
    said = capsys.readouterr().err
    assert "last.ckpt" in said and "algorithm.class_path" in said


def test_an_edited_configuration_is_refused_by_key(cut, capsys):
    config = yaml.safe_load((cut / "config.yaml").read_text())
    config["model"]["init_args"]["lr"] = 0.02
    (cut / "config.yaml").write_text(yaml.safe_dump(config))
    assert go_on("cut") == 2
    assert "model.init_args.lr: 0.01 -> 0.02" in capsys.readouterr().err


def test_what_a_killed_process_left_half_written_is_removed(cut):
    (cut / "bank").mkdir(exist_ok=True)
    (cut / "bank" / "tmpabc").mkdir()
    left = [
        cut / "summary.json.77.tmp",
        cut / "checkpoints" / "last.ckpt.77.tmp",
        cut / "bank" / "tmpabc" / "scratch.rows",
    ]
    for path in left:
        path.write_text("half")
    assert go_on("cut") == 0
    assert not any(path.exists() for path in left)


def test_auto_goes_on_if_there_is_something_to_go_on_from(capsys):
    """What a job that is started again by its scheduler says every time."""
    flags = ["--config", TINY, "--run_dir", "auto", "--ckpt_path", "auto"]
    assert go("--config", TINY, "--run_dir", "whole") == 0
    for at in ("7", "13", "null"):
        assert go(*flags, "--engine.max_updates", at) == 0
    assert numbers("auto") == numbers("whole")
    assert len(json.loads(Path("auto/provenance.json").read_text())) == 3
    assert go(*flags) == 0 and go(*flags, "--algorithm.cycles", "6") == 0
    assert len(json.loads(Path("auto/provenance.json").read_text())) == 4, "only what is longer goes on"
    assert go("--config", TINY, "--ckpt_path", "auto") == 2
    assert "--ckpt_path auto needs --run_dir" in capsys.readouterr().err


def test_a_second_process_on_the_same_directory_is_refused(cut, capsys):
    from flcluster.engine.processes.lock import held

    before = numbers("cut")
    with held(cut):
        assert go_on("cut") == 75
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err
    assert numbers("cut") == before and not (cut / "run.lock").exists()
