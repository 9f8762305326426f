"""One process has a run's directory: others are refused by name, and a holder that is gone holds nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from flcluster.engine.processes import lock
from flcluster.engine.processes.lock import NAME, Holder, held, holder
from flcluster.errors import UserError

HOLD = """
import sys, time
from pathlib import Path
from flcluster.engine.processes.lock import held
with held(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    yield process
    process.kill()
    process.wait()


def elsewhere(path, age=0.0):
    """Leave the lock of a process of another machine, which gave its last sign of life some seconds ago."""
    found = replace(Holder(), host="node7", machine="another", pid=4711, birth="1")
    (path / NAME).write_text(json.dumps(asdict(found)))
    then = time.time() - age
    os.utime(path / NAME, (then, then))
    return found


def test_it_is_there_while_it_is_held_and_gone_afterwards(tmp_path):
    with held(tmp_path / "new"):
        assert holder(tmp_path / "new").pid == os.getpid()
    assert list((tmp_path / "new").iterdir()) == []
    assert holder(tmp_path / "new") is None


def test_another_process_is_refused_and_told_who_has_it(tmp_path, other):
    with (
        pytest.raises(UserError, match=rf"is in use by process {other.pid} on .*, since 2\d\d\d-.*--run_dir"),
        held(tmp_path),
    ):
        pytest.fail("two have it")
    assert holder(tmp_path).pid == other.pid  # a refusal leaves the lock alone


def test_a_killed_holder_holds_nothing(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (tmp_path / NAME).exists() and holder(tmp_path) is None
    with held(tmp_path):
        assert holder(tmp_path).pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_another_process_has_by_now_is_no_holder(tmp_path):
    """The machine has given the killed holder's number to someone else, who began at another time."""
    (tmp_path / NAME).write_text(json.dumps(asdict(replace(Holder(), birth="12"))))
    with held(tmp_path):
        assert holder(tmp_path).birth != "12"


def test_a_machine_that_was_started_anew_has_no_holder_once_the_lease_is_over(tmp_path):
    elsewhere(tmp_path, age=lock.LEASE + 5)
    assert holder(tmp_path) is None
    with held(tmp_path):
        pass


def test_a_holder_on_another_machine_is_believed_while_it_gives_signs_of_life(tmp_path):
    elsewhere(tmp_path, age=lock.LEASE - 20)
    with pytest.raises(UserError, match="process 4711 on node7"), held(tmp_path):
        pytest.fail("two have it")


def test_a_holder_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.02)
    with held(tmp_path):
        os.utime(tmp_path / NAME, (1, 1))
        deadline = time.monotonic() + 10
        while (tmp_path / NAME).stat().st_mtime < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / NAME).stat().st_mtime > 2


def test_a_lock_that_cannot_be_read_counts_until_the_lease_is_over(tmp_path):
    (tmp_path / NAME).write_text("{")
    with pytest.raises(UserError, match="an unknown machine"), held(tmp_path):
        pytest.fail("two have it")
    os.utime(tmp_path / NAME, (1, 1))
    with held(tmp_path):
        pass


def test_one_that_was_taken_over_does_not_remove_the_lock_of_its_successor(tmp_path):
    """A machine that slept for an hour wakes up: the directory is another's by now."""
    with held(tmp_path):
        after = elsewhere(tmp_path)
    assert lock._read(tmp_path / NAME) == after


@pytest.mark.parametrize("links", [True, False])
def test_of_many_that_find_a_dead_holder_one_gets_it(tmp_path, links, monkeypatch):
    """Threads that take it over at the same moment; every one has a token of its own, as processes have."""
    if not links:
        monkeypatch.setattr(lock.os, "link", lambda *names: (_ for _ in ()).throw(PermissionError("no links")))
    inside, most, done = [0], [0], []
    guard, start, tried = threading.Lock(), threading.Barrier(8), threading.Barrier(8)

    def attempt():
        start.wait()
        try:
            with held(tmp_path):
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                tried.wait()
                with guard:
                    inside[0] -= 1
                    done.append(True)
        except UserError:
            tried.wait()

    for _ in range(10):
        elsewhere(tmp_path, age=lock.LEASE + 5)
        threads = [threading.Thread(target=attempt) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert most[0] == 1 and len(done) == 10


def test_who_has_just_begun_may_clear_the_probe_of_another_away(tmp_path, monkeypatch):
    found = elsewhere(tmp_path)
    real = lock.Path.touch

    def cleared(path, *given, **named):
        real(path, *given, **named)
        path.unlink()

    monkeypatch.setattr(lock.Path, "touch", cleared)
    assert holder(tmp_path) == found
