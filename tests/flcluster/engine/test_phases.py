"""Runs of several phases: whose step it is, what a checkpoint must agree with, what is owed from one to the next.

Two rounds, a phase of no steps, and three steps on the data of round 1.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from federations import Given
from replay import begun

from flcluster.algorithms import FedAvg
from flcluster.devices.availability import from_periods
from flcluster.devices.profiles import Profile
from flcluster.errors import UserError
from flcluster.protocol.outcome import Round
from flcluster.protocol.participation import Cohort
from flcluster.protocol.rounds import Phase

COMMON = {"local_epochs": 1, "batch_size": 16}


@dataclass(frozen=True, kw_only=True)
class ThreePhases(FedAvg):
    """FedAvg, nothing, and steps of the server alone but for the last, which is a round again."""

    lengths: tuple[int, int, int] = (2, 0, 3)

    def phases(self, fed):
        names, steps = ("rounds", "pauses", "lessons"), (self.step, self.never, self.lesson)
        return [
            Phase(name, length, step, data_round=self.lengths[0] - 1 if i else None)
            for i, (name, length, step) in enumerate(zip(names, self.lengths, steps, strict=True))
        ]

    def never(self, state, t, fed):
        raise AssertionError("a phase of no steps took one")

    def lesson(self, state, t, fed):
        if t + 1 == self.lengths[2]:
            return self.step(state, t, fed)
        return state, Round(Cohort([], seconds=0.25), [], state.models, server_compute=10 + t)


def loop_of(federation, lengths=(2, 0, 3), **more):
    return begun(ThreePhases(**COMMON, rounds=max(lengths[0], 1), lengths=lengths, **more), federation())


def named(found):
    return found[0].name, found[1]


def test_where_a_step_is(federation):
    loop = loop_of(federation)
    assert loop.total == 5
    expected = [("rounds", 0), ("rounds", 1), ("lessons", 0), ("lessons", 1), ("lessons", 2), ("lessons", 3)]
    assert [named(loop.where(position)) for position in range(6)] == expected


@pytest.mark.parametrize(
    ("lengths", "first"), [((0, 1, 1), "pauses"), ((0, 0, 1), "lessons"), ((1, 1, 0), "rounds"), ((1, 0, 0), "rounds")]
)
def test_a_run_may_begin_or_end_with_a_phase_of_no_steps(lengths, first, federation):
    loop = loop_of(federation, lengths)
    assert (loop.total, named(loop.where(0))) == (sum(lengths), (first, 0))
    assert loop.phase == first


def test_the_last_step_is_the_one_that_was_taken(federation):
    """Before the first one: the first. Closing is what follows the rounds, from its first step on."""
    loop, seen = loop_of(federation), []
    assert not loop.steady
    for position in range(6):
        seen.append((*named(loop.last), loop.phase, loop.closing))
        if position < 5:
            loop.advance()
    assert seen == [
        ("rounds", 0, "rounds", False),
        ("rounds", 0, "rounds", False),
        ("rounds", 1, "rounds", False),
        ("lessons", 0, "lessons", True),
        ("lessons", 1, "lessons", True),
        ("lessons", 2, "lessons", True),
    ]


def test_one_phase_is_steady(federation):
    assert begun(FedAvg(**COMMON, rounds=2), federation()).steady


def test_steps_after_the_rounds_are_told_of_on_the_last_rounds_data(federation, blobs):
    """Every client holds other numbers of samples in every round: those of the mixture are round 1's."""
    loop = loop_of(federation)
    steps = [loop.advance() for _ in range(5)]
    assert [len(step) for step in steps] == [6, 6, 0, 0, 6]
    for t, step in ((0, steps[0]), (1, steps[1]), (1, steps[4])):
        for e in step:
            assert torch.equal(e.true, blobs().shard(e.client, t).mixture)
    assert [step[0].cycle for step in steps if step] == [0, 1, 4]


def test_what_the_server_did_is_owed_to_the_next_update(federation):
    """Two steps without clients, 10 and 11 passes: 21 are told of with the first client's next update, once."""
    loop = loop_of(federation)
    for _ in range(4):
        loop.advance()
    assert (loop.owed, loop.save()["owed"]) == (21, 21)
    other = loop_of(federation)
    other.restore(loop.save())
    for going_on in (loop, other):
        assert [e.server_compute for e in going_on.advance()] == [21, 0, 0, 0, 0, 0]
        assert going_on.owed == 0


def test_nobody_is_waited_for_after_the_rounds(federation):
    """Devices that are never online: a round without anybody takes a minute, a step of the server its quarter."""

    class Offline(Given):
        def profile(self, clients, seed):
            return Profile(self.ms, self.kbps, from_periods([([1e8], [1e9], 1e9)] * clients, np.arange(clients)))

    loop, times = loop_of(federation, devices=Offline([1.0] * 6, [1.0] * 6)), []
    for _ in range(4):
        before = loop.time
        assert loop.advance() == []
        times.append(loop.time - before)
    assert times == [60.0, 60.0, 0.25, 0.25]


@pytest.mark.parametrize("stop", range(6))
def test_a_checkpoint_says_where_the_run_is(stop, federation):
    loop = loop_of(federation)
    for _ in range(stop):
        loop.advance()
    saved = loop.save()
    assert (saved["phase"], saved["step"], saved["lost"]) == (*named(loop.last), 0)
    other = loop_of(federation)
    other.restore(saved)
    assert (other.position, other.epoch, other.time, named(other.last)) == (stop, stop, loop.time, named(loop.last))
    for _ in range(stop, 5):
        loop.advance(), other.advance()
    assert torch.equal(other.state.models, loop.state.models)
    assert other.time == loop.time


@pytest.mark.parametrize(
    ("stop", "lengths", "goes_on"),
    [
        (2, (7, 0, 3), True),  # more rounds, while there are rounds
        (2, (2, 4, 3), True),  # what comes later may be of any length
        (4, (2, 0, 9), True),
        (2, (1, 0, 3), False),  # a round is over that would not have been
        (3, (7, 0, 3), False),  # lessons that came before the rounds were over
        (3, (2, 1, 3), False),
        (3, (1, 0, 3), False),
    ],
)
def test_phases_that_have_ended_must_be_as_long_as_they_were(stop, lengths, goes_on, federation):
    loop = loop_of(federation)
    for _ in range(stop):
        loop.advance()
    other = loop_of(federation, lengths)
    if goes_on:
        other.restore(loop.save())
        assert named(other.last) == named(loop.last)
    else:
        with pytest.raises(UserError, match=rf"algorithm\.rounds is {lengths[0]}, .*step \d of its {loop.phase}"):
            other.restore(loop.save())


def test_a_run_of_one_phase_may_become_shorter_or_longer(federation):
    loop = begun(FedAvg(**COMMON, rounds=3), federation())
    for _ in range(2):
        loop.advance()
    for rounds in (1, 9):
        other = begun(FedAvg(**COMMON, rounds=rounds), federation())
        other.restore(loop.save())
        assert (other.position, other.total) == (2, rounds)
