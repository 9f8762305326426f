"""A method that the project has never heard of is in the tables and figures of its runs, with its own numbers."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar, Literal

from rich.console import Console
from runs import make_study

from flcluster.algorithms import FedAvg
from flcluster.cli import main
from flcluster.cli.jobs import processes
from flcluster.records.reader import load_runs
from flcluster.report.figures.accuracy import accuracy_figure
from flcluster.report.figures.costs import overheads_figure
from flcluster.report.report import summary_table
from flcluster.report.study.figures import draw
from flcluster.report.study.file import Picture
from flcluster.report.style import inks
from flcluster.report.summaries import repeats

TINY = str(Path(__file__).parents[2] / "tiny.yaml")


@dataclass(frozen=True, kw_only=True)
class Unheard(FedAvg):
    """FedAvg that counts something of its own."""

    rounds: int = 2
    measure: Literal["participants", "all"] = "all"
    extra_names: ClassVar[tuple[str, ...]] = ("wonder",)

    @property
    def title(self):
        return "Un-heard of"

    def gauges(self, state):
        return {"wonder": 42.5}


class Here:
    """A process that is none: it runs the command in this one."""

    def __init__(self, command):
        self.code = main(command[command.index("fit") :])

    def poll(self):
        return self.code


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_an_unheard_method_adds_itself(monkeypatch, capfd):
    module = ModuleType("somewhere_else")
    module.Unheard, Unheard.__module__ = Unheard, "somewhere_else"
    monkeypatch.setitem(sys.modules, "somewhere_else", module)
    monkeypatch.setattr(processes, "subprocess", SimpleNamespace(Popen=Here, TimeoutExpired=TimeoutError))
    Path("rounds.yaml").write_text("algorithm: {class_path: FedAvg, init_args: {rounds: 2, measure: all}}\n")
    argv = ["compare", "--config", TINY, "--config", "rounds.yaml", "--output", "out", "--budget", "own"]
    assert main([*argv, "--methods", "somewhere_else.Unheard", "FedAvg"]) == 0
    printed = capfd.readouterr().out
    assert printed.index("Un-heard of") < printed.index("FedAvg ")  # as --methods has them
    text = Path("out/report.md").read_text()
    assert "| Un-heard of | 1 |" in text and "| wonder |" in text and "| 42.500 |" in text
    assert ",Un-heard of,wonder,42.5,,ours" in Path("out/report.csv").read_text()
    assert main(["report", "out", "--output", "again"]) == 0 and "Un-heard of" in Path("again/report.md").read_text()
    runs = load_runs(["out/Unheard", "out/FedAvg"])
    groups = repeats(runs)
    colours = inks(key[2] for key in groups)
    assert words(accuracy_figure(groups, colours))[:2] == ["Un-heard of", "FedAvg"]
    assert overheads_figure(groups, colours) is None  # relative to a method that did not run
    assert main(["gather", "out", "--output", "all.csv"]) == 0 and ",wonder" in Path("all.csv").read_text()
    console = Console(width=200, file=io.StringIO())
    console.print(summary_table(runs))
    assert "42.500" in console.file.getvalue()
    study = {"Mine": {0: runs[0]}, "Theirs": {0: runs[1]}}
    (axes,) = draw(make_study(*study), Picture("bars", y="client_acc"), study).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Mine", "Theirs"]
