"""Upload methods through the loop, against the same methods written down plainly, one upload at a time.

The plain versions hold models as modules and server state as lists, and follow the SPEC's sections 1.3-1.7 and 2.
"""

import copy
import math

import numpy as np
import pytest
import torch
from lightning import LightningModule
from torch import nn

from flcluster.algorithms import CA2FL, CCFL, CDFL, FedBuff, FedSoftAsync, Local
from flcluster.devices.schedule import RoundRobinArrivals
from flcluster.engine.run import make_loop
from flcluster.engine.upload_loop import UploadLoop
from flcluster.errors import UserError
from flcluster.records.checkpoint import load_checkpoint, save_checkpoint
from flcluster.records.recorder import Recorder

SEED, EPOCHS, BATCH, PRETRAIN = 11, 2, 16, 2
COMMON = {"local_epochs": EPOCHS, "batch_size": BATCH, "pretrain_epochs": PRETRAIN, "cycles": 7.0}
TOLERANCE = 1e-5


def close(actual, expected, what):
    torch.testing.assert_close(
        torch.as_tensor(actual).double(),
        torch.as_tensor(expected).double(),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        msg=lambda text: f"{what}: {text}",
    )


class Served:
    """What a plain server did with one upload."""

    def __init__(self, reply, estimate=None, deprecated=False):
        self.reply, self.estimate, self.deprecated = reply, estimate, deprecated


class PlainServer:
    """The client cycle of section 1.3 for every method; subclasses are the servers."""

    prox = 0.0

    def __init__(self, plain, data, mlp, **settings):
        self.plain, self.data, self.settings = plain, data, settings
        first = plain.first_model(SEED, mlp)
        self.clusters = [
            self.trained(first, k, data.proxy(k), epochs=PRETRAIN, purpose="pretrain") for k in range(data.num_clusters)
        ]
        self.initial = plain.mixed([1 / data.num_clusters] * data.num_clusters, self.clusters)
        self.t = 0
        self.models = {m: self.initial for m in range(data.num_clients)}
        self.synced = dict.fromkeys(range(data.num_clients), 0)
        self.cycle = dict.fromkeys(range(data.num_clients), 0)
        self.begin()

    def begin(self):
        pass

    def trained(self, module, client, view, cycle=0, epochs=EPOCHS, purpose="train", pulls=()):
        return self.plain.train(
            module,
            lambda m: m.configure_optimizers(),
            view,
            seed=SEED,
            client=client,
            cycle=cycle,
            epochs=epochs,
            batch=BATCH,
            purpose=purpose,
            pulls=pulls,
        )[0]

    def pulls(self, client, view):
        return [(self.prox, self.models[client])] if self.prox else []

    def start(self, client):
        return self.models[client]

    def aged(self, s):
        """Staleness in its unit: a cycle is as many epochs as there are clients."""
        return s if self.settings["staleness_unit"] == "epochs" else s / self.data.num_clients

    def arrive(self, client, refused=False):
        """One client trains on the data of its cycle and uploads; returns (v, accuracy before and after, served)."""
        shard = self.data.shard(client, self.cycle[client])
        view = shard.train
        v = self.trained(self.start(client), client, view, self.cycle[client], pulls=self.pulls(client, view))
        self.cycle[client] += 1
        before = self.plain.accuracy(v, shard.test)
        if refused:
            return v, before, self.plain.accuracy(self.models[client], shard.test), None
        self.t += 1
        served = self.serve(client, v)
        self.models[client], self.synced[client] = served.reply, self.t
        return v, before, self.plain.accuracy(served.reply, shard.test), served

    def lerp(self, k, v, ratio):
        self.clusters[k] = self.plain.mixed([1 - ratio, ratio], [self.clusters[k], v])


def fresh_factor(s, a, b):
    return 1.0 if s < b else 1 / (a * s + 1)


