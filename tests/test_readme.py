"""What the README shows is what works."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    scope: dict = {}
    exec(example, scope)
    assert scope["trainer"].callback_metrics["test_acc"] > 0.5


def test_every_file_it_names_exists():
    root = Path(__file__).parents[1]
    named = set(re.findall(r"\b(?:configs|docs|algorithms)/[\w./]+\.(?:yaml|md|py)", README))
    assert len(named) > 6
    assert [name for name in named if not (root / name).exists() and "<" not in name] == []
