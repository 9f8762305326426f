"""Which runs are repeats of each other, and what sets the others apart."""

import copy
import itertools

import pytest
from runs import make_run, write_run

from flcluster.records.configuration import configuration_key, differences
from flcluster.records.reader import Run

CONFIG = {
    "seed_everything": 0,
    "fabric": {"precision": "32-true", "devices": 1},
    "data": {
        "class_path": "D",
        "init_args": {"root": "data", "download": False, "num_clients": 4, "shifts": [{"class_path": "S"}]},
    },
    "model": {"class_path": "M", "init_args": {"lr": 0.1}},
    "algorithm": {"class_path": "A", "init_args": {"semantics": {"init_args": {"path": "here/clip.npz"}}, "lr": None}},
    "engine": {"threads": 1, "session": None},
    "logger": None,
    "callbacks": None,
    "run_dir": None,
}


def changed(**changes):
    """A run with other settings: dotted keys (__ for a dot)."""
    config = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        *inner, last = key.split("__")
        at = config
        for name in inner:
            at = at[name]
        at[last] = value
    return make_run(settings=config)


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("seed_everything", 7, True),
        ("data__init_args__root", "elsewhere", True),
        ("data__init_args__download", True, True),
        ("engine__threads", 2, True),
        ("engine__session", 5, False),
        ("fabric__devices", 2, True),
        ("run_dir", "there", True),
        ("logger", {"class_path": "CSVLogger"}, True),
        ("callbacks", [{"class_path": "EarlyStopping"}], False),
        ("algorithm__init_args__semantics__init_args__path", "there/clip.npz", True),
        ("algorithm__init_args__semantics__init_args__path", "here/bert.npz", False),
        ("fabric__precision", "bf16-mixed", False),
        ("data__init_args__num_clients", 5, False),
        ("model__init_args__lr", 0.2, False),
        ("algorithm__class_path", "B", False),
        ("algorithm__class_path", "moved.elsewhere.A", True),
        ("data__init_args__shifts", [{"class_path": "elsewhere.S"}], True),
        ("data__init_args__shifts", [{"class_path": "T"}], False),
    ],
)
def test_the_key_is_of_what_changes_results(key, value, same):
    assert (configuration_key(changed()) == configuration_key(changed(**{key: value}))) == same


def test_the_key_stays_what_gathered_results_have():
    assert configuration_key(changed()) == "2cb6bf80b718"


@pytest.mark.parametrize("text", [None, "a: [", "just words", ""])
def test_a_configuration_that_cannot_be_read_has_no_key(tmp_path, text):
    path = write_run(tmp_path / "run", settings=CONFIG)
    assert configuration_key(Run.load(path)) == configuration_key(changed())
    (path / "config.yaml").unlink()
    if text is not None:
        (path / "config.yaml").write_text(text)
    assert configuration_key(Run.load(path)) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([{}, {"model__init_args__lr": 0.01}], ["lr=0.1", "lr=0.01"]),
        (
            [{}, {"model__init_args__lr": 0.01, "algorithm__init_args__lr": 1}],
            ["model.lr=0.1, algorithm.lr=null", "model.lr=0.01, algorithm.lr=1"],
        ),
        ([{}, {"algorithm__class_path": "x.B"}], ["algorithm=A", "algorithm=B"]),
        ([{}, {"algorithm__init_args": {"semantics": None, "lr": None}}], ["path=clip.npz", "semantics=null"]),
        (
            [{}, {"algorithm": {"class_path": "B", "init_args": {"new": 1, "lr": None}}}],
            ["algorithm=A", "algorithm=B"],
        ),
        ([{}, {"callbacks": ["Stop"]}], ["", 'callbacks=["Stop"]']),
    ],
)
def test_what_sets_configurations_apart_is_named(changes, said):
    assert differences([changed(**each) for each in changes]) == said


def test_no_two_configurations_are_called_the_same():
    values = {"model__init_args__lr": (0.1, "0.1"), "algorithm__class_path": ("A", "B"), "callbacks": (None, [1])}
    runs = [changed(**dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())]
    runs.append(make_run())
    assert len(set(map(configuration_key, runs))) == len(set(differences(runs))) == 9
