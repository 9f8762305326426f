"""What a run's directory tells of what made it."""

import json
import platform
import warnings
from pathlib import Path

import pytest
import torch

import flcluster
from flcluster.cli import main
from flcluster.records.log import RunLog
from flcluster.records.provenance import FILE, add_provenance, provenance, read_provenance

TINY = str(Path(__file__).parents[2] / "tiny.yaml")


def test_a_run_and_its_continuation_tell_what_made_them_and_keep_a_log(capfd):
    argv = ["fit", "--config", TINY, "--run_dir", "a", "--engine.max_updates", "12"]
    assert main([*argv, "--callbacks", "[{class_path: EarlyStopping}]"]) == 0
    go_on = ["fit", "--run_dir", "a", "--ckpt_path", "auto", "--engine.max_updates", "null", "--engine.progress=true"]
    assert main(go_on) == 0
    first, second = read_provenance(Path("a"))
    assert first["command"].startswith(f"flcluster fit --config {TINY} --run_dir a")
    assert second["command"] == " ".join(["flcluster", *go_on])
    assert first["versions"]["torch"] == torch.__version__
    assert first["versions"]["flcluster"] == flcluster.__version__
    assert first["machine"]["cores"] and first["machine"]["processes"] == 1
    written = Path("a", FILE).read_text().replace(TINY, "")
    assert str(Path.home()) not in written.replace(str(Path.cwd()), "") or str(Path.home()) == "/"
    assert platform.node() not in written or len(platform.node()) < 4
    log = Path("a/run.log").read_text()
    assert "writing to a;" in log and "stopped at 12 of 30: engine.max_updates=12" in log
    assert "going on in a at 12 of 30" in log and "30/30" in log
    shown = [line.partition(": ")[2] for line in capfd.readouterr().err.splitlines() if line.startswith("CDFL: ")]
    assert shown and all(line in log for line in shown), "what was shown is in the log"


def test_warnings_and_the_end_are_in_the_log_and_shown_as_before(tmp_path):
    log = RunLog(tmp_path / "run.log")
    before = warnings.showwarning
    with pytest.raises(KeyError), pytest.warns(UserWarning, match="odd"), log.listening():
        warnings.warn("odd", stacklevel=1)
        raise KeyError("gone")
    assert warnings.showwarning is before
    first, *trace, last = (tmp_path / "run.log").read_text().splitlines()
    assert first.endswith("UserWarning: odd") and last.endswith("ended by KeyError: 'gone'")
    assert Path(__file__).name in " ".join(trace), "a mistake in somebody's code is told in one line, and here whole"
    RunLog(None).write("nowhere")


def test_code_that_differs_from_its_commit_is_said():
    told = provenance("flcluster fit", "0123456789ab-changed", 2)
    assert (told["commit"], told["uncommitted_changes"], told["machine"]["processes"]) == ("0123456789ab", True, 2)
    installed = provenance("flcluster fit", "version 0.1.0", 1)
    assert (installed["commit"], installed["uncommitted_changes"]) == (None, False)
    json.dumps(told)


@pytest.mark.parametrize("damaged", [b"[{", b'[{"a": "\xf4"}]', b"{}", b"3"])
def test_what_is_damaged_is_begun_anew_and_said(damaged, tmp_path):
    (tmp_path / FILE).write_bytes(damaged)
    assert read_provenance(tmp_path) == []
    with pytest.warns(UserWarning, match=f"{FILE} cannot be read"):
        add_provenance(tmp_path, {"command": "a"})
    add_provenance(tmp_path, {"command": "b"})
    assert [each["command"] for each in read_provenance(tmp_path)] == ["a", "b"]