class PlainCDFL(PlainServer):
    ccfl = False

    def begin(self):
        self.prox = self.settings["rho"]
        K = len(self.clusters)
        self.changed, self.known, self.log, self.filtered, self.clamped = [0] * K, {}, [[] for _ in range(K)], 0, 0

    def serve(self, client, v):
        c, K, tau = self.settings, len(self.clusters), self.synced[client]
        if self.t - tau > c["max_staleness"]:
            weights = self.known.get(client, [1 / K] * K)
            return Served(self.plain.mixed(weights, self.clusters), deprecated=True)
        raw = self.measure(v)
        weights = self.estimate(raw)
        top = max(weights)
        for k in range(K):
            if weights[k] < 1 / K - 1e-9:
                continue
            s = self.aged((self.changed[k] if self.ccfl else self.t) - tau)
            if self.ccfl and self.refuses(k, raw[k]):
                self.filtered += 1
                continue
            self.lerp(k, v, c["beta0"] * weights[k] / top * fresh_factor(s, c["a"], c["b"]))
            self.changed[k] = self.t
        for k in range(K):
            self.log[k].append(raw[k])
        self.known[client] = weights
        return Served(self.plain.mixed(weights, self.clusters), estimate=weights)

    def measure(self, v):
        out = []
        for k, w in enumerate(self.clusters):
            loss = self.plain.mean_loss(v, self.data.proxy(k))
            gap = abs(self.plain.mean_loss(w, self.data.proxy(k)) - loss)
            squares = sum(
                float(((p - q).detach().double() ** 2).sum())
                for p, q in zip(v.parameters(), w.parameters(), strict=True)
            )
            out.append((loss, gap, math.sqrt(squares)))
        return out

    def estimate(self, raw):
        c, K = self.settings, len(raw)
        scores = [0.0] * K
        for j, (weight, unit) in enumerate([(c["c1"], 16), (c["c2"], 16), (1 - c["c1"] - c["c2"], 1)]):
            x = [unit * raw[k][j] for k in range(K)]
            bar = min(x) if c["bars"][j] == "min" else c["bars"][j]
            self.clamped += sum(value < bar for value in x)
            x = [max(value - bar, 0.0) for value in x]
            total = sum(x)
            for k in range(K):
                scores[k] += weight * ((total - x[k]) / total if total > 1e-12 else (K - 1) / K) / (K - 1)
        for amplifier in c["amplifiers"]:
            powers = [math.exp(amplifier * value) for value in scores]
            scores = [p / sum(powers) for p in powers]
        return scores

    def refuses(self, k, values):
        """Section 1.7, from half of the run on, with at least 20 entries (a lower quantile than 70 % refuses more)."""
        if self.started() < 0.5 or len(self.log[k]) < 20:
            return False
        return any(
            values[j] > np.quantile([past[j] for past in self.log[k]], self.settings["adjust_quantile"])
            for j in range(3)
        )

    def started(self):
        """The share of the run before this upload (no upload is refused in the CCFL test)."""
        return (self.t - 1) / self.settings["total"]


class PlainCCFL(PlainCDFL):
    ccfl = True


class PlainFedSoft(PlainServer):
    """Every client keeps the K models it received and its μ."""

    def begin(self):
        self.received = {m: list(self.clusters) for m in range(self.data.num_clients)}
        self.shares, self.changed = {}, 0

    def pulls(self, client, view):
        losses = torch.stack([self.plain.per_sample(w, view)[0] for w in self.received[client]])
        K, n = losses.shape
        counts = [0.0] * K
        for i in range(n):
            counts[int(losses[:, i].argmin())] += 1
        counts = [count or self.settings["sigma"] * n for count in counts]
        self.shares[client] = [count / sum(counts) for count in counts]
        rho = self.settings["rho"]
        if self.settings["pull"] == "reply":
            return [(rho, self.models[client])]
        return [(rho * mu, w) for mu, w in zip(self.shares[client], self.received[client], strict=True)]

    def serve(self, client, v):
        c, mu, s = self.settings, self.shares[client], self.t - self.synced[client]
        deprecated = s > c["max_staleness"]
        if not deprecated:  # every cluster moves at every such upload
            age = self.aged(s if c["staleness"] == "cdfl" else self.changed - self.synced[client])
            for k in range(len(self.clusters)):
                self.lerp(k, v, c["beta0"] * mu[k] * fresh_factor(age, c["a"], c["b"]))
            self.changed = self.t
        self.received[client] = list(self.clusters)
        return Served(self.plain.mixed(mu, self.clusters), None if deprecated else mu, deprecated)


class PlainFedBuff(PlainServer):
    def begin(self):
        self.model, self.version, self.buffer = self.initial, 0, []
        self.has = dict.fromkeys(range(self.data.num_clients), 0)

    def serve(self, client, v):
        delta = update(self.plain, v, self.models[client], self.model)
        self.buffer.append((1 / math.sqrt(1 + self.version - self.has[client]), delta))
        if len(self.buffer) == self.settings["buffer_size"]:
            step = sum(weight * delta for weight, delta in self.buffer) / len(self.buffer)
            self.model = moved(self.model, self.settings["server_lr"] * step)
            self.version, self.buffer = self.version + 1, []
        self.has[client] = self.version
        return Served(self.model)


