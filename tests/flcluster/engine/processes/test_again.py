"""Processes that are started again meet at a new place, which the first of them says."""

import os

import pytest
from torch.distributed import TCPStore

from flcluster.engine.processes.again import meet_anew


@pytest.fixture
def agent(monkeypatch):
    """The store of torchrun's agent, and what it tells its processes."""
    store = TCPStore("127.0.0.1", 0, is_master=True)

    def started(rank, attempt):
        told = {"RANK": rank, "TORCHELASTIC_RESTART_COUNT": attempt, "TORCHELASTIC_USE_AGENT_STORE": True}
        for name, value in {**told, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port}.items():
            monkeypatch.setenv(name, str(value))

    return store, started


def now():
    return os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_USE_AGENT_STORE"]


def test_all_ranks_meet_at_the_first_ones_new_store(agent):
    store, started = agent
    places = []
    for attempt in (1, 2):
        started(0, attempt)
        meet_anew()
        place = now()
        started(1, attempt)
        meet_anew()
        assert now() == place and place[1] == "False" and place[0] != str(store.port)
        places.append(place)
    assert places[0] != places[1]


def test_a_first_start_is_left_alone(agent, monkeypatch):
    store, started = agent
    started(0, 0)
    meet_anew()
    assert now() == (str(store.port), "True")
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT")
    meet_anew()
    assert now() == (str(store.port), "True")
