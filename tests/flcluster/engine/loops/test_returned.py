"""What a method returns is what it promised, or it is named with its file at its first steps, and nothing is kept."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from replay import begun
from upload_methods import Breaker

from flcluster.engine.loops.base import EARLY
from flcluster.engine.loops.returned import marks, unsaved
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.loops.uploads import UploadLoop
from flcluster.errors import UserError
from flcluster.protocol import Reply, Round, RoundAlgorithm, Served, UploadAlgorithm

COMMON = {"local_epochs": 1, "batch_size": 16}


@dataclass(frozen=True)
class State:
    models: torch.Tensor
    seen: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rounds(RoundAlgorithm[State]):
    """A mean, which a function changes together with the round: of the old state, the new one, and the round."""

    extra_names = ("spread",)
    change: object = None
    at: int = 0

    def init(self, fed):
        return State(fed.init_rows(1))

    def step(self, state, t, fed):
        cohort = self.select(t, fed)
        training = fed.train(self.job(client, state.models[0], t, fed) for client in cohort.clients)
        models = torch.stack([result.row for result in training]).mean(0, keepdim=True)
        new, done = State(models), Round(cohort, training.results, models)
        return self.change(state, new, done) if self.change and t == self.at else (new, done)

    def served(self, state, t, fed):
        return Served(state.models, np.zeros(2, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Uploads(UploadAlgorithm[State]):
    change: object = None
    first: object = None

    def init(self, fed):
        return State(fed.init_rows(1))

    def join(self, state, client, fed):
        return self.first(state) if self.first else Reply(state.models[0])

    def upload(self, state, up, fed):
        new, reply = State(up.row[None].clone()), Reply(up.row)
        return self.change(state, new, reply) if self.change else (new, reply)


def refused(act, method):
    with pytest.raises(UserError) as found:
        act()
    told = str(found.value)
    assert f"{method} ({Path(__file__)}, line " in told
    return told


def in_rounds(federation, change, **settings):
    return begun(Rounds(**COMMON, rounds=6, change=change, **settings), federation())


def with_uploads(federation, **changes):
    loop = UploadLoop(Uploads(**COMMON, cycles=2, **changes), federation(), None, None)
    loop.begin()
    return loop


def written(state):
    state.models.add_(1)


def noted(state):
    state.seen["t"] = 1


ROUND = [
    (lambda old, new, done: None, "must return a state and a Round, but returned None"),
    (lambda old, new, done: (new, done, 1), "returned a tuple of 3"),
    (lambda old, new, done: (new.models, done), "must return a state of type State, but returned a Tensor (1, "),
    (lambda old, new, done: (new, done.results), "must return a Round, but returned a list of "),
    (lambda old, new, done: (new, replace(done, results=tuple(done.results))), "training.results"),
    (lambda old, new, done: (new, replace(done, results=[1] * 6)), "training.results"),
    (lambda old, new, done: (new, replace(done, results=done.results[1:])), "those of its cohort, in its order"),
    (lambda old, new, done: (new, replace(done, models=new.models[:, :3])), "a row of 83 floating-point numbers"),
    (lambda old, new, done: (new, replace(done, models=new.models.int())), "of int32"),
    (lambda old, new, done: (new, replace(done, which=[1] * 6)), "a Round with 1 models, but says that clients use [1"),
    (lambda old, new, done: (new, replace(done, which=[0])), "a Round with 1 models"),
    (lambda old, new, done: (new, replace(done, extra={"width": 1.0})), "logs 'width', which is not declared"),
    (lambda old, new, done: (new, replace(done, extra={"spread": torch.ones(2)})), "must log a number as 'spread'"),
    (lambda old, new, done: (new, replace(done, extra={"spread": "1"})), "must log a number as 'spread'"),
    (lambda old, new, done: (State(new.models, {"rule": max}), done), "no checkpoint can hold: rule (builtin_function"),
    (
        lambda old, new, done: (State(new.models / 0), done),
        "makes models NaN or infinite, though all that clients sent",
    ),
    (lambda old, new, done: (written(old), (new, done))[1], "changes models of the state that it was given, in place"),
    (lambda old, new, done: (noted(old), (new, done))[1], "changes seen of the state that it was given, in place"),
]


@pytest.mark.parametrize(("change", "said"), ROUND)
def test_a_step_of_rounds(change, said, federation):
    loop = in_rounds(federation, change)
    assert said in refused(loop.advance, "Rounds.step")
    assert loop.position == 0


UPLOAD = [
    (lambda old, new, reply: None, "must return a state and a Reply, but returned None"),
    (lambda old, new, reply: (reply, new), "must return a state of type State, but returned a Reply"),
    (lambda old, new, reply: (new, reply.row), "must return a Reply, but returned a Tensor"),
    (
        lambda old, new, reply: (new, Reply(reply.row[:3])),
        "must return a row of 83 floating-point numbers as its Reply's row",
    ),
    (lambda old, new, reply: (new, Reply(reply.row, torch.ones(3))), "as its Reply's anchor"),
    (lambda old, new, reply: (new, Reply(reply.row, extra={"best": 1.0})), "logs 'best', which is not declared"),
    (lambda old, new, reply: (State(new.models, {0: np.ones(2)}), reply), "no checkpoint can hold: 0 (ndarray)"),
    (lambda old, new, reply: (State(new.models * math.nan), reply), "makes models NaN or infinite"),
    (lambda old, new, reply: (new, Reply(reply.row / 0)), "makes reply[0] NaN or infinite"),
    (lambda old, new, reply: (written(old), (new, reply))[1], "changes models of the state"),
]


@pytest.mark.parametrize(("change", "said"), UPLOAD)
def test_an_upload(change, said, federation):
    loop = with_uploads(federation, change=change)
    assert said in refused(loop.advance, "Uploads.upload")
    assert loop.epoch == 0


def test_what_a_client_begins_with(federation):
    loop = with_uploads(federation, first=lambda state: state.models)
    assert "a row of 83 floating-point numbers as its Reply's row" in refused(
        with_uploads(federation, first=lambda state: Reply(state.models)).advance, "Uploads.join"
    )
    assert "must return a Reply" in refused(loop.advance, "Uploads.join")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (lambda fed: None, "must return a state of type State, but returned None"),
        (lambda fed: {"models": fed.init_rows(1)}, "but returned a dict"),
        (lambda fed: State(fed.init_rows(1), {"by": lambda: 1}), "no checkpoint can hold: by (function)"),
        (lambda fed: State(fed.init_rows(1), {"by": np.float64(1)}), "no checkpoint can hold: by (float64)"),
    ],
)
def test_a_first_state(state, said, federation, monkeypatch):
    monkeypatch.setattr(Rounds, "init", lambda self, fed: state(fed))
    assert said in refused(lambda: begun(Rounds(**COMMON), federation()), "Rounds.init")


def test_a_method_says_what_its_state_is(federation, monkeypatch):
    monkeypatch.delattr(Rounds, "state_type")
    monkeypatch.delattr(RoundAlgorithm, "state_type", raising=False)
    with pytest.raises(UserError, match="does not say what its state is"):
        begun(Rounds(**COMMON), federation())


def test_what_is_served_and_measured(federation, monkeypatch):
    loop = begun(Rounds(**COMMON, measure="all"), federation())
    assert "must say of 6 clients which model each uses, but says 2" in refused(loop.gauges, "Rounds.served")
    for name in ("gauges", "measures"):
        monkeypatch.setattr(Rounds, name, lambda self, *_: {"odd": 1.0})
        assert "logs 'odd', which is not declared" in refused(
            begun(Rounds(**COMMON), federation()).gauges, f"Rounds.{name}"
        )
        monkeypatch.delattr(Rounds, name)


def test_rows_that_are_made_when_they_are_asked_for(federation):
    loop = in_rounds(federation, lambda old, new, done: (new, replace(done, models=[new.models[0, :3]])))
    assert "a row of 83" in refused(loop.advance, "Rounds.step")


def test_later_a_state_is_not_looked_at_so_closely_but_undone(federation):
    """What is changed in place is looked for at the first steps; arithmetic that fails later is undone, as ever."""
    loop = in_rounds(federation, lambda old, new, done: (written(old), (new, done))[1], at=EARLY)
    spoilt = in_rounds(federation, lambda old, new, done: (State(new.models / 0), done), at=1)
    assert all(loop.advance()[0].status == "accepted" for _ in range(EARLY + 1))
    assert [spoilt.advance()[0].status for _ in range(3)] == ["accepted", "undone", "accepted"]


def test_what_clients_sent_is_not_the_methods_fault(federation):
    """Numbers whose squares are finite and whose products are not: undone, and told with the clients."""
    fed = federation(callbacks=[Breaker({0}, lambda row: row.fill_(1e18))])
    loop = UploadLoop(Uploads(**COMMON, cycles=2, change=lambda o, n, r: (State(n.models**3), r)), fed, None, None)
    loop.begin()
    assert loop.advance()[0].status == "undone" and "undid the upload of client" in loop.troubles[0]


def test_marks_see_what_is_written_and_copy_nothing():
    state = State(torch.zeros(2), {"memory": {"a": [1, math.nan]}, "name": "x"})
    before = marks(state)
    assert marks(state) == before
    state.seen["memory"]["a"].append(2)
    assert [path[-1] for path, value in marks(state).items() if before.get(path) != value] == ["a", "a[2]"]


def test_what_a_checkpoint_can_hold():
    kept = {"t": torch.ones(1), "n": [1, 2.0, None, "x", b"y", True], "d": {3: (1, {4})}, "s": torch.Size([1])}
    assert unsaved(kept) is None
    assert unsaved({"a": {"b": [1, object()]}}) == "b[1] (object)"


def test_nobody_learns_from_the_first_step_on(federation, mlp):
    """A module of a user's own; those of ours are told at the end of the run."""

    class Fast(type(mlp())):
        pass

    for kind, own in ((Fast, True), (type(mlp()), False)):
        module = kind(3, (1, 2, 3), hidden=[8], lr=1e30)
        loop = RoundLoop(
            Rounds(**COMMON, rounds=3, change=lambda old, new, done: (old, done)), federation(module=module), None
        )
        loop.begin()
        if own:
            with pytest.raises(
                UserError, match=r"Fast \(.*all of the first 6 local trainings .* lower its learning rate"
            ):
                loop.advance()
        else:
            assert {exchange.status for exchange in loop.advance()} == {"refused"}
        uploads = UploadLoop(
            Uploads(**COMMON, cycles=3), federation(module=kind(3, (1, 2, 3), hidden=[8], lr=1e30)), None, None
        )
        uploads.begin()
        refusals = [uploads.advance()[0].status for _ in range(5)]
        assert refusals == ["refused"] * 5
        if own:
            with pytest.raises(UserError, match="all of the first 6 local trainings"):
                uploads.advance()


def test_trainings_that_fail_are_the_clients_once_one_did_not(federation, mlp):
    class Own(type(mlp())):
        pass

    loop = begun(Rounds(**COMMON), federation(module=Own(3, (1, 2, 3), hidden=[8])))
    for finite in (False, False, True, *[False] * 20):
        loop.heard(finite)
    other = begun(Rounds(**COMMON), federation(module=Own(3, (1, 2, 3), hidden=[8])))
    other.restore({**loop.save(), "state": other.algorithm.pack(other.state)})
    for _ in range(20):  # a run that goes on has learnt already
        other.heard(False)
