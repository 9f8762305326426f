"""Upload methods through the loop, against the same methods written down plainly, and what they cost."""

import pytest
import torch
from lightning import LightningModule
from plain_servers import EPOCHS, SEED
from torch import nn
from upload_methods import COMMON, METHODS, Breaker, compare, make, run, with_nan

from flcluster.algorithms import CA2FL, CCFL, CDFL, FedBuff, FedSoftAsync, Local


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


@pytest.mark.parametrize("name", ["cdfl", "ccfl", "fedsoft", "fedasync", "fedbuff", "ca2fl", "local"])
def test_with_batch_norm_the_loop_is_the_plain_method(name, federation, blobs, plain):
    """Distances are over parameters only; running statistics are mixed and moved like parameters, or averaged."""
    algorithm, server, settings = METHODS[name]()
    loop = make(federation, algorithm, module=plain.first_model(SEED, Normed))
    assert loop.fed.layout.num_parameters == len(loop.fed.layout.row) - 16
    compare(loop, server(plain, blobs(), Normed, **settings, total=loop.total), plain)


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
    """Models up and down; compute ratio 1 + K/(3E) of FedSoft-Async to CDFL, in samples forward."""
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
