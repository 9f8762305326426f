"""FedAsync's formulas (Xie et al., 2019, section 5 and Algorithm 1) by hand; test_replay.py replays whole runs."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from upload_methods import COMMON, async_pair, compare, make

from flcluster.algorithms import FedAsync
from flcluster.algorithms.personal import fedasync as of_apfl
from flcluster.algorithms.uploads.fedasync import discount, mixed_in
from flcluster.cli import main
from flcluster.errors import UserError

TINY = Path(__file__).parents[2] / "tiny.yaml"


@pytest.mark.parametrize("late", range(8))
def test_the_three_functions_as_printed(late):
    assert discount(late, "constant", 3.0, 3.0) == 1
    assert discount(late, "polynomial", 0.5, 3.0) == pytest.approx(1 / (late + 1) ** 0.5)
    expected = 1 if late <= 4 else {5: 1 / 11, 6: 1 / 21, 7: 1 / 31}[late]
    assert discount(late, "hinge", 10.0, 4.0) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["constant", "polynomial", "hinge"])
def test_they_are_one_at_first_and_never_rise(kind):
    values = [discount(late, kind, 0.7, 2.0) for late in range(30)]
    assert values[0] == 1
    assert all(0 < later <= earlier for earlier, later in pairwise(values))


def test_a_step_by_hand():
    """(1 - .25)(4, 0) + .25 (8, -4) = (5, -1); what went in stays as it was."""
    model, upload = torch.tensor([4.0, 0.0]), torch.tensor([8.0, -4.0])
    assert mixed_in(model, upload, 0.25).tolist() == [5, -1]
    assert model.tolist() == [4, 0] and upload.tolist() == [8, -4]


def test_ap_fl_takes_the_same_step():
    model, upload = torch.randn(2, 50).unbind()
    share = 0.6 * discount(7, "polynomial", 0.5, 0)
    assert torch.equal(of_apfl.fedasync_step(model, upload, 7, 0.6, 0.5), mixed_in(model, upload, share))


def test_the_replay_meets_stale_uploads_on_both_sides_of_the_hinge(federation, blobs, mlp, plain):
    algorithm, server, settings = async_pair(staleness="hinge", a=10.0, b=2.0)
    loop = make(federation, algorithm)
    reference = server(plain, blobs(), mlp, **settings)
    exchanges = compare(loop, reference, plain)
    assert min(reference.late) <= 2 < max(reference.late)
    assert [exchange.staleness - 1 for exchange in exchanges] == reference.late
    assert loop.state.version == 42
    torch.testing.assert_close(loop.algorithm.server_models(loop.state)[0], plain.vector(reference.history[-1]))


def test_alone_and_with_alpha_one_it_is_training_on_and_on(federation, plain):
    """Nobody comes between, s = 1 and α = 1: after each upload the model is the upload."""
    loop = make(federation, FedAsync(**COMMON, alpha=1.0, staleness="constant", rho=0.0))
    seen = []

    class Watch:
        def on_upload(self, loop, upload):
            seen.append(upload.row.clone())

    loop.fed.fabric._callbacks.append(Watch())
    loop.advance()
    assert torch.equal(loop.state.model, seen[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.1}, "alpha"),
        ({"a": -1.0}, "algorithm.a"),
        ({"b": -1.0}, "algorithm.b"),
        ({"rho": -0.1}, "rho"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, said):
    with pytest.raises(UserError, match=said):
        FedAsync(**settings)


def test_defaults_are_the_papers_and_names_tell_variants_apart():
    assert (FedAsync().slope, FedAsync(staleness="hinge").slope, FedAsync(a=2.0).slope) == (0.5, 10, 2)
    assert (FedAsync().title, FedAsync(staleness="hinge").title) == ("FedAsync", "FedAsync (hinge)")


def test_a_run_from_a_config_stops_and_goes_on():
    flags = ["--algorithm", "FedAsync", "--algorithm.staleness", "hinge", "--algorithm.cycles", "2"]
    assert main(["fit", "--config", str(TINY), "--run_dir", "whole", *flags]) == 0
    assert main(["fit", "--config", str(TINY), "--run_dir", "part", *flags, "--engine.max_updates", "7"]) == 0
    assert main(["fit", "--run_dir", "part", "--ckpt_path", "last", "--engine.max_updates", "null"]) == 0
    whole, part = (json.loads(Path(f"{name}/summary.json").read_text()) for name in ("whole", "part"))
    assert whole["algorithm"] == "FedAsync (hinge)" and whole["updates"] == 12
    assert whole["client_acc_after"] == part["client_acc_after"]
    assert Path("whole/clients.csv").read_text() == Path("part/clients.csv").read_text()
