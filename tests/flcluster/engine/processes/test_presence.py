"""Lines between ranks, here of one process: an end without a word is noticed by all, one that is done by none."""

import contextlib
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from flcluster.engine.processes import lost
from flcluster.engine.processes.lost import Watch, from_collective
from flcluster.engine.processes.presence import Gone, Presence


@pytest.fixture
def ranks(monkeypatch):
    """Three ranks that have lines, and what each has learnt."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    told, learnt = [], {0: [], 1: [], 2: []}

    def broadcast(value, src):
        told.append(value) if value is not None else None
        return told[0]

    fabrics = [SimpleNamespace(global_rank=rank, world_size=3, broadcast=broadcast) for rank in range(3)]
    made = [Presence(fabric, learnt[rank].append) for rank, fabric in enumerate(fabrics)]
    until(lambda: len(made[0].lines) == 2)
    return made, learnt, told[0]


def until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def cut(line):
    with contextlib.suppress(OSError):  # the other end may have cut it
        line.shutdown(socket.SHUT_RDWR)  # as the system does when a process ends


@pytest.mark.parametrize("gone", [1, 2])
def test_the_end_of_one_is_learnt_by_the_others_once(ranks, gone):
    made, learnt, _ = ranks
    cut(made[gone].lines[0])
    other = 3 - gone
    until(lambda: learnt[0] and learnt[other])
    assert learnt[0] == learnt[other] == [Gone(gone)]


def test_the_end_of_rank_0_is_learnt_by_all(ranks):
    made, learnt, _ = ranks
    made[0].over = True  # it has ended, and learns nothing
    for line in made[0].lines.values():
        cut(line)
    until(lambda: learnt[1] and learnt[2])
    assert learnt[1] == learnt[2] == [Gone(0)] and not learnt[0]


@pytest.mark.parametrize("failing", [0, 1])
def test_what_a_rank_says_before_it_fails_reaches_the_others(ranks, failing):
    made, learnt, _ = ranks
    made[failing].leave("ValueError: odd")
    others = {0, 1, 2} - {failing}
    until(lambda: all(learnt[rank] for rank in others))
    assert all(learnt[rank] == [Gone(failing, "ValueError: odd")] for rank in others)


def test_who_is_done_is_not_missed_and_nobody_waits_by_the_clock(ranks):
    made, learnt, _ = ranks
    assert all(line.gettimeout() is None for presence in made for line in presence.lines.values())
    for rank in (2, 0, 1):
        made[rank].leave()
        for line in made[rank].lines.values():
            cut(line)
    time.sleep(0.1)
    assert learnt == {0: [], 1: [], 2: []}


def test_a_stranger_is_not_listened_to(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    told, learnt = [], []
    fabric = SimpleNamespace(global_rank=0, world_size=2, broadcast=lambda value, src: told.append(value) or value)
    made = Presence(fabric, learnt.append)
    for word in (b"hello\n", json.dumps({"rank": 1, "token": "guessed"}).encode() + b"\n"):
        with socket.create_connection(("127.0.0.1", told[0][0])) as stranger:
            stranger.sendall(word)
            assert stranger.recv(10) == b""
    assert not made.lines and not learnt


def test_a_process_that_goes_on_computing_is_ended_and_gives_up_its_lock(monkeypatch, tmp_path, capsys):
    ended, freed = [], []
    monkeypatch.setattr(lost, "GRACE", 0.05)
    monkeypatch.setattr(lost.os, "_exit", ended.append)
    monkeypatch.setattr(lost, "let_go", freed.append)
    watch = Watch(lambda gone: f"rank {gone.rank} is gone", lambda: tmp_path)
    watch.lost(Gone(1))
    assert ended == [69] and freed == [tmp_path]
    assert capsys.readouterr().err == "flcluster: rank 1 is gone\n"
    assert (tmp_path / "run.log").read_text().endswith("rank 0: rank 1 is gone\n")
    watch.lost(Gone(2))
    assert len(ended) == 1, "the first is the cause"


def test_a_process_that_ends_by_itself_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(lost.os, "_exit", lambda code: pytest.fail("ended"))
    watch = Watch(str, lambda: tmp_path)
    thread = threading.Thread(target=watch.lost, args=(Gone(1),))
    thread.start()
    assert watch.verdict(5) == Gone(1)
    watch.over.set()
    thread.join(timeout=5)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("place", "gone", "heard"),
    [
        ((0, 0, 2), Gone(1), True),
        ((0, 0, 2), Gone(1, "ValueError: odd"), False),  # which stands on the same terminal
        ((1, 1, 2), Gone(0), True),
        ((2, 0, 2), Gone(1, "ValueError: odd"), True),  # another machine's terminal
        ((3, 1, 2), Gone(1), False),
        ((3, 1, 2), Gone(2), True),
    ],
)
def test_one_process_of_each_machine_says_it(place, gone, heard, tmp_path):
    watch = Watch(str, lambda: tmp_path)
    watch.place = place
    assert watch.error(gone).heard is heard


def test_only_what_processes_do_together_fails_for_another_s_sake():
    with pytest.raises(ValueError, match="Default process group") as found:
        __import__("torch").distributed.distributed_c10d._get_default_group()
    assert not from_collective(found.value)  # not a RuntimeError: a mistake of ours
    assert not from_collective(RuntimeError("never raised"))
