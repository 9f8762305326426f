"""The loop of uploads: training ahead changes nothing, a refused upload leaves no trace, a run resumes bit for bit."""

import math

import pytest
import torch
from plain_servers import SEED
from upload_methods import COMMON, METHODS, Breaker, compare, make, run, with_nan

from flcluster.algorithms import Local
from flcluster.engine.run import make_loop
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint
from flcluster.records.recorder import Recorder


@pytest.fixture(params=["cdfl", "ccfl", "fedsoft", "fedbuff", "ca2fl", "local"])
def method(request):
    return METHODS[request.param]()


# --------------------------------------------------------------------------------------------------------- look-ahead


def same_exchanges(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        for name, value in vars(x).items():
            other = getattr(y, name)
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, other), name
            else:
                assert value == other or (value != value and other != other), name


def same_loops(a, b):
    assert (a.position, a.epoch) == (b.position, b.epoch)
    for name, value in vars(a.state).items():
        other = getattr(b.state, name)
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.nan_to_num(-1), other.nan_to_num(-1)), name
        else:
            assert value == other, name
    assert torch.equal(a.synced, b.synced)
    assert set(a.fed.bank.tables) == set(b.fed.bank.tables)
    for name, table in a.fed.bank.tables.items():
        for i in range(table.count):
            assert torch.equal(table[i], b.fed.bank.tables[name][i]), (name, i)


def test_look_ahead_changes_nothing(method, federation):
    """Bit for bit, also with rows in files."""
    algorithm = method[0]
    one = make(federation, algorithm, 1)
    expected = run(one)
    for look_ahead, budget in ((7, 2**30), (50, 0)):
        other = make(federation, algorithm, look_ahead, budget=budget)
        same_exchanges(run(other), expected)
        same_loops(other, one)


def test_training_ahead_takes_every_client_once(federation):
    """With a long look-ahead the first step trains every client that comes, each for its first upload only."""
    loop = make(federation, Local(**COMMON), 50)
    loop.advance()
    assert sorted([*loop.ahead.ready, 0]) == sorted(
        {client: n for n, client in reversed(list(enumerate(loop.clients)))}.values()
    )


def with_infinity(row):
    row[-1] = -math.inf
    return row


SPOILERS = {
    "nan": (with_nan, "NaN"),
    "infinity": (with_infinity, "infinite"),
    "short": (lambda row: row[:-1], "shape"),
    "square": (lambda row: row[None], "shape"),
}


@pytest.mark.parametrize(
    ("name", "spoiler"),
    [*((name, "nan") for name in METHODS), *(("cdfl", spoiler) for spoiler in SPOILERS if spoiler != "nan")],
)
def test_a_refused_upload_leaves_everything_as_it_was(name, spoiler, federation):
    method, (spoil, word) = METHODS[name](), SPOILERS[spoiler]
    breaker = Breaker({9}, spoil)
    loop = make(federation, method[0], callbacks=[breaker])
    for _ in range(9):
        loop.advance()
    client = loop.clients[9]
    before = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in vars(loop.state).items()}
    tables = {
        name: [table[i].clone() for i in range(table.count) if i != client]
        for name, table in loop.fed.bank.tables.items()
    }
    synced, epoch = loop.synced.clone(), loop.epoch
    known = client in loop.starts
    start = loop.starts[client].clone()
    (exchange,) = loop.advance()
    for name, value in before.items():
        now = getattr(loop.state, name)
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.nan_to_num(-1), now.nan_to_num(-1)), name
        else:
            assert value == now, name
    for name, rows in tables.items():
        others = [i for i in range(6) if i != client]
        assert all(torch.equal(loop.fed.bank.tables[name][i], row) for i, row in zip(others, rows, strict=True))
    assert known  # the schedule's tenth upload is of a client that had uploaded before
    assert torch.equal(loop.starts[client], start)
    assert torch.equal(loop.synced, synced)
    assert loop.epoch == epoch
    assert (exchange.status, exchange.client, exchange.estimate) == ("refused", client, None)
    assert exchange.acc_after == loop.fed.accuracy(start, loop.fed.data.shard(client, exchange.cycle).test)
    ((position, refused, why),) = breaker.refused
    assert (position, refused) == (9, client)
    assert word in why


