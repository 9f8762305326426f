"""Tensors that stay out of a row must not change in training."""

import pytest
import torch
from torch import nn

from flcluster.errors import UserError
from flcluster.federation.trainer.as_given import Unchanged


@pytest.fixture
def module():
    made = nn.Linear(1, 1)
    made.register_buffer("seen", torch.zeros(2))
    made.register_buffer("kept", torch.zeros(2))
    return made


def test_a_later_change_is_refused_by_name(module):
    unchanged = Unchanged(module, ["kept", "seen"])
    unchanged.check()
    module.seen += 0  # written to, and the same
    unchanged.check()
    module.seen += 1
    with pytest.raises(UserError, match="Linear changes seen in training later than in the first two steps"):
        unchanged.check()


def test_what_is_gone_is_no_change(module):
    unchanged = Unchanged(module, ["kept", "seen"])
    del module.seen
    unchanged.check()
