"""A module of a user's own is tried before anything is trained, and is afterwards as before."""

from pathlib import Path

import pytest
import torch
from federations import CLASSES, SHAPE

from flcluster.errors import UserError
from flcluster.federation.flat.trying import check_loss
from flcluster.modules import MLP


class Own(MLP):
    """Changes its logits by a function."""

    def __init__(self, change=lambda logits: logits):
        super().__init__(CLASSES, SHAPE, hidden=[4], lr=0.1)
        self.change, self.norm = change, torch.nn.BatchNorm1d(CLASSES)

    def forward(self, x):
        return self.change(self.norm(super().forward(x)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda logits: logits[:, :2],
            "must return a logit for each of 3 classes, but gives a Tensor (2, 2) of float32",
        ),
        (lambda logits: logits[:1], "must return logits (2, 3) of 2 samples"),
        (lambda logits: (logits, 1), "must return logits (2, 3) of 2 samples, but gives a tuple of 2"),
        (lambda logits: logits.detach(), "gives a loss without a gradient"),
        (lambda logits: logits / 0, "gives a loss of nan on its first samples, which are finite"),
    ],
)
def test_what_a_module_returns(change, said, federation):
    with pytest.raises(UserError) as found:
        federation(module=Own(change))
    assert said in str(found.value) and f"Own.forward ({Path(__file__)}, line " in str(found.value)


def test_a_module_is_afterwards_as_before(federation):
    """Weights, BatchNorm's statistics, its mode, and the generators that everything draws from."""
    module = Own(lambda logits: torch.nn.functional.dropout(logits, 0.5))
    before, state = {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
    fed = federation(module=module)
    assert module.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert fed.worker.layout.row.isfinite().all()


def test_data_that_are_not_finite_are_not_the_modules_fault(federation, blobs):
    data = blobs()
    for source in data.sources["train"]:
        source.x[:] = torch.nan
    federation(data, Own())


def test_more_logits_than_classes_are_a_head_that_was_larger(federation):
    federation(module=Own(lambda logits: torch.cat([logits, logits], 1)))


@pytest.mark.parametrize("loss", [None, 1.0, torch.ones(2, requires_grad=True)])
def test_a_loss_is_one_number(loss):
    with pytest.raises(UserError, match="must give a loss that is one number"):
        check_loss(loss, Own(), "forward")