class BadLosses:
    """Spoils what a client found on the server's data, and leaves its model as it is."""

    def __init__(self, value):
        self.value, self.refused = value, []

    def on_upload(self, loop, upload):
        upload.seen = torch.tensor([0.5, self.value, 0.5], dtype=torch.float64)

    def on_refused(self, loop, upload, why):
        self.refused.append((upload.client, why))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["cdfl", "ccfl"])
def test_losses_that_are_not_finite_are_refused(name, value, federation):
    """One such loss would make an estimate NaN, which the client would keep: nothing may change, history neither."""
    bad = BadLosses(value)
    loop = make(federation, METHODS[name]()[0], callbacks=[bad])
    state = loop.state
    (exchange,) = loop.advance()
    assert (exchange.status, exchange.estimate) == ("refused", None)
    assert loop.state is state
    assert loop.epoch == 0
    assert bad.refused == [(exchange.client, "has NaN or infinite losses")]


@pytest.mark.parametrize("name", ["cdfl", "fedbuff", "ca2fl", "local"])
def test_a_run_with_refused_uploads_is_the_plain_method_without_them(name, federation, blobs, mlp, plain, tmp_path):
    """The clients go on with their last model and their next data; epochs and versions do not count the refusals."""
    algorithm, server, settings = METHODS[name]()
    broken = {0, 1, 8, 9, 20, 33, 41}
    loop = make(federation, algorithm, callbacks=[Breaker(broken, with_nan)])
    exchanges = compare(loop, server(plain, blobs(), mlp, **settings, total=42), plain, broken)
    assert loop.epoch == 42 - len(broken)
    recorder = Recorder(6, 3, algorithm.extra_metrics)
    recorder.open(tmp_path, None)
    for exchange in exchanges:
        recorder.add(exchange, loop.epoch)
    assert recorder.summary()["refused"] == len(broken)
    assert recorder.summary()["updates"] == 42


@pytest.mark.parametrize("name", ["cdfl", "fedsoft", "ca2fl"])
def test_look_ahead_changes_nothing_with_refused_uploads(name, federation):
    loops = [
        make(federation, METHODS[name]()[0], look_ahead, callbacks=[Breaker({0, 8, 9, 20, 41}, with_nan)])
        for look_ahead in (1, 50)
    ]
    same_exchanges(*(run(loop) for loop in loops))
    same_loops(*loops)


# ------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize(
    ("name", "budget"),
    [("cdfl", 2**30), *((name, 0) for name in ("cdfl", "ccfl", "fedsoft", "fedbuff", "ca2fl", "local"))],
)
def test_a_resumed_run_goes_on_bit_for_bit(name, budget, federation, tmp_path):
    """Saved at 17 of 42 by a loop that has trained ahead and went on before it was killed."""
    method = METHODS[name]()
    straight = make(federation, method[0])
    expected = run(straight)
    folder = tmp_path / "rows"
    killed = make(federation, method[0], 7, budget=budget, folder=folder)
    for _ in range(17):
        killed.advance()
    save_checkpoint(tmp_path / "c.ckpt", {"bank": killed.fed.bank.save(), "loop": killed.save()})
    killed.fed.bank.committed()
    for _ in range(9):
        killed.advance()
    saved = load_checkpoint(tmp_path / "c.ckpt")
    resumed = make_loop(method[0], federation(seed=SEED, budget=budget, folder=folder), 3, None)
    resumed.fed.bank.restore(saved["bank"])
    resumed.restore(saved["loop"])
    same_exchanges(run(resumed), expected[17:])
    same_loops(resumed, straight)
