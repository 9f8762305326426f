"""The training loop by hand: one step down a square a batch."""

import pytest
import torch

from flcluster.federation.descent import descend

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

    assert descend(batches(), loss, step, CPU) == (2.5, 2)
    assert weight.item() == 1.5
    assert log == ["batch 3.0", "loss at 1.0", "step from 4.0", "batch 1.0", "loss at 2.0", "step from 1.0"]


def test_without_batches_there_is_no_loss():
    assert descend([], lambda batch: 1 / 0, lambda value: 1 / 0, CPU) == (0.0, 0)