class PlainCA2FL(PlainServer):
    def begin(self):
        self.model, self.acc, self.count = self.initial, 0.0, 0
        self.caches = [torch.zeros_like(self.plain.vector(self.initial)) for _ in range(self.data.num_clients)]
        self.h = torch.zeros_like(self.caches[0])

    def serve(self, client, v):
        delta = update(self.plain, v, self.models[client], self.model)
        self.acc = self.acc + delta - self.caches[client]
        self.caches[client] = delta.clone()
        self.caches[client][size_of(v) :] = 0  # statistics are averaged, not calibrated
        self.count += 1
        if self.count == self.settings["buffer_size"]:
            self.model = moved(self.model, self.settings["server_lr"] * (self.h + self.acc / self.count))
            self.h = sum(self.caches) / len(self.caches)
            self.acc, self.count = 0.0, 0
        return Served(self.model)


class PlainLocal(PlainServer):
    def begin(self):
        self.prox = self.settings["rho"]

    def start(self, client):
        return self.initial if self.settings["start"] == "common" else self.models[client]

    def pulls(self, client, view):
        return [(self.prox, self.start(client))]

    def serve(self, client, v):
        return Served(v)


def size_of(module):
    return sum(p.numel() for p in module.parameters())


def update(plain, v, start, model):
    """Δ = v − start; of running statistics v − model, so that steps move them towards a mean of uploads."""
    p = size_of(v)
    return torch.cat([(plain.vector(v) - plain.vector(start))[:p], (plain.vector(v) - plain.vector(model))[p:]])


def moved(module, step):
    out = copy.deepcopy(module)
    places = [*out.parameters(), *(buffer for buffer in out.buffers() if buffer.is_floating_point())]
    with torch.no_grad():
        for place, part in zip(places, step.split([place.numel() for place in places]), strict=True):
            place += part.view_as(place)
    return out


# ----------------------------------------------------------------------------------------------- the methods compared

AGEING = {"beta0": 0.3, "a": 9.0, "b": 0.5, "max_staleness": 8, "staleness_unit": "cycles"}  # six clients: b = 3 epochs
IN_EPOCHS = {"a": 2.0, "b": 3.0, "staleness_unit": "epochs"}
CONSTANT = {"c1": 0.5, "c2": 0.25, "rho": 0.1, **AGEING}


def cdfl_pair(bars, amplifiers, cls=CDFL, plain=PlainCDFL, **settings):
    values = {**CONSTANT, **settings}
    algorithm = cls(
        **COMMON,
        **values,
        amplifier=amplifiers if len(amplifiers) > 1 else amplifiers[0],
        loss_bar=bars[0],
        gap_bar=bars[1],
        distance_bar=bars[2],
    )
    return algorithm, plain, {**values, "bars": bars, "amplifiers": amplifiers}


SOFT = {"rho": 0.1, "sigma": 1e-4, "pull": "clusters", "staleness": "cdfl", **AGEING}


def soft_pair(**settings):
    values = {**SOFT, **settings}
    return FedSoftAsync(**COMMON, **values), PlainFedSoft, values


def local_pair(**settings):
    values = {"start": "common", "rho": 0.0, **settings}
    return Local(**COMMON, **values), PlainLocal, values


METHODS = {
    "cdfl": lambda: cdfl_pair((0.0, 0.0, 0.0), [7.0]),
    "cdfl_bar": lambda: cdfl_pair((8.0, 1.0, 0.0), [3.0]),
    "cdfl_min": lambda: cdfl_pair(("min", "min", "min"), [4.0, 3.0], rho=0.5),
    "ccfl": lambda: cdfl_pair((0.0, 0.0, 0.0), [3.0], CCFL, PlainCCFL, max_staleness=12, adjust_quantile=0.3),
    "cdfl_epochs": lambda: cdfl_pair((0.0, 0.0, 0.0), [7.0], **IN_EPOCHS),
    "ccfl_epochs": lambda: cdfl_pair(
        (0.0, 0.0, 0.0), [3.0], CCFL, PlainCCFL, max_staleness=12, adjust_quantile=0.3, **IN_EPOCHS
    ),
    "fedsoft": soft_pair,
    "fedsoft_reply": lambda: soft_pair(pull="reply"),
    "fedsoft_epochs": lambda: soft_pair(**IN_EPOCHS),
    "fedsoft_ccfl": lambda: soft_pair(staleness="ccfl"),
    "fedbuff": lambda: (
        FedBuff(**COMMON, buffer_size=4, server_lr=0.7),
        PlainFedBuff,
        {"buffer_size": 4, "server_lr": 0.7},
    ),
    "ca2fl": lambda: (CA2FL(**COMMON, buffer_size=5, server_lr=0.8), PlainCA2FL, {"buffer_size": 5, "server_lr": 0.8}),
    "local": local_pair,
    "local_pulled": lambda: local_pair(rho=0.5),
    "local_own": lambda: local_pair(start="own"),
}


