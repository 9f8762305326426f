"""Whose code it is: a user's own is named with its file, and an error is told where in it it arose."""

import json
import sys
from pathlib import Path

import pytest
import torch
from lightning import LightningModule

from flcluster.algorithms import FedAvg
from flcluster.cli import main
from flcluster.given import blamed, described, is_own, named
from flcluster.modules import MLP

HERE = Path(__file__).name


class Own(MLP):
    def features(self, x):
        return x / self.nothing

    def fails(self):
        raise KeyError("a\nb" * 400)


class Plain:
    def __call__(self):
        return json.loads("{")


def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def own():
    return Own(3, (1, 2, 3), hidden=[4])


def test_what_is_a_users_own():
    assert is_own(Own) and is_own(Plain)
    assert not any(map(is_own, (MLP, FedAvg, LightningModule, torch.nn.Linear, int)))


def test_own_classes_are_named_with_their_file_and_others_are_not():
    line = Own.features.__code__.co_firstlineno
    assert named(own(), "features").startswith("Own.features (") and named(own(), "features").endswith(
        f", line {line})"
    )
    assert HERE in named(own()) and HERE in named(own(), "forward") and "line" not in named(own(), "forward")
    assert (named(FedAvg()), named(FedAvg(), "step")) == ("FedAvg", "FedAvg.step")
    built = type("Built", (), {"__module__": "a_notebook"})()
    assert named(built) == "Built (a_notebook)"


def test_a_file_of_the_working_directory_has_a_short_name(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    assert f" ({HERE}, line " in named(own(), "features")


def test_an_error_is_told_where_it_arose_in_own_code_in_one_line():
    told = blamed(error_of(own().fails))
    assert told.startswith("Own.fails (") and f"{HERE}, line " in told and "KeyError: " in told
    assert "\n" not in told and len(told) < 600
    told = blamed(error_of(Plain()))  # raised in Python's library, which nobody is to mend
    assert told.startswith("Plain.__call__ (") and "JSONDecodeError: " in told
    assert blamed(error_of(lambda: 1 / 0)).startswith("error_of (")


def test_where_only_inherited_code_was_gone_through_the_class_is_told():
    told = blamed(error_of(own().configure_optimizers.__func__, None))
    assert "error_of" in told  # this file called it
    error = error_of(own().net, "x") if hasattr(own(), "net") else error_of(own().forward, "x")
    below = error.__traceback__.tb_next  # as the engine sees it: without the frame of this file
    assert blamed(error.with_traceback(below)).startswith(f"Own ({Path(__file__)}") or HERE in blamed(error)


def test_an_error_of_ours_is_nobodys():
    error = error_of(MLP, 3, (1, 2, 3), [0])
    assert blamed(error.with_traceback(error.__traceback__.tb_next)) is None


def test_what_a_value_is():
    assert described(torch.ones(2, 3)) == "a Tensor (2, 3) of float32"
    assert [described(value) for value in (None, [1], 1.5)] == ["None", "a list of 1", "a float"]


UNBUILT = """from flcluster.modules import MLP
class Model(MLP):
    def __init__(self, num_classes: int, input_shape: tuple[int, ...]):
        super().__init__(num_classes, input_shape)
        self.width = self.hidden
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:", "line 1: SyntaxError"),
        ("1 / 0", "line 1: ZeroDivisionError"),
        (UNBUILT, "model: Model.__init__ (spoilt.py, line 5): AttributeError"),
    ],
)
def test_a_class_that_cannot_be_imported_or_made_is_one_line(text, said, tmp_path, monkeypatch, capsys):
    (tmp_path / "spoilt.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["fit", "--data", "RotatedDigits", "--model", "spoilt.Model", "--algorithm", "FedAvg"]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "spoilt.py" in told and said in told
    sys.modules.pop("spoilt", None)
