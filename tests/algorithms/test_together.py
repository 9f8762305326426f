"""Every method trains the same clients the same way in one pass and one by one."""

import importlib.util
from copy import deepcopy
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import torch
from lightning.fabric import Fabric

import flcluster.algorithms as methods
from flcluster.engine.config import plan_fit
from flcluster.engine.fit import instantiated
from flcluster.engine.run import make_loop
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation
from flcluster.federation.together.rule import Wish
from flcluster.protocol.base import Algorithm

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("same_numbers", ROOT / "tests/benchmarks/same_numbers.py")
same_numbers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(same_numbers)

ALL = sorted(
    name
    for name in methods.__all__
    if isinstance(getattr(methods, name), type) and issubclass(getattr(methods, name), Algorithm)
)
SHORT = {
    same_numbers.UPLOADS: ["--algorithm.cycles", "2"],
    same_numbers.ROUNDS: ["--algorithm.rounds", "2", "--algorithm.local_epochs", "1"],
    same_numbers.DRIFT: ["--algorithm.rounds", "3", "--algorithm.local_steps", "2"],
    same_numbers.GOSSIP: ["--algorithm.rounds", "2", "--algorithm.local_epochs", "1"],
    same_numbers.SKEW: [
        *("--algorithm.rounds", "2", "--algorithm.local_epochs", "1"),
        *("--model", "MLP", "--model.hidden", "[16]", "--model.optimizer", "sgd", "--model.lr", "0.1"),
    ],
}
FEWER = {
    "APFL": ["--algorithm.generator_steps", "2", "--algorithm.friend_epochs", "1", "--algorithm.per_class", "5"],
    "FieldingAnalysis": ["--algorithm.local_steps", "1"],
}
RELATIVE = 1e-3
"""Products of float32 are added up in another order: some 1e-7 a step, a few dozen steps, and what methods make of it
(CDFL's softmax of losses is seven times as steep). Another batch, anchor or rate is at least a hundred times off."""

BY_ADAM = {"APFL", "FedDF", "FedGen"}
"""A server's Adam divides gradients by their size: the last bits of one that is almost zero become a step."""


def loops(name, root):
    """One run of a method, once one by one and once in one pass, in memory."""
    config, flags = same_numbers.RUNS[name]
    argv = ["--config", str(ROOT / config), "--algorithm", name, *same_numbers.SHORT[config], *flags]
    made = instantiated(plan_fit([*argv, *SHORT[config], *FEWER.get(name, []), "--run_dir", str(root / name)]))
    made.data.setup("fit")
    for clients in (1, 5):
        fed = Federation(
            Fabric(accelerator="cpu", devices=1),
            deepcopy(made.model),
            made.data,
            lambda width, clients=clients: Bank(root / f"bank{clients}", width, 2**30),
            made.seed_everything,
            together=Wish(clients),
        )
        assert (fed.alone is None) == (clients > 1)
        loop = make_loop(made.algorithm, fed, None, None)
        loop.begin()
        yield loop


def compare(one, other, what, atol=2e-5):
    if isinstance(one, torch.Tensor) and one.is_floating_point():
        torch.testing.assert_close(
            other, one, equal_nan=True, rtol=RELATIVE, atol=atol, msg=lambda text: f"{what}: {text}"
        )
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), what
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=RELATIVE, abs=atol, nan_ok=True), what
    elif is_dataclass(one):
        for field in fields(one):
            compare(getattr(one, field.name), getattr(other, field.name), f"{what}.{field.name}", atol)
    elif isinstance(one, dict | list | tuple):
        pairs = one.items() if isinstance(one, dict) else enumerate(one)
        assert len(one) == len(other), what
        for key, part in pairs:
            if key not in same_numbers.TIMED:
                compare(part, other[key], f"{what}[{key}]", atol)
    elif isinstance(one, int | str | None):
        assert one == other, what


@pytest.mark.parametrize("name", ALL)
def test_one_pass_is_one_by_one(name, tmp_path):
    alone, together = loops(name, tmp_path)
    atol = 5e-3 if name in BY_ADAM else 2e-5
    compare(alone.state, together.state, "first state", atol)
    while alone.position < alone.total:
        one, other = alone.advance(), together.advance()
        compare([vars(each) for each in one], [vars(each) for each in other], f"step {alone.position}", atol)
        compare(alone.state, together.state, f"state after step {alone.position}", atol)
    for table, rows in alone.fed.bank.tables.items():
        compare(rows.held, together.fed.bank.tables[table].held, table, atol)
