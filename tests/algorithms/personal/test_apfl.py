"""AP-FL's settings: their defaults, what is refused, how long a run is and what it is called."""

import math

import pytest
import torch
from apfl_people import LR, TINY, people, played

from flcluster.algorithms import APFL
from flcluster.algorithms.personal.semantics import OneHot, RandomVectors, ShippedNames
from flcluster.errors import UserError


@pytest.mark.parametrize(
    ("rounds", "steps", "clients", "length"), [(3, 6, 6, 6), (1, 0, 5, 2), (50, 2000, 10, 72), (2, 101, 11, 7)]
)
def test_the_number_of_steps(rounds, steps, clients, length, script, federate):
    """Rounds, a lesson per hundred steps of the generator, and five clients at a time."""
    fed = federate(people(script, {m: [0, 1] for m in range(clients)}))
    phases = APFL(**{**TINY, "generator_steps": steps}, rounds=rounds).phases(fed)
    assert [phase.name for phase in phases] == ["rounds", "lessons", "friends"]
    assert sum(phase.steps for phase in phases) == length


def test_an_untrained_generator_will_do(script, federate):
    """No lessons at all: friends learn from noise."""
    fed = federate(people(script), lr=LR)
    loop = played(APFL(**{**TINY, "generator_steps": 0}, rounds=1), fed)
    assert loop.position == 3
    assert all(torch.isfinite(fed.table("personal")[m]).all() for m in range(6))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"gamma": value} for value in (-0.1, 1.1, math.nan)),
        *({"interpolation": value} for value in (-0.01, 1.5, math.nan)),
        *({"dropout_interpolation": value} for value in (-0.01, 1.5, math.nan)),
        {"generator_per_class": 0},
        *({"server_lr": value} for value in (0.0, 1.2, -1.0)),
        *({name: 0} for name in ("noise_dim", "project_dim", "generator_batch", "per_class", "friend_epochs")),
        *({name: -1} for name in ("generator_steps", "finetune_epochs", "staleness_exponent", "generator_lr")),
        *({name: 0} for name in ("generator_hidden", "generator_lr", "rounds", "local_epochs", "batch_size")),
    ],
)
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        APFL(**wrong)


def test_simulated_devices_need_rounds(given_devices):
    devices = given_devices([1.0], [1.0])
    with pytest.raises(UserError, match=r"(?s)devices.*(aggregation=fedavg|arrivals)"):
        APFL(devices=devices)
    assert APFL(devices=devices, aggregation="fedavg").devices is devices


def test_class_names_that_nobody_knows_say_what_to_do(script, federate):
    """Before any training: the shipped vectors do not have them; a file of one's own would, or another semantics."""
    data = people(script)
    type(data).class_names = ("zero", "qwertyish", "two", "three", "four")
    fed = federate(data)
    with pytest.raises(UserError, match=r"(?s)qwertyish.*docs/methods/apfl\.md.*NamesFile"):
        APFL(**{**TINY, "semantics": ShippedNames()}).init(fed)
    APFL(**{**TINY, "semantics": RandomVectors(dim=8)}).init(fed)


def test_titles():
    assert APFL().title == "AP-FL (MiniLM)"
    assert APFL(semantics=OneHot()).title == "AP-FL (one-hot (control))"
    assert APFL(semantics=RandomVectors()).title == "AP-FL (random (control))"
    assert APFL(semantics=OneHot()).described["semantics"] == "one-hot (control)"
    assert APFL(aggregation="fedavg", reading="literal").title == "AP-FL (MiniLM, in rounds, literal)"
    assert APFL(mix_with="global").title == "AP-FL (MiniLM, with the global model)"
    assert APFL(friend_classes="all").title == "AP-FL (MiniLM, friends of all classes)"
    assert APFL(dropout_interpolation=0.7).title == "AP-FL (MiniLM, λ = 0.7 for dropouts)"
    assert APFL(class_weight="total").title == "AP-FL (MiniLM, weights of all samples)"
    assert APFL(generator_per_class=600).title == "AP-FL (MiniLM, generator's 600 a class)"


def test_the_papers_settings_are_the_defaults():
    made = APFL()
    assert (made.batch_size, made.local_epochs, made.generator_batch, made.generator_lr) == (50, 20, 50, 2e-4)
    assert (made.per_class, made.gamma, made.generator_steps, made.noise_dim, made.project_dim) == (
        600,
        0.5,
        2000,
        20,
        100,
    )
    assert (made.rounds, made.server_lr, made.staleness_exponent, made.finetune_epochs) == (50, 0.6, 0.5, 20)
    assert (made.reading, made.aggregation, made.div_norm) == ("friend", "async", True)
    assert (made.friend_classes, made.class_weight) == ("own", "class")
    assert made.generator_per_class is made.dropout_interpolation is None
