"""What the README shows is what works."""

import json
import re
from pathlib import Path

from flcluster.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()


def python_examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(capsys):
    example = python_examples()[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    scope: dict = {}
    exec(example, scope)
    assert scope["trainer"].callback_metrics["test_acc"] > 0.5


def test_every_file_it_names_exists():
    root = Path(__file__).parents[1]
    named = set(re.findall(r"\b(?:configs|docs|algorithms)/[\w./]+\.(?:yaml|md|py)", README))
    assert len(named) > 6
    assert [name for name in named if not (root / name).exists() and "<" not in name] == []


def test_the_representation_of_ones_own_is_a_short_file_and_runs(monkeypatch):
    example, root = python_examples()[1], Path(__file__).parents[1]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    Path("labels_seen.py").write_text(example)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    command = re.findall(r"PYTHONPATH=\. flcluster (.*)", README)[0].replace("configs/", f"{root}/configs/")
    assert main([*command.split(), "--algorithm.rounds", "11", "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["report_bytes"] == 4 * 10 * 40 * 2  # ten labels, 40 clients, at the start and at round 10


def test_the_topology_of_ones_own_is_a_short_file_and_runs(monkeypatch):
    example, root = python_examples()[2], Path(__file__).parents[1]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    Path("star.py").write_text(example)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    command = re.findall(r"PYTHONPATH=\. flcluster (.*)", README)[1].replace("configs/", f"{root}/configs/")
    assert main([*command.split(), "--algorithm.rounds", "1", "--run_dir", "run"]) == 0
    clients = json.loads(Path("run/summary.json").read_text())["num_clients"]
    links = Path("run/edges.csv").read_text().splitlines()[1:]
    assert links == [f"0,0,{client}" for client in range(1, clients)]
