"""A user's data as a stream: held against our own streams of the same images, and against numpy."""

import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import flcluster as fl
from flcluster.data import labels_of
from flcluster.datamodules import (
    CorruptionDrift,
    DriftingDataModule,
    LabelBuckets,
    LabelSwaps,
    RotationDrift,
    ShiftDrift,
    StreamDigits,
    from_arrays,
)
from flcluster.errors import UserError
from flcluster.modules import MLP

PLAN = LabelBuckets(samples=(40, 60), gap=10)
PIXELS = np.random.default_rng(0).random((300, 1, 4, 4)).astype(np.float32)
LABELS = np.arange(300) % 3


def digits(**kwargs):
    return StreamDigits(num_clients=6, arrivals=PLAN, window=20, seed=2, **kwargs)


def own(**kwargs):
    """The same digits as a user's arrays."""
    theirs = digits()
    theirs.setup()
    images = theirs._drawn.source.images
    data = from_arrays(images.pixels.float() / images.maximum, images.labels)
    return DriftingDataModule(data, num_clients=6, arrivals=PLAN, window=20, seed=2, **kwargs)


SHIFTS = [
    None,
    RotationDrift(gap=10),
    CorruptionDrift(gap=10, kinds=("contrast", "noise")),
    LabelSwaps(gap=10),
    ShiftDrift(gap=10, shifts=("none", "rot90")),
]


@pytest.mark.parametrize("shift", SHIFTS[:4], ids=lambda shift: type(shift).__name__)
def test_arrivals_and_shifts_are_those_of_our_own_streams(shift):
    ours, theirs = own(shift=shift), digits(shift=shift)
    assert ours.events.tolist() == theirs.events.tolist() and len(ours.events)
    mean, std = torch.tensor(theirs.mean), torch.tensor(theirs.std)
    for t in (0, 10, 25, 40):
        assert ours.drifted(t).tolist() == theirs.drifted(t).tolist()
        assert np.array_equal(ours.label_counts(np.arange(6), t), theirs.label_counts(np.arange(6), t))
        for client in (0, 4):
            for one, other in zip(
                (ours.shard(client, t).train, ours.shard(client, t).test),
                (theirs.shard(client, t).train, theirs.shard(client, t).test),
                strict=True,
            ):
                (x, y), (wanted, labels) = one.tensors(), other.tensors()
                assert torch.equal(y, labels) and torch.allclose((x - mean) / std, wanted, atol=1e-4)
                assert np.array_equal(labels_of(one), y.numpy())


def test_clients_jump_between_the_ways_that_are_named():
    data = DriftingDataModule(
        from_arrays(PIXELS, LABELS),
        num_clients=10,
        shift=ShiftDrift(share=0.5, gap=5, shifts=("none", "rot90+swap0-2")),
    )
    where = {image.tobytes(): i for i, image in enumerate(PIXELS)}
    turned = {np.ascontiguousarray(np.rot90(image, 1, (1, 2))).tobytes(): i for i, image in enumerate(PIXELS)}
    swap, jumped = np.array([2, 1, 0]), 0
    for client in range(10):
        x, y = data.shard(client, 5).train.tensors()
        found = [where.get(image.tobytes(), -1) for image in x.numpy()]
        if min(found) < 0:
            jumped += 1
            found = [turned[image.tobytes()] for image in x.numpy()]
            assert y.tolist() == swap[LABELS[found]].tolist()
        else:
            assert y.tolist() == LABELS[found].tolist()
        counts = np.bincount(y, minlength=3)
        assert data.label_counts(np.array([client]), 5)[0].tolist() == counts.tolist()
    assert jumped == 5 == len(data.drifted(5))


def test_a_function_of_a_sample_and_proxies_from_the_test_set():
    data = DriftingDataModule(
        from_arrays(PIXELS, LABELS, test=(10 + PIXELS[:30], LABELS[:30])),
        num_clients=4,
        proxy_per_class=2,
        shift=ShiftDrift(share=1.0, gap=5, shifts=("none", lambda sample: (-sample[0], sample[1]))),
    )
    assert (data.shard(1, 0).train.tensors()[0] >= 0).all() and (data.shard(1, 5).train.tensors()[0] <= 0).all()
    x, y = data.proxy(0).tensors()
    assert (x >= 10).all() and sorted(y.tolist()) == [0, 0, 1, 1, 2, 2]
    assert not any((view.tensors()[0] >= 10).any() for view in (data.pool("train"), data.pool("test")))


def test_fielding_runs_on_it(tmp_path):
    data = own(shift=LabelSwaps(gap=2, times=2))
    model = MLP(data.num_classes, data.input_shape, hidden=[16])
    method = {"class_path": "Fielding", "init_args": {"rounds": 4}}
    run = fl.fit(data, model, method, run_dir=tmp_path / "run", engine={"progress": False})
    assert run.status == "finished" and run.summary["dataset"] == "arrays"


class Unlabelled(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader([{"x": torch.ones(3)}] * 30, batch_size=4)


@pytest.mark.parametrize(
    ("module", "kwargs", "told"),
    [
        (Unlabelled(), {}, "which is not known of Unlabelled"),
        (from_arrays(PIXELS, LABELS.astype(np.float32)), {}, "by their class"),
        (from_arrays(np.random.rand(30, 4), LABELS[:30]), {"shift": RotationDrift()}, "of shape (4,)"),
        (from_arrays(PIXELS, LABELS), {"shift": ShiftDrift(shifts=("none", "rot"))}, "data.shifts has 'rot'"),
        (from_arrays(PIXELS, 2 * LABELS), {}, "no sample has the label 1"),
    ],
)
def test_what_cannot_drift_is_refused_at_the_start_in_one_line(module, kwargs, told):
    with pytest.raises(UserError) as caught:
        DriftingDataModule(module, num_clients=2, **kwargs).setup()
    assert told in str(caught.value) and "\n" not in str(caught.value)