class Normed(LightningModule):
    """A network whose rows end in running statistics."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture(params=METHODS)
def variant(request):
    return METHODS[request.param]()


@pytest.fixture(params=["cdfl", "ccfl", "fedsoft", "fedbuff", "ca2fl", "local"])
def method(request):
    return METHODS[request.param]()


def make(federation, algorithm, look_ahead=1, **kwargs):
    loop = make_loop(algorithm, federation(seed=SEED, **kwargs), look_ahead, None)
    assert isinstance(loop, UploadLoop)
    loop.begin()
    return loop


def compare(loop, server, plain, broken=()):
    """Walk along the schedule with both and compare after every upload; return the exchanges."""
    exchanges = []
    for n, client in enumerate(loop.schedule.clients.tolist()):
        tau = server.synced[client]
        _, before, after, served = server.arrive(client, refused=n in broken)
        (exchange,) = loop.advance()
        exchanges.append(exchange)
        assert loop.position == n + 1
        assert loop.epoch == server.t
        assert int(loop.synced[client]) == server.synced[client]
        close(loop.starts[client], plain.vector(server.models[client]), f"model of client {client} at {n}")
        clusters = loop.algorithm.clusters(loop.state)
        if clusters is not None:
            close(clusters, torch.stack([plain.vector(w) for w in server.clusters]), f"clusters at {n}")
        assert exchange.client == client
        assert exchange.acc_after == pytest.approx(after, abs=1e-9)
        if n in broken:
            assert exchange.status == "refused"
            continue
        assert exchange.acc_before == pytest.approx(before, abs=1e-9)
        assert exchange.staleness == server.t - tau
        assert exchange.status == ("deprecated" if served.deprecated else "accepted")
        assert (exchange.estimate is None) == (served.estimate is None)
        if served.estimate is not None:
            close(exchange.estimate, served.estimate, f"estimate at {n}")
    return exchanges


def test_the_loop_is_the_plain_method(variant, federation, blobs, mlp, plain):
    algorithm, server, settings = variant
    loop = make(federation, algorithm)
    total = len(loop.schedule)
    assert total == loop.total == 42
    reference = server(plain, blobs(), mlp, **settings, total=total)
    begun = algorithm.clusters(loop.state)
    start = None if begun is None else begun.clone()
    exchanges = compare(loop, reference, plain)
    if "max_staleness" in settings:  # the test is worth something: all branches were taken
        counts = [e.status for e in exchanges]
        assert counts.count("deprecated") >= 3
        assert sum(e.fresh for e in exchanges) >= 3
        assert sum(not e.fresh for e in exchanges if e.status == "accepted") >= 3
        assert float((algorithm.clusters(loop.state) - start).abs().max()) > 1e-2
    if isinstance(algorithm, CDFL):
        assert sum(e.extra["clamped"] for e in exchanges if e.extra) == reference.clamped
        assert sum(e.extra["filtered"] for e in exchanges if e.extra) == reference.filtered
        assert (reference.filtered > 0) == isinstance(algorithm, CCFL)
        assert (reference.clamped > 0) == (settings["bars"][0] == 8.0)


@pytest.mark.parametrize("name", ["cdfl", "ccfl", "fedsoft", "fedbuff", "ca2fl", "local"])
def test_with_batch_norm_the_loop_is_the_plain_method(name, federation, blobs, plain):
    """Distances are over parameters only; running statistics are mixed and moved like parameters, or averaged."""
    algorithm, server, settings = METHODS[name]()
    loop = make(federation, algorithm, module=plain.first_model(SEED, Normed))
    assert loop.fed.layout.num_parameters == len(loop.fed.layout.row) - 16
    compare(loop, server(plain, blobs(), Normed, **settings, total=loop.total), plain)


def test_a_cycle_is_as_many_epochs_as_clients_take_part(federation):
    """b = 0.5 cycles of six clients: uploads up to two epochs after the last are fresh, at three they are not."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0])
    loop, seen = make(federation, algorithm), {}
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        seen.setdefault(exchange.staleness, set()).add(exchange.fresh)
    assert seen[2] == {True} and seen[3] == {False}


