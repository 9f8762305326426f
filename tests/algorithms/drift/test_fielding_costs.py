"""FIELDING's server memory, and what reports cost in bytes, compute and time."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from fielding_corners import COMMON, A, B, C, Noting, Together

from flcluster.algorithms import Average, Fielding, SelectedOnly, Yogi
from flcluster.algorithms.drift.representations import Representation
from flcluster.engine.run import make_loop

# ------------------------------------------------------------------------------------------------------ server's memory


def test_yogi_starts_anew_only_at_re_clustering(script, federate):
    """Round 1: client 1 moves, memory stays. Round 2: client 2 goes where nobody is, everyone is re-clustered."""
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B}, 1: {1: B}, 2: {2: C}}))
    yogi = Yogi(by="uniform", tau=1e-3)
    algorithm = Fielding(**COMMON, clusterer=Noting(), server=yogi)
    state, _ = algorithm.step(algorithm.init(fed), 0, fed)
    kept = state.server
    state, _ = algorithm.follow(state, 1, fed)
    assert not state.fired
    assert all(torch.equal(state.server[name], kept[name]) for name in kept)
    assert float(kept["m"].abs().max()) > 0
    state, _ = algorithm.follow(state, 2, fed)
    assert state.fired
    assert len(state.models) == 3
    assert torch.equal(state.server["m"], torch.zeros_like(state.models))
    assert torch.equal(state.server["v"], torch.full_like(state.models, 1e-3))


def test_by_default_clients_count_alike():
    assert Fielding().server == Average("uniform")
    assert Fielding().measure == "all"


# --------------------------------------------------------------------------------------------------------------- costs


@dataclass(frozen=True)
class Shares(Representation):
    """Label shares that pretend to cost two forward passes a sample."""

    passes: ClassVar[float] = 2.0

    def of(self, clients, t, shared, fed):
        counts = fed.data.label_counts(clients, t)
        return (counts / counts.sum(1, keepdims=True)).astype(np.float32)


def test_reports_cost_bytes_and_compute(script, federate):
    """4·dim bytes a report and two passes over each of eight samples: four clients at first, two more at round 1.

    Client 3's window is empty at round 1: it has nothing to report.
    """
    fed = federate(script({0: {0: A, 1: A, 2: B, 3: B}, 1: {0: B, 1: C * 2, 3: []}}))
    algorithm = Fielding(**COMMON, representation=Shares())
    state = algorithm.init(fed)
    gauges = algorithm.gauges(state)
    assert (gauges["report_bytes"], gauges["report_compute"]) == (4 * 16, 2 * 32)
    state, _ = algorithm.follow(state, 1, fed)
    gauges = algorithm.gauges(state)
    assert (gauges["report_bytes"], gauges["report_compute"]) == (6 * 16, 2 * (32 + 8 + 16))
    assert Fielding(**COMMON).gauges(Fielding(**COMMON).init(fed))["report_compute"] == 0


def test_a_report_like_the_last_one_is_not_sent(script, federate):
    """A client reports if its report is at a distance above 0 from its last: an unchanged one costs no bytes."""
    fed = federate(script({0: {0: A, 1: A, 2: B}}, also={1: [0, 1, 2]}))
    algorithm = Fielding(**COMMON, clusterer=Noting())
    state = algorithm.init(fed)
    before = algorithm.gauges(state)["report_bytes"]
    state, _ = algorithm.follow(state, 1, fed)
    assert algorithm.gauges(state)["report_bytes"] == before == 3 * 16


def test_reporting_takes_as_long_as_the_slowest_report(script, federate, given_devices):
    """16 bytes = .128 kbit. Client 0: .128/1 + 2·8·10 ms = .288 s; client 1: .128/.1 + 2·8·1 ms = 1.296 s."""
    fed = federate(script({0: {0: A, 1: A, 2: B}, 1: {0: B, 1: B}, 2: {0: A}}))
    devices = given_devices([10.0, 1.0, 1e6], [1.0, 0.1, 1e-9])
    algorithm = Fielding(**COMMON, representation=Shares(), devices=devices)
    state = algorithm.init(fed)
    state, seconds = algorithm.follow(state, 1, fed)
    assert seconds == pytest.approx(1.296)
    state, seconds = algorithm.follow(state, 2, fed)
    assert seconds == pytest.approx(0.288)
    assert algorithm.follow(state, 3, fed)[1] == 0


def test_reporting_is_part_of_the_rounds_time(script, federate, given_devices):
    story = {0: {0: A, 1: A, 2: B}, 1: {0: B, 1: B}}
    devices = given_devices([10.0, 1.0, 1.0], [1.0, 0.1, 1.0])
    times = []
    for rounds in (story, {0: story[0]}):
        fed = federate(script(rounds))
        algorithm = Fielding(**COMMON, rounds=2, representation=Shares(), devices=devices, overcommit=1.0)
        loop = make_loop(algorithm, fed, None, None)
        loop.begin()
        loop.advance()
        first = loop.time
        loop.advance()
        times.append(loop.time - first)
    assert times[0] - times[1] == pytest.approx(1.296)


def test_selected_only_reports_after_training(script, federate, given_devices):
    """One participant: its report, .128 kbit at 1 kbps and two passes over eight samples of 10 ms, comes on top."""
    fed = federate(script({0: {0: A}, 1: {0: A}}))
    algorithm = SelectedOnly(**COMMON, representation=Shares(), devices=given_devices([10.0], [1.0]))
    state, quiet = algorithm.step(algorithm.init(fed), 0, fed)  # nothing changed since registration
    _, busy = algorithm.step(state, 1, fed)
    assert busy.cohort.seconds - quiet.cohort.seconds == pytest.approx(0.288)


def test_pair_distances_are_logged(script, federate):
    """Largest and 95th percentile over all same-cluster pairs, here of one cluster."""
    held = {m: [0] * (8 - m) + [1] * m for m in range(7)}
    fed = federate(script({0: held}))
    algorithm = Fielding(**COMMON, clusterer=Together())
    gauges = algorithm.gauges(algorithm.init(fed))
    apart = [abs(a - b) / 4 for a in range(7) for b in range(a)]
    assert gauges["max_distance"] == pytest.approx(1.5)
    assert gauges["p95_distance"] == pytest.approx(np.quantile(apart, 0.95))
