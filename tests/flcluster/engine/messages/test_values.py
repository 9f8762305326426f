"""Numbers that no run can have, and null where a value is needed, are refused by their keys at the start."""

import math
from dataclasses import dataclass

import pytest

from flcluster.algorithms import FixedDelta
from flcluster.engine.messages.values import refuse_fields, refuse_number, refuse_unfit
from flcluster.errors import UserError


def part(path, **settings):
    return {"class_path": f"flcluster.algorithms.{path}", "init_args": settings}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (part("CDFL", rho=math.nan), r"algorithm\.rho is nan: give a number"),
        (part("CDFL", rho=-math.inf), r"algorithm\.rho is -inf: give a finite number"),
        (part("CDFL", rho=1e308), r"algorithm\.rho is 1e\+308, which is more"),
        (part("CDFL", amplifier=[3.0, math.nan]), r"algorithm\.amplifier is nan"),
        (part("CDFL", cycles=10**10), r"algorithm\.cycles is 10000000000, which is more than any run can have"),
        (part("CDFL", beta0=None), r"algorithm\.beta0 is null, and CDFL needs a value there"),
        (part("Fielding", trigger=None), r"algorithm\.trigger is null"),
        (part("Fielding", delta_rule=part("FixedDelta", delta=math.nan)), r"algorithm\.delta_rule\.delta is nan"),
    ],
)
def test_it_is_refused_by_its_key(given, said):
    with pytest.raises(UserError, match=said):
        refuse_unfit("algorithm", given)


def test_what_may_be_null_or_infinite_is_let_through():
    refuse_unfit("algorithm", part("Fielding", delta_rule=part("FixedDelta", delta=math.inf), devices=None))
    refuse_unfit("algorithm", part("CDFL", rho=0.1, amplifier=[10.0, 10.0], loss_bar="min"))
    refuse_unfit("logger", [1, None])
    refuse_fields("rule", FixedDelta(math.inf))
    refuse_number("x", [1, "nan", None, True, 3.4e38])


def test_objects_of_a_script_are_looked_at_too():
    @dataclass(frozen=True)
    class Inner:
        mu: float

    @dataclass(frozen=True)
    class Outer:
        inner: Inner

    with pytest.raises(UserError, match=r"algorithm\.inner\.mu is nan"):
        refuse_fields("algorithm", Outer(Inner(math.nan)))