@pytest.mark.parametrize("start", ["common", "own"])
def test_an_upload_tells_what_its_training_started_from(start, federation):
    seen = []

    class Watch:
        def on_upload(self, loop, upload):
            seen.append((upload.client, upload.start.clone(), upload.row.clone()))

    loop = make(federation, local_pair(start=start)[0], callbacks=[Watch()])
    held = {}
    while loop.position < loop.total:
        loop.advance()
        client, began, row = seen[-1]
        assert torch.equal(began, held.get(client, loop.state.initial) if start == "own" else loop.state.initial)
        held[client] = row
    assert len(held) < len(seen)


def test_papers_b_never_bites_in_cycles(federation):
    """With τ0 the number of clients no upload that counts is older than one cycle (the SPEC's own remark)."""
    loop = make(federation, CDFL(**COMMON))
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        assert exchange.fresh == (exchange.status == "accepted")


@pytest.mark.parametrize(
    ("algorithm", "title"),
    [
        (CDFL(), "CDFL"),
        (CCFL(staleness_unit="epochs"), "CCFL (staleness in epochs)"),
        (Local(), "Local"),
        (Local(start="own"), "Local (going on)"),
    ],
)
def test_readings_that_are_not_the_default_are_named(algorithm, title):
    assert algorithm.title == title


def test_a_first_upload_may_be_deprecated(federation, blobs, mlp, plain):
    """Without an estimate yet the reply is the plain mean of the clusters as they are (the SPEC's 1/K)."""
    algorithm, server, settings = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=2)
    loop = make(federation, algorithm)
    reference = server(plain, blobs(), mlp, **settings)
    first = {}
    for n, client in enumerate(loop.clients):
        first.setdefault(client, n)
    late = next(n for client, n in first.items() if n >= 3)
    for client in loop.clients[:late]:
        reference.arrive(client)
        loop.advance()
    before = loop.state.clusters.clone()
    (exchange,) = loop.advance()
    assert (exchange.status, exchange.estimate, exchange.fresh) == ("deprecated", None, False)
    assert torch.equal(loop.state.clusters, before)
    assert loop.state.weights[exchange.client].isnan().all()
    close(loop.starts[exchange.client], before.mean(0), "reply")
    assert loop.state.epoch == loop.epoch == late + 1


