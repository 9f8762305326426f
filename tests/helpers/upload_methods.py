"""Each upload method beside its plain version, both with the same settings, and what walks along with both."""

import math

import pytest
import torch
from plain_servers import (
    BATCH,
    EPOCHS,
    PRETRAIN,
    SEED,
    PlainCA2FL,
    PlainCCFL,
    PlainCDFL,
    PlainFedAsync,
    PlainFedBuff,
    PlainFedSoft,
    PlainLocal,
)

from flcluster.algorithms import CA2FL, CCFL, CDFL, FedAsync, FedBuff, FedSoftAsync, Local
from flcluster.engine.loops.uploads import UploadLoop
from flcluster.engine.run import make_loop

COMMON = {"local_epochs": EPOCHS, "batch_size": BATCH, "pretrain_epochs": PRETRAIN, "cycles": 7.0}
TOLERANCE = 1e-5

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


def async_pair(**settings):
    values = {"alpha": 0.6, "staleness": "polynomial", "a": 0.5, "b": 4.0, "rho": 0.005, **settings}
    return FedAsync(**COMMON, **settings), PlainFedAsync, values


METHODS = {
    "fedasync": async_pair,
    "fedasync_steep": lambda: async_pair(alpha=0.9, a=2.0, rho=0.5),
    "fedasync_hinge": lambda: async_pair(staleness="hinge", a=10.0, b=2.0),
    "fedasync_constant": lambda: async_pair(staleness="constant", rho=0.0),
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


def run(loop):
    out = []
    while loop.position < loop.total:
        out += loop.advance()
    return out


def close(actual, expected, what):
    torch.testing.assert_close(
        torch.as_tensor(actual).double(),
        torch.as_tensor(expected).double(),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        msg=lambda text: f"{what}: {text}",
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
