"""The losses of distillation: against loops written out here, numbers worked out by hand, and other libraries."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from flcluster.algorithms.generators.losses import (
    class_weights,
    distillation_loss,
    diversity_loss,
    fedgen_diversity,
    generator_loss,
    taught_classes,
    teacher_loss,
)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def softmax(logits):
    exp = [math.exp(v) for v in logits]
    return [v / sum(exp) for v in exp]


# ----------------------------------------------------------------------------------------------------- who teaches what


def test_weights_are_shares_of_a_class_and_nobodys_class_has_none():
    counts = torch.tensor([[3, 0, 5, 0], [1, 0, 5, 2]])
    assert class_weights(counts).tolist() == [[0.75, 0, 0.5, 0], [0.25, 0, 0.5, 1]]
    assert taught_classes(counts).tolist() == [0, 2, 3]


def test_weights_of_all_samples_are_shares_of_everything():
    """Sixteen samples: 3/16, 5/16, 1/16, 5/16 and 2/16; a class of nobody has none, and nothing at all gives zeros."""
    counts = torch.tensor([[3, 0, 5, 0], [1, 0, 5, 2]])
    assert class_weights(counts, total=True).tolist() == [[3 / 16, 0, 5 / 16, 0], [1 / 16, 0, 5 / 16, 2 / 16]]
    assert class_weights(torch.zeros(2, 3), total=True).tolist() == [[0] * 3] * 2


def test_fedgen_counts_from_one():
    """With counts (3, 0) FedGen holds 4 and 1: shares of 4/5 and 1/5; a class of nobody is shared equally."""
    weights = class_weights(torch.tensor([[3, 0], [0, 0]]), prior=1)
    assert torch.allclose(weights, torch.tensor([[0.8, 0.5], [0.2, 0.5]]))


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=4, max_size=4), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_weights_add_up_to_one_over_those_who_hold_a_class(counts):
    totals = class_weights(torch.tensor(counts)).sum(0)
    held = torch.tensor(counts).sum(0) > 0
    assert torch.allclose(totals, held.float(), atol=1e-5)


def test_teacher_loss_by_hand():
    """Two teachers, one sample of class 0: losses ln 2 (no idea) and ln(1 + 1/3) = ln 4 - ln 3, weights 1/4 and 3/4."""
    logits = torch.tensor([[[0.0, 0.0]], [[math.log(3), 0.0]]])
    weights = class_weights(torch.tensor([[1, 7], [3, 7]]))
    expected = 0.25 * math.log(2) + 0.75 * math.log(4 / 3)
    assert teacher_loss(logits, torch.tensor([0]), weights).item() == pytest.approx(expected, rel=1e-6)


def test_teacher_loss_against_loops():
    K, B, C = 3, 7, 4
    logits, y = drawn(0, K, B, C), torch.tensor([0, 1, 2, 3, 3, 2, 0])
    counts = torch.tensor([[5, 0, 2, 0], [1, 4, 2, 0], [0, 4, 2, 0]])  # nobody holds class 3
    total = 0.0
    for b in range(B):
        for k in range(K):
            held = int(counts[:, y[b]].sum())
            share = int(counts[k, y[b]]) / held if held else 0.0
            total -= share * math.log(softmax(logits[k, b].tolist())[y[b]])
    assert teacher_loss(logits, y, class_weights(counts)).item() == pytest.approx(total / B, rel=1e-5)


def test_a_teacher_without_the_class_has_no_say():
    logits = drawn(1, 2, 5, 3).requires_grad_()
    y = torch.tensor([0, 0, 1, 2, 2])
    counts = torch.tensor([[4, 0, 1], [0, 6, 1]])
    (gradient,) = torch.autograd.grad(teacher_loss(logits, y, class_weights(counts)), logits)
    silent = gradient.abs().sum(2) == 0
    assert silent.tolist() == [[False, False, True, False, False], [True, True, False, False, False]]


# ------------------------------------------------------------------------------------------------------------ diversity


def slow_diversity(images, y, norm):
    """Equation 8 sample by sample, for each sample that has another of its class."""
    flat = images.flatten(1).tolist()
    means = []
    for i, a in enumerate(flat):
        others = [b for j, b in enumerate(flat) if j != i and y[j] == y[i]]
        if others:
            means.append(sum(math.dist(a, b) for b in others) / len(others))
    scale = 2 * math.sqrt(len(flat[0])) if norm else 1.0
    return -sum(means) / len(means) / scale if means else 0.0


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("y", [[0] * 6, [0, 1, 0, 1, 0, 1], [0, 0, 1, 2, 2, 2], [5, 4, 3, 2, 1, 1], [0, 1, 2, 3, 4, 5]])
def test_diversity_against_loops(y, norm):
    images = torch.tanh(drawn(2, 6, 3, 4, 4))
    expected = slow_diversity(images, y, norm)
    assert diversity_loss(images, torch.tensor(y), norm=norm).item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_diversity_of_one_class_is_equation_8():
    """Points 0, 3, 4 on a line: Σ_i Σ_j≠i |x_i - x_j| = 2 (3 + 4 + 1) = 16; over n (n - 1) = 6."""
    images = torch.tensor([[0.0], [3.0], [4.0]])
    assert diversity_loss(images, torch.zeros(3, dtype=torch.int64), norm=False).item() == pytest.approx(-16 / 6)


def test_a_class_of_one_sample_is_left_out():
    """The pair is 2 apart; the lone sample, far from both, does not change that."""
    images = torch.tensor([[0.0], [2.0], [100.0]])
    assert diversity_loss(images, torch.tensor([0, 0, 1]), norm=False).item() == pytest.approx(-2)


def test_diversity_is_bounded_by_opposite_corners():
    shape = (1, 3, 8, 8)
    images = torch.cat([torch.ones(shape), -torch.ones(shape)])
    assert diversity_loss(images, torch.tensor([1, 1])).item() == pytest.approx(-1, rel=1e-5)
    literal = diversity_loss(images, torch.tensor([1, 1]), norm=False).item()
    assert literal == pytest.approx(-2 * math.sqrt(3 * 64), rel=1e-5)


def test_diversity_drives_samples_of_a_class_apart_and_survives_equal_ones():
    images = torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.5, 0.5], [0.5, 0.5]], requires_grad=True)
    y = torch.tensor([0, 0, 1, 1])
    (gradient,) = torch.autograd.grad(diversity_loss(images, y), images)
    assert torch.isfinite(gradient).all()
    step = images.detach() - 0.01 * gradient
    assert (step[1] - step[0]).norm() > 0.1
    lone = torch.autograd.grad(diversity_loss(images, torch.arange(4)), images, allow_unused=True)[0]
    assert lone is None or not lone.any()


def test_diversity_sees_small_differences_between_large_images():
    """60 samples that differ by 1e-3 in one of 3072 values, all near 1: products of float32 would return noise."""
    images = torch.ones(60, 3072)
    images[::2, 0] += 1e-3
    expected = -(30 * 1e-3) / 59  # 30 of the 59 others differ
    assert diversity_loss(images, torch.zeros(60), norm=False).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("gamma", "expected"), [(0.5, 0.75), (1.0, 2.0), (0.0, -0.5), (0.2, 0.0)])
def test_the_mix_of_both(gamma, expected):
    assert generator_loss(torch.tensor(2.0), torch.tensor(-0.5), gamma).item() == pytest.approx(expected)


def test_fedgen_diversity_against_loops():
    noise, outputs = drawn(3, 5, 4), drawn(4, 5, 2, 3)
    flat, total = outputs.flatten(1).tolist(), 0.0
    for i in range(5):
        for j in range(5):
            between = sum((a - b) ** 2 for a, b in zip(noise[i].tolist(), noise[j].tolist(), strict=True)) / 4
            total += between * sum(abs(a - b) for a, b in zip(flat[i], flat[j], strict=True)) / 6
    assert fedgen_diversity(noise, outputs).item() == pytest.approx(math.exp(-total / 25), rel=1e-5)


def test_fedgen_diversity_by_hand():
    """Two samples: noise 2 apart (4 squared), outputs (1, 0) and (0, 3) a mean of 2 apart; 2 of 4 pairs: exp(-4)."""
    noise, outputs = torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    assert fedgen_diversity(noise, outputs).item() == pytest.approx(math.exp(-4), rel=1e-5)
    assert fedgen_diversity(noise, torch.ones(2, 3)).item() == 1


# --------------------------------------------------------------------------------------------------------- distillation


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_feddf_against_scipy(temperature):
    """The mean logits teach, not the mean probabilities; KL from the teacher to the student, batch mean."""
    teachers, student = drawn(5, 3, 4, 6), drawn(6, 4, 6)
    expected = 0.0
    for b in range(4):
        mean = [sum(teachers[k, b, c].item() for k in range(3)) / 3 / temperature for c in range(6)]
        expected += entropy(softmax(mean), softmax([v / temperature for v in student[b].tolist()])) / 4
    assert distillation_loss(student, teachers.mean(0), temperature).item() == pytest.approx(expected, rel=1e-4)


def test_distillation_by_hand():
    """Teacher (3/4, 1/4), student (1/2, 1/2): 3/4 ln(3/2) + 1/4 ln(1/2)."""
    teacher, student = torch.tensor([[math.log(3), 0.0]]), torch.tensor([[7.0, 7.0]])
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert distillation_loss(student, teacher).item() == pytest.approx(expected, rel=1e-5)
    assert distillation_loss(teacher + 5, teacher).item() == pytest.approx(0, abs=1e-6)


def test_the_student_learns_and_the_teacher_does_not():
    student, teacher = drawn(7, 4, 3).requires_grad_(), drawn(8, 4, 3).requires_grad_()
    distillation_loss(student, teacher).backward()
    assert student.grad.abs().sum() > 0 and teacher.grad is None
    softened = torch.softmax(student.detach(), 1) - torch.softmax(teacher.detach(), 1)
    assert torch.allclose(student.grad, softened / 4, atol=1e-6)  # the gradient of KL by its logits