def test_equality_is_not_stale(federation):
    """t − τ = τ0 still counts; t − τ = τ0 + 1 does not."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=6)
    loop = make(federation, algorithm)
    seen = {}
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        seen.setdefault(exchange.staleness, set()).add(exchange.status)
    assert seen[6] == {"accepted"}
    assert seen[7] == {"deprecated"}


@pytest.mark.parametrize("cls", [CDFL, FedSoftAsync])
def test_the_default_limit_is_the_number_of_clients(cls, federation):
    loop = make(federation, cls(**{**COMMON, "local_epochs": 1, "pretrain_epochs": 0}))
    while loop.position < loop.total:
        (exchange,) = loop.advance()
        assert (exchange.status == "deprecated") == (exchange.staleness > 6)


def test_ca2fl_with_all_clients_once_is_the_plain_average(federation):
    """B = N, from empty caches (the SPEC's own check): the model moves by the mean of the updates."""
    algorithm = CA2FL(**{**COMMON, "cycles": 1.0}, buffer_size=6, arrivals=RoundRobinArrivals())
    deltas = []

    class Watch:
        def on_upload(self, loop, upload):
            deltas.append(upload.row - upload.start)

    loop = make(federation, algorithm, callbacks=[Watch()])
    first = loop.state.model.clone()
    for _ in range(6):
        loop.advance()
    close(loop.state.model, first + torch.stack(deltas).mean(0), "model")


# --------------------------------------------------------------------------------------------------------- look-ahead


def run(loop):
    out = []
    while loop.position < loop.total:
        out += loop.advance()
    return out


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


class Breaker:
    """Spoils chosen uploads."""

    def __init__(self, positions, spoil):
        self.positions, self.spoil, self.refused = positions, spoil, []

    def on_upload(self, loop, upload):
        if loop.position in self.positions:
            upload.row = self.spoil(upload.row.clone())

    def on_refused(self, loop, upload, why):
        self.refused.append((loop.position, upload.client, why))


def with_nan(row):
    row[3] = math.nan
    return row


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


def test_a_client_whose_training_diverges_is_refused(federation, mlp):
    """Infinite weights after training: NaN accuracy before, no estimate, and the run goes on."""
    loop = make(federation, CDFL(**{**COMMON, "pretrain_epochs": 0}), module=mlp(lr=1e30), look_ahead=4)
    clusters = loop.state.clusters.clone()
    exchanges = [loop.advance()[0] for _ in range(5)]
    assert {e.status for e in exchanges} == {"refused"}
    assert all(math.isnan(e.acc_before) and not math.isnan(e.acc_after) for e in exchanges)
    assert loop.epoch == 0
    assert torch.equal(loop.state.clusters, clusters)


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


# -------------------------------------------------------------------------------------------------------------- costs


def costs(federation, data, algorithm):
    loop = make(federation, algorithm, data=data)
    exchanges = run(loop)
    bytes_of_a_model = 4 * (6 * 8 + 8 + 8 * 3 + 3)
    assert loop.fed.layout.row_bytes == bytes_of_a_model
    up = sum(e.uploaded for e in exchanges) / len(exchanges) / bytes_of_a_model
    down = sum(e.downloaded for e in exchanges) / len(exchanges) / bytes_of_a_model
    return up, down, sum(e.client_compute for e in exchanges), sum(e.server_compute for e in exchanges)


@pytest.mark.parametrize("K", [2, 3])
def test_what_an_exchange_costs(K, federation, blobs):
    """Models up and down; compute ratio 1 + K/(3E) of FedSoft-Async to CDFL (SPEC 1.11), in samples forward."""
    found = {}
    for cls in (CDFL, FedSoftAsync, FedBuff, CA2FL, Local):
        data = blobs(num_clusters=K, samples=(20, 20))
        found[cls] = costs(federation, data, cls(**{**COMMON, "cycles": 2.0}))
    assert {cls: cost[:2] for cls, cost in found.items()} == {
        CDFL: (1, 1),
        FedSoftAsync: (1, K),
        FedBuff: (1, 1),
        CA2FL: (1, 1),
        Local: (0, 0),
    }
    training = 12 * 20 * EPOCHS * 3
    assert {found[cls][2] for cls in (CDFL, FedBuff, CA2FL, Local)} == {training}
    assert found[FedSoftAsync][2] / found[CDFL][2] == pytest.approx(1 + K / (3 * EPOCHS), rel=1e-12)
    assert {found[cls][3] for cls in (FedSoftAsync, FedBuff, CA2FL, Local)} == {0}
    assert 12 * K * 50 * 0.3 < found[CDFL][3] <= 2 * 12 * K * 50


def test_the_servers_work_by_hand(federation):
    """CDFL: K·|D_k| forwards for the upload, |D_k| more for each cluster that moved, none when deprecated."""
    algorithm, _, _ = cdfl_pair((0.0, 0.0, 0.0), [7.0], max_staleness=4)
    loop = make(federation, algorithm)
    while loop.position < loop.total:
        before = loop.state.clusters
        (exchange,) = loop.advance()
        moved_clusters = int((loop.state.clusters != before).any(1).sum())
        assert exchange.server_compute == (0 if exchange.status == "deprecated" else 3 * 50 + 50 * moved_clusters)


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("local", 0, 0),
        ("cdfl", 1, 1),
    ],
)
def test_what_a_refused_upload_costs(name, up, down, federation):
    """A method that sends nothing does not begin to because an upload is bad."""
    loop = make(federation, METHODS[name]()[0], callbacks=[Breaker({0}, with_nan)])
    (exchange,) = loop.advance()
    assert exchange.status == "refused"
    wire = loop.fed.layout.row_bytes
    assert (exchange.uploaded, exchange.downloaded) == (up * wire, down * wire)


@pytest.mark.parametrize("cls", [CDFL, FedSoftAsync])
def test_a_limit_of_zero_is_a_limit(cls, federation):
    """t − τ is at least 1, so with τ0 = 0 every upload is too old; it must not mean the default (or be refused)."""
    try:
        algorithm = cls(**COMMON, max_staleness=0)
    except UserError:
        return
    loop = make(federation, algorithm)
    assert loop.advance()[0].status == "deprecated"
