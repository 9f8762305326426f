"""What clients see of their data, and when that changes."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from flcluster.data import labels_of
from flcluster.datamodules import CorruptionDrift, Images, ImageSource, LabelSwaps, RotationDrift, StreamDigits
from flcluster.datamodules.streams.looks import CORRUPTIONS, Look, corrupt
from flcluster.datamodules.streams.seen import Seen, seen
from flcluster.datamodules.streams.shifts import ShiftHistory
from flcluster.errors import UserError


def history(shift, num_clients=40, num_classes=10, seed=0, held=None):
    full = np.ones((num_clients, num_classes), dtype=np.int64) if held is None else held
    return ShiftHistory(shift, num_clients, num_classes, seed, lambda clients, cycle: full[clients])


def test_swaps_are_permutations_that_accumulate():
    told = history(LabelSwaps(gap=30, times=12))
    assert told.events.tolist() == list(range(30, 361, 30))
    before = told.states(29)
    assert (before == np.arange(10)).all()
    for event in told.events.tolist():
        now = told.states(event)
        assert (np.sort(now, axis=1) == np.arange(10)).all()
        differs = (now != before).sum(axis=1)
        assert sorted(differs.tolist()) == [0] * 20 + [2] * 20  # half of the clients, one swap each
        assert (told.changed(event) == (differs > 0)).all() and not told.changed(event + 1).any()
        before = now
    assert (before != np.arange(10)).sum(axis=1).max() > 2


def test_few_pairs_make_few_concepts():
    told = history(LabelSwaps(share=1.0, times=6, pairs=((0, 1), (2, 9))), num_clients=60)
    concepts = {tuple(state) for event in told.events.tolist() for state in told.states(event).tolist()}
    straight = tuple(range(10))
    first, second = (1, 0, *range(2, 10)), (0, 1, 9, *range(3, 9), 2)
    both = (1, 0, 9, *range(3, 9), 2)
    assert concepts == {straight, first, second, both}
    with pytest.raises(UserError, match=r"\(3, 10\)"):
        history(LabelSwaps(pairs=((3, 10),)))


def test_swaps_choose_among_labels_held():
    held = np.zeros((40, 10), dtype=np.int64)
    held[:, [2, 5, 7]] = 3
    held[0] = 0
    states = history(LabelSwaps(share=1.0, times=1), held=held).states(30)
    moved = states != np.arange(10)
    assert (moved.sum(axis=1) == 2).all() and not moved[1:, [0, 1, 3, 4, 6, 8, 9]].any()
    assert moved[1:, [2, 5, 7]].any(axis=0).all()  # not always the same two


@pytest.mark.parametrize("shift", [LabelSwaps(times=20), RotationDrift(times=20), CorruptionDrift(times=20)])
def test_any_order_of_questions_gives_the_same_answers(shift):
    asked, straight = history(shift), history(shift)
    wanted = {t: straight.states(t).copy() for t in range(0, 620, 15)}
    for t in np.random.default_rng(0).permutation(list(wanted)).tolist():
        assert (asked.states(t) == wanted[t]).all()
        assert len(asked._kept) <= ShiftHistory.KEPT
    assert not (history(shift, seed=1).states(600) == wanted[600]).all()


def test_a_stream_with_swaps_counts_and_shows_swapped_labels():
    data = StreamDigits(shift=LabelSwaps(gap=7, times=9), shared="one_per_label")
    plain = StreamDigits(shared="one_per_label")
    assert data.events.tolist() == sorted({*range(10, 71, 10), *range(7, 64, 7)})
    for cycle in (0, 7, 21, 40, 63, 500):
        counts = data.label_counts(np.arange(20), cycle)
        for client in range(20):
            shard, true = data.shard(client, cycle), plain.shard(client, cycle)
            mapping = data._history.states(cycle)[client]
            for view, original in ((shard.train, true.train), (shard.test, true.test)):
                assert labels_of(view).tolist() == mapping[labels_of(original)].tolist()
                if len(view):
                    assert torch.equal(view.tensors()[1], torch.from_numpy(labels_of(view)))
                    assert torch.equal(view.tensors()[0], original.tensors()[0])  # the images stay
            assert counts[client].tolist() == np.bincount(labels_of(shard.train), minlength=10).tolist()
            arrived = [labels_of(view) for _, view in data.arrived(client, cycle)]
            assert sorted(np.concatenate(arrived)) == sorted(labels_of(shard.train))


def test_swaps_are_among_the_labels_a_client_holds_then():
    data = StreamDigits(static=True, shift=LabelSwaps(share=1.0, gap=5, times=3))
    counts = [data.label_counts(np.arange(20), t) for t in (0, 5, 10, 15)]
    assert all(len(data.drifted(t)) == 20 for t in (5, 10, 15)) and len(data.drifted(4)) == 0
    for before, after in pairwise(counts):
        assert (np.sort(before, axis=1) == np.sort(after, axis=1)).all()


def test_drifted_is_arrivals_and_changed_views():
    data, plain = StreamDigits(shift=RotationDrift(at=(13, 20), share=0.25)), StreamDigits()
    assert data.events.tolist() == [10, 13, 20, 30, 40, 50, 60, 70]
    assert len(data.drifted(13)) == 5 and len(plain.drifted(13)) == 0
    turned = [c for c in range(20) if data._history.look(c, 13).angle != 0]
    assert data.drifted(13).tolist() == turned
    assert data.drifted(20).tolist() == list(range(20)) and len(data.drifted(14)) == 0


def test_who_holds_nothing_sees_no_change():
    data = StreamDigits(shift=LabelSwaps(at=(3,), share=1.0))
    data.setup()
    assert len(data.drifted(3)) == 20
    nothing = StreamDigits(shift=LabelSwaps(at=(300,), share=1.0), num_clients=3)
    holding = nothing.sizes(300) + nothing.test_sizes(300)
    assert nothing.drifted(300).tolist() == np.flatnonzero(holding).tolist()


def test_rotations_jump_to_other_angles():
    told = history(RotationDrift(share=1.0, times=30, angles=(0, 60, 200)))
    angles = np.stack([told.states(t)[:, 0] for t in range(0, 901, 30)])
    assert set(angles.ravel()) == {0, 60, 200} and (angles[1:] != angles[:-1]).all()


def test_rotations_go_on_step_by_step():
    told = history(RotationDrift(share=1.0, step=100, times=5))
    assert [told.states(t)[0, 0] for t in (0, 30, 60, 90, 120)] == [0, 100, 200, 300, 40]


def test_a_turned_client_sees_turned_images():
    data, plain = StreamDigits(shift=RotationDrift(at=(1,), share=1.0, angles=(0, 90))), StreamDigits()
    for split in ("train", "test"):
        x, y = getattr(data.shard(2, 1), split).tensors()
        upright, labels = getattr(plain.shard(2, 1), split).tensors()
        assert torch.allclose(x, torch.rot90(upright, 1, (-2, -1))) and torch.equal(y, labels)
    assert torch.equal(data.shard(2, 0).train.tensors()[0], plain.shard(2, 0).train.tensors()[0])
    assert torch.equal(data.pool("train").tensors()[0], plain.pool("train").tensors()[0])  # the pool stays as it is


def test_corruption_jumps_or_grows():
    sudden = history(CorruptionDrift(share=1.0, times=6, severity=0.5))
    kinds = np.stack([sudden.states(t)[:, 0] for t in range(30, 181, 30)])
    assert (kinds[1:] != kinds[:-1]).all() and set(kinds.ravel()) == {0, 1, 2, 3}
    assert (sudden.states(29)[:, 1] == 0).all() and (sudden.states(30)[:, 1] == 0.5).all()
    gradual = history(CorruptionDrift(share=1.0, times=6, step=0.4, severity=0.9))
    assert [gradual.states(t)[3, 1] for t in (0, 30, 60, 90, 120)] == [0, 0.4, 0.8, 0.9, 0.9]
    assert (gradual.states(0)[:, 0] == gradual.states(180)[:, 0]).all()
    assert not gradual.changed(120).any()  # as bad as it gets
    single = history(CorruptionDrift(share=1.0, times=2, kinds=("blur",)))
    assert single.changed(30).all() and not single.changed(60).any()
    assert single.look(0, 30).corruption == "blur"


@pytest.fixture
def source():
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (70, 3, 16, 16), dtype=np.uint8))
    return ImageSource(Images(pixels, torch.arange(70) % 5), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_corruption_is_the_same_for_a_sample_in_any_batch(kind, source):
    mild, hard = (Seen(source, Look(corruption=kind, severity=s)) for s in (0.3, 0.9))
    everything, clean = mild.take(torch.arange(70))[0], source.take(torch.arange(70))[0]
    some = torch.tensor([69, 3, 66])
    assert torch.equal(mild.take(some)[0], everything[some])
    away = [(x - clean).abs().mean() for x in (everything, hard.take(torch.arange(70))[0])]
    assert 0.05 < away[0] < away[1]


def test_what_each_corruption_does():
    x = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    index = torch.arange(4)
    flat = corrupt(x, index, "contrast", 1.0)
    assert torch.allclose(flat.mean((-2, -1)), x.mean((-2, -1))) and (flat.std() < 0.2 * x.std())
    assert torch.allclose(corrupt(x, index, "brightness", 0.5), (x + 0.3).clamp(max=1))
    smooth = corrupt(x, index, "blur", 1.0)
    assert smooth.diff(dim=-1).abs().mean() < 0.3 * x.diff(dim=-1).abs().mean()
    grey = torch.full((64, 1, 16, 16), 0.5)
    noise = corrupt(grey, torch.arange(64), "noise", 0.2) - 0.5
    assert abs(float(noise.mean())) < 0.01 and float(noise.std()) == pytest.approx(0.1, rel=0.05)
    assert corrupt(torch.rand(2, 1, 3, 3), torch.arange(2), "blur", 1.0).shape == (2, 1, 3, 3)
    with pytest.raises(UserError, match="fog"):
        corrupt(x, index, "fog", 1.0)


def test_a_look_that_changes_nothing_is_the_source_itself(source):
    assert seen(source, Look()) is source and seen(source, Look(angle=360.0)) is source
    assert len(seen(source, Look(angle=30.0))) == 70


def test_other_than_images_can_only_be_relabelled(source):
    class Vectors:
        labels = torch.tensor([0, 1, 1])

        def __len__(self):
            return 3

        def take(self, index):
            return torch.eye(3)[index], self.labels[index]

    swapped = seen(Vectors(), Look(labels=torch.tensor([1, 0])))
    assert swapped.labels.tolist() == [1, 0, 0] and swapped.take(torch.tensor([2]))[1].tolist() == [0]
    with pytest.raises(UserError, match="turns or corrupts images"):
        seen(Vectors(), Look(angle=90.0))


@pytest.mark.parametrize(
    ("shift", "arguments", "named"),
    [
        (LabelSwaps, {"share": 1.2}, "share"),
        (LabelSwaps, {"gap": 0}, "gap"),
        (LabelSwaps, {"at": (0, 5)}, "at"),
        (LabelSwaps, {"at": (5, 5)}, "at"),
        (RotationDrift, {"angles": (90.0,)}, "angles"),
        (RotationDrift, {"angles": (0.0, 360.0)}, "angles"),
        (CorruptionDrift, {"kinds": ("fog",)}, "kinds"),
        (CorruptionDrift, {"severity": 0.0}, "severity"),
        (CorruptionDrift, {"step": 0.0}, "step"),
    ],
)
def test_impossible_shifts_are_refused_by_their_key(shift, arguments, named):
    with pytest.raises(UserError, match=f"data.shift.*{named}"):
        shift(**arguments)
