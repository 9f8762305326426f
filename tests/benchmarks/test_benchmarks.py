"""Every part of ``python3 dev.py bench`` runs, on tiny sizes. How fast anything is, is not tested."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.fixture
def part(monkeypatch):
    """Import a script of the folder as it imports others, and forget all of them afterwards.

    Another folder's script of the same name (``everything``) is put aside meanwhile.
    """
    names = [path.stem for path in FOLDER.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


class Pipe:
    """One's end of a pipe to a process that takes steps."""

    def __init__(self, *asked):
        self.asked, self.said = list(asked), []

    def send(self, what):
        self.said.append(what)

    def recv(self):
        return self.asked.pop(0)


@pytest.mark.parametrize("name", ["rounds", "together", "methods", "waits", "coordinator"])
def test_a_part_finds_ratios(part, name):
    found = part(name).rows(quick=True)
    assert found and all(row.found > 0 for row in found)


@pytest.mark.parametrize("name", ["FedAvg", "CDFL", "Fielding"])
def test_clients_are_registered(part, name):
    pipe = Pipe(2, 0)
    part("registered").serve(pipe, name, 20)
    assert pipe.said[0] is None and min(pipe.said[1]) > 0


@pytest.mark.parametrize("name", ["FedAvg", "CDFL", "DFCA"])
def test_a_process_takes_steps(part, name, tmp_path, monkeypatch):
    processes, pipe = part("processes"), Pipe(1, 0)
    monkeypatch.setitem(processes.CLIENTS, name, 12)
    processes.serve(pipe, name, tmp_path, 0, 1, 0, False, 8)
    assert pipe.said[0] is None and pipe.said[1][0] > 0


def test_a_busy_machine_is_beside_a_quiet_one(part, monkeypatch):
    busy = part("busy")
    monkeypatch.setattr(busy, "seconds", lambda uploads, setting: 2.0 + len(setting))
    assert [row.found for row in busy.rows(turns=1)] == [1.5, 2.0, 1.0, 1.5, 2.0]
    assert busy.seconds.__name__ == "<lambda>" and busy.SETTINGS["ours"] == {}


def test_the_table_has_every_part(part, monkeypatch, tmp_path):
    everything, told = part("everything"), part("told")
    monkeypatch.setattr(everything, "run", lambda name, quick: [told.Told(f"what {name} finds", 1.0, "≤ 2")])
    monkeypatch.setattr(everything, "PAGE", tmp_path / "page.md")
    everything.PAGE.write_text(f"before\n{everything.BEGIN}\nold\n{everything.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["everything.py", "--write"])
    everything.main()
    page = everything.PAGE.read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert all(f"| what {name} finds | 1.00 | ≤ 2 | `{name}.py` |" in page for name in everything.PARTS)
    scripts = {path.stem for path in FOLDER.glob("*.py") if path != Path(__file__) and "def rows(" in path.read_text()}
    assert scripts == set(everything.PARTS)
