"""How many threads there are goes by the model; how they wait is told before PyTorch is loaded."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from flcluster.cli.jobs import processes
from flcluster.engine import fit as engine_fit
from flcluster.engine import threads
from flcluster.engine.threads import SHARE, operations_of, share_of, threads_of, wait_passively, warning
from flcluster.modules import CNN, MLP


class Held:
    def __init__(self, *shape):
        self.input_shape = shape


def test_operations_are_those_of_a_forward_pass():
    """Two a weight of a dense layer; a convolution's weights count once for every place: here 26 × 26 of 3 × 3."""
    assert operations_of(MLP(10, (1, 8, 8), hidden=[64]), Held(1, 8, 8), 20) == 2 * 20 * (64 * 64 + 64 * 10)
    cnn = CNN(10, (1, 28, 28), channels=(4,), kernel_size=3, hidden=5)
    assert operations_of(cnn, Held(1, 28, 28), 2) == 2 * 2 * (26 * 26 * 9 * 4 + 4 * 13 * 13 * 5 + 5 * 10)
    assert cnn.training


@pytest.mark.parametrize("shape", [(3, 3), None])
def test_what_cannot_be_counted_is_two_operations_a_parameter(shape):
    module = MLP(10, (1, 8, 8), hidden=[64])
    held = Held(*shape) if shape else object()
    assert operations_of(module, held, 3) == 2 * 3 * sum(p.numel() for p in module.parameters())
    assert operations_of(torch.nn.Linear(4, 2), held, 3) == 2 * 3 * 10


def test_the_papers_models():
    """A CNN of 1.7 million parameters takes all cores at a batch of 50, an MLP one."""
    shape = (1, 28, 28)
    assert threads_of(operations_of(CNN(10, shape, padding=2), Held(*shape), 50), 8) == 8
    assert threads_of(operations_of(MLP(10, shape), Held(*shape), 128), 8) == 1
    assert threads_of(1e12, 0) == 1


def test_processes_and_runs_at_once_share_the_cores(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    assert (share_of(1), share_of(2), share_of(0)) == (8, 4, 8)
    monkeypatch.setenv(SHARE, "2")
    assert share_of(2) == 2


@pytest.mark.parametrize(("at_once", "share"), [(1, None), (3, "3")])
def test_a_run_is_told_how_many_run_at_once(monkeypatch, tmp_path, at_once, share):
    seen = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, env=None, **more: seen.append((env or {}).get(SHARE)))
    processes.begin(tmp_path / "run", [], at_once)
    assert seen == [share]


def test_threads_sleep_unless_something_was_chosen(monkeypatch):
    for chosen, expected in (({}, ("passive", "0")), ({"OMP_WAIT_POLICY": "active"}, ("active", None))):
        monkeypatch.setattr(os, "environ", dict(chosen))
        wait_passively()  # PyTorch is loaded here: too late
        assert os.environ == chosen
        monkeypatch.delitem(sys.modules, "torch")
        wait_passively()
        assert (os.environ["OMP_WAIT_POLICY"], os.environ.get("KMP_BLOCKTIME")) == expected
        monkeypatch.setitem(sys.modules, "torch", torch)


def test_the_command_says_so_before_it_loads_pytorch():
    """A command that fails at once, seen from inside: the environment at its end."""
    script = (
        "import sys, os; from flcluster.cli import main; "
        "assert 'torch' not in sys.modules; main(['gather', 'nowhere', '--output', 'x.csv']); "
        "print(os.environ.get('OMP_WAIT_POLICY'))"
    )
    env = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == ["passive"], done.stderr


@pytest.mark.parametrize(
    ("count", "busy", "policy", "warned"),
    [(4, 2.0, {}, True), (1, 4.0, {}, False), (4, 0.0, {}, False), (4, 2.0, {"OMP_WAIT_POLICY": "PASSIVE"}, False)],
)
def test_spinning_threads_on_a_busy_machine_are_told_of(monkeypatch, count, busy, policy, warned):
    monkeypatch.setattr(os, "environ", policy)
    monkeypatch.setattr(threads, "cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (busy, 0, 0), raising=False)
    said = warning(count)
    assert (said is not None) is warned
    assert said is None or "OMP_WAIT_POLICY=passive" in said


@pytest.mark.parametrize(("kind", "expected"), [(MLP, 1), (partial(CNN, padding=2), 4)])
def test_a_run_goes_by_the_rule(monkeypatch, kind, expected):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    fabric = SimpleNamespace(world_size=4, device=torch.device("cpu"))
    shape = (1, 28, 28)
    exp = SimpleNamespace(
        fabric=SimpleNamespace(num_nodes=2),
        model=kind(10, shape),
        data=Held(*shape),
        algorithm=SimpleNamespace(batch_size=64),
    )
    assert engine_fit.threads(fabric, exp) == expected
