"""Which runs are left alone because there is nothing to go on with, and who was quicker."""

import json
import os
from pathlib import Path

import pytest
import yaml

from flcluster.engine.resume import claimed, is_whole
from flcluster.errors import BusyError, UserError

SETTINGS = {
    "seed_everything": 3,
    "algorithm": {"class_path": "CDFL", "init_args": {"cycles": 5, "rho": 0.1}},
    "engine": {"progress": True, "session": None},
}


@pytest.fixture
def run():
    folder = Path("run")
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    (folder / "summary.json").write_text(json.dumps({"status": "finished"}))
    os.utime(folder / "config.yaml", (1000, 1000))
    os.utime(folder / "summary.json", (2000, 2000))
    return folder


def changed(part, **own):
    return {**SETTINGS, part: {**SETTINGS[part], **own}}


def test_a_finished_run_with_the_same_settings_is_whole(run):
    assert is_whole(run, SETTINGS) and is_whole(run, changed("engine", progress=False))
    assert not is_whole(run, {**SETTINGS, "seed_everything": 4}) and not is_whole(run, changed("engine", session=6))
    for own in ({"cycles": 6, "rho": 0.1}, {"cycles": 5, "rho": 0.2}):
        assert not is_whole(run, changed("algorithm", init_args=own))


def test_what_was_begun_anew_since_or_stopped_or_is_damaged_is_not(run):
    os.utime(run / "config.yaml", (3000, 3000))
    assert not is_whole(run, SETTINGS)
    os.utime(run / "config.yaml", (1000, 1000))
    for text in (json.dumps({"status": "stopped: SIGTERM"}), "{", "[]"):
        (run / "summary.json").write_text(text)
        assert not is_whole(run, SETTINGS)
    assert not is_whole(Path("nowhere"), SETTINGS)


def test_a_run_that_was_begun_in_the_moment_between_is_busy(run):
    with pytest.raises(UserError, match="already holds a run") as told, claimed(run, new=True):
        pass
    assert not isinstance(told.value, BusyError), "no checkpoint: nobody can go on with it"
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(BusyError, match="another process has just begun") as busy, claimed(run, new=True):
        pass
    assert busy.value.exit_code == 75
