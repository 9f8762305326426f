"""The training loop by hand: one step down a square a batch."""

import pytest
import torch

from flcluster.federation.descent import descend, mean_of

CPU = torch.device("cpu")


@pytest.mark.filterwarnings("error")  # of a sum that hangs on to the graph
def test_two_steps_down_a_square_by_hand():
    """(w − b)² with a rate of ¼. From 1 to b = 3: 4, gradient −4, w = 2; to b = 1: 1, gradient 2, w = 1½; mean 2½."""
    weight, log = torch.tensor(1.0, requires_grad=True), []
    optimiser = torch.optim.SGD([weight], lr=0.25)

    def batches():
        for target in (3.0, 1.0):
            log.append(f"batch {target}")
            yield target

    def loss(target):
        log.append(f"loss at {weight.item()}")
        return (weight - target) ** 2

    def step(value):
        log.append(f"step from {value.item()}")
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    losses = descend(batches(), loss, step, CPU)
    assert losses.tolist() == [4.0, 1.0] and not losses.requires_grad
    assert mean_of(losses) == 2.5
    assert weight.item() == 1.5
    assert log == ["batch 3.0", "loss at 1.0", "step from 4.0", "batch 1.0", "loss at 2.0", "step from 1.0"]


def test_without_batches_there_is_no_loss():
    losses = descend([], lambda batch: 1 / 0, lambda value: 1 / 0, CPU)
    assert len(losses) == 0
    assert mean_of(losses) == 0.0


def test_losses_are_added_up_one_after_the_other_in_single_precision():
    """As a sum on the device would: 2²⁴ + 1 is 2²⁴ there, so that the order counts."""
    losses = torch.tensor([2.0**24, 1.0, 1.0, 1.0])
    assert mean_of(losses) == 2.0**22
    assert mean_of(losses.flip(0)) == (2.0**24 + 4) / 4  # 3 + 2²⁴ is rounded to even
