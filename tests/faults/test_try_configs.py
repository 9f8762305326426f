"""A few of the bad configurations that ``python3 dev.py faults`` tries by the thousand."""

from dataclasses import fields

import pytest
from bad_configs import bad_configs, drawn
from try_configs import outcome

KNOWN = [
    ("algorithm.distance_bar", ["--algorithm", "CDFL", "--algorithm.distance_bar=null"]),
    ("algorithm.prox", ["--algorithm", "FedAvgFT", "--algorithm.prox=1e308"]),
    ("algorithm.selection", ["--algorithm", "FedGen", "--algorithm.selection=null"]),
    ("model.lr", ["--model.lr=.nan"]),
    ("algorithm.rho", ["--algorithm.rho=.inf"]),
    ("engine.memory_gb", ["--engine.memory_gb=.inf"]),
    ("data.test_size", ["--data.test_size=-1"]),
]


@pytest.mark.parametrize(("key", "flags"), [*KNOWN, *drawn(12, seed=5)], ids=lambda value: str(value)[-40:])
def test_a_bad_setting_is_refused_by_its_key_or_harmless(key, flags):
    what, said = outcome(key, flags)
    assert what in (("refused",) if (key, flags) in KNOWN else ("refused", "ran")), said


def test_every_setting_of_every_method_is_tried():
    """Made from signatures: a new method and a new setting are in it unasked."""
    from flcluster.algorithms import CDFL, Fielding

    tried = {(flags[1], key) for key, flags in bad_configs() if flags[0] == "--algorithm"}
    for kind in (CDFL, Fielding):
        assert {(kind.__name__, f"algorithm.{name}") for name in (field.name for field in fields(kind))} <= tried
    assert len(list(bad_configs())) > 3000
