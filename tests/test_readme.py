"""What the README and the pages of docs/ show is what works."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flcluster.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = {str(page.relative_to(ROOT)): page for page in [README, *sorted((ROOT / "docs").rglob("*.md"))]}


def python_examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The commands that use a file of one's own, in the order of the examples, with configs where they are."""
    joined = page.read_text().replace("\\\n", " ").replace(" configs/", f" {ROOT}/configs/")
    return [shlex.split(line) for line in re.findall(r"PYTHONPATH=\. flcluster (.*)", joined)]


def write_example(page: Path, name: str) -> None:
    """Write the example that begins with its file's name into the current directory."""
    (example,) = [text for text in python_examples(page) if text.startswith(f"# {name}\n")]
    Path(name).write_text(example)


def lines_of(page: Path, name: str) -> int:
    (example,) = [text for text in python_examples(page) if text.startswith(f"# {name}\n")]
    return len([line for line in example.splitlines() if line.strip()])


@pytest.fixture
def here(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for name in ("own_module", "good_enough", "median", "mine"):  # another test may have imported its own
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if python_examples(page)])
def test_every_python_example_runs(name):
    """Those of one page one after the other, as a reader would."""
    scope: dict = {}
    for example in python_examples(PAGES[name]):
        code = compile(example, name, "exec")
        try:
            exec(code, scope)
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("flcluster"):
                raise
            pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if python_examples(page)])
def test_every_python_example_passes_the_lint(name):
    """Those of one page go on from each other, but for whole files, which begin with their names."""
    for example in python_examples(PAGES[name]):
        whole = name == "README.md" or re.match(r"# \w+\.py\n", example)
        ignored = "ANN,D" if whole else "ANN,D,F401,F821"
        for command in (["check", "--no-cache", "--ignore", ignored], ["format", "--diff"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", f"{ROOT}/example.py", "-"]
            done = subprocess.run(ruff, input=example, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr


def test_git_ignores_what_its_commands_write():
    text = "\n".join(PAGES[name].read_text() for name in ("README.md", "docs/running.md"))
    named = {word for word in re.findall(r"--output ([\w./]+)", text) if not word.startswith("results/")}
    named = {word if Path(word).suffix else f"{word}/x" for word in named}
    written = sorted({*named, "runs/quickstart/x", "data/x", "clients.png", "stream.png", "wandb/x"})
    assert len(written) > 5
    asked = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True)
    assert asked.stdout.split() == written


def test_the_trainer_example_learns():
    (example,) = [text for text in python_examples(PAGES["docs/extending.md"]) if "Trainer" in text]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    scope: dict = {}
    exec(example, scope)
    assert scope["trainer"].callback_metrics["test_acc"] > 0.5


@pytest.mark.parametrize("name", [name for name in PAGES if name != "docs/CHANGELOG.md"])  # it names old places too
def test_every_file_it_names_exists(name):
    folders = "configs|docs|flcluster|algorithms|modules|datamodules|benchmarks|tests"
    named = set(re.findall(rf"(?<![\w/-])(?:{folders})/[\w./]+\.(?:yaml|md|py|csv|npz)", PAGES[name].read_text()))
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert name != "README.md" or len(named) > 12


def test_its_commands_exist():
    text = "\n".join(page.read_text() for page in PAGES.values())
    shown = set(re.findall(r"^(?:PYTHONPATH=\. )?flcluster (\w+)", text, re.M))
    assert {"fit", "compare", "report", "export"} <= shown <= set(COMMANDS)


def test_it_is_short_and_its_table_is_what_the_quickstart_gives():
    text = README.read_text()
    assert len(text.splitlines()) <= 135
    before, after = re.search(r"^ CDFL .* (0\.\d+) ±[\d.]+ (0\.\d+) ±", text, re.M).groups()
    quiet = ["--engine.table", "false", "--engine.pictures", "false", "--engine.progress", "false"]
    assert main(["fit", "--config", f"{ROOT}/configs/quickstart.yaml", "--run_dir", "run", *quiet]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert abs(summary["client_acc_before"] - float(before)) < 0.02
    assert abs(summary["client_acc_after"] - float(after)) < 0.02


def test_data_and_a_model_of_ones_own_are_a_short_file_and_run(here):
    page = PAGES["docs/extending.md"]
    assert lines_of(page, "mine.py") <= 16
    write_example(page, "mine.py")
    assert main([*commands(page)[0], "--run_dir", "run"]) == 0
    assert main([*commands(README)[0], "--run_dir", "short"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["dataset"] == "Stripes" and summary["partition"] == "Dirichlet(0.1)"
    assert summary["acc_global"] > 0.9


def test_a_method_of_ones_own_is_a_short_file_and_runs(here):
    assert lines_of(README, "median.py") <= 18  # fifteen, and imports
    write_example(README, "median.py")
    given = re.search(r"`PYTHONPATH=. flcluster (fit .* median\.Median)`", README.read_text()).group(1)
    assert main([*given.replace("configs/", f"{ROOT}/configs/").split(), "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["algorithm"] == "Median" and summary["client_acc_after"] > 0.8
    assert summary["upload_bytes"] == summary["download_bytes"] > 0
    flags = ["--algorithm.rounds", "16", "--ckpt_path", "last"]
    assert main(["fit", "--run_dir", "run", *flags]) == 0  # its state was saved, and it goes on


def test_a_lightning_module_of_ones_own_runs_as_it_is(here):
    page = PAGES["docs/yours.md"]
    write_example(page, "own_module.py")
    assert "import flcluster" not in Path("own_module.py").read_text()
    assert main([*commands(page)[0], "--run_dir", "run"]) == 0
    assert json.loads(Path("run/summary.json").read_text())["client_acc_after"] > 0.6


def test_the_hook_of_ones_own_stops_a_run(here):
    page = PAGES["docs/extending.md"]
    write_example(page, "good_enough.py")
    assert main([*commands(page)[-1], "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["status"] == "stopped: client_acc_after reached 0.8" and summary["updates"] < 200


def test_the_representation_of_ones_own_is_a_short_file_and_runs(here):
    page = PAGES["docs/methods/drift.md"]
    assert lines_of(page, "labels_seen.py") <= 10
    write_example(page, "labels_seen.py")
    assert main([*commands(page)[0], "--algorithm.rounds", "11", "--run_dir", "run"]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["report_bytes"] == 4 * 10 * 40 * 2  # ten labels, 40 clients, at the start and at round 10


def test_the_topology_of_ones_own_is_a_short_file_and_runs(here):
    page = PAGES["docs/methods/gossip.md"]
    assert lines_of(page, "star.py") <= 10
    write_example(page, "star.py")
    assert main([*commands(page)[0], "--algorithm.rounds", "1", "--run_dir", "run"]) == 0
    clients = json.loads(Path("run/summary.json").read_text())["num_clients"]
    links = Path("run/edges.csv").read_text().splitlines()[1:]
    assert links == [f"0,0,{client}" for client in range(1, clients)]
