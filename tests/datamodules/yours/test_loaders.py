"""What a DataLoader gives is what is divided: streams, subsets, dropped tails; truth is the DataLoader itself."""

import lightning
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
)

from flcluster.datamodules import IID, Dirichlet, NaturalIds, SplitDataModule
from flcluster.errors import UserError

TEN = TensorDataset(torch.arange(10.0)[:, None], torch.arange(10) % 2)


class Stream(IterableDataset):
    """Rows that come one after the other."""

    def __init__(self, n=10):
        self.n, self.passes = n, 0

    def __iter__(self):
        self.passes += 1
        for i in range(self.n):
            yield {"x": torch.tensor([float(i)]), "y": i % 2, "who": "ab"[i % 2]}


class Counted(Stream):
    """A stream that knows its length has no samples by number either."""

    def __len__(self):
        return self.n


class Evens(Sampler):
    """A sampler, or batch sampler, of one's own."""

    def __init__(self, size=None):
        self.size = size

    def __iter__(self):
        return iter([0, 2, 4] if self.size is None else [[0, 2], [4]])

    def __len__(self):
        return 3 if self.size is None else 2


def module(loader, **others):
    found = lightning.LightningDataModule()
    for name, each in {"train": loader, **others}.items():
        setattr(found, f"{name}_dataloader", lambda each=each: each)
    return found


def seen(loader):
    return sorted(float(x) for batch in loader for x in (batch["x"] if isinstance(batch, dict) else batch[0]))


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Stream(), batch_size=3),
        DataLoader(Counted(), batch_size=3),
        DataLoader(Stream(), batch_size=3, drop_last=True),
        DataLoader(TEN, batch_size=3, drop_last=True),
        DataLoader(TEN, batch_size=3, sampler=SubsetRandomSampler([1, 3, 5, 6])),
        DataLoader(TEN, batch_sampler=BatchSampler(SequentialSampler(TEN), 4, drop_last=False)),
        DataLoader(TEN, batch_size=4, shuffle=True),
    ],
    ids=["stream", "counted", "stream, tail dropped", "tail dropped", "subset", "batches", "shuffled"],
)
def test_each_sample_that_the_loader_gives_is_kept_and_no_other(loader):
    data = SplitDataModule(module(loader), Dirichlet(alpha=1.0), num_clients=2, test_share=0.0)
    assert sorted(seen(data.client_dataloader(0)) + seen(data.client_dataloader(1))) == seen(loader)
    assert data.batch_size in (3, 4) and data.num_classes == 2


def test_what_is_shuffled_and_dropped_may_all_be_trained():
    data = SplitDataModule(module(DataLoader(TEN, 3, shuffle=True, drop_last=True)), IID(), num_clients=2)
    assert len(data.pool("train")) + len(data.pool("test")) == 10


def test_a_stream_is_read_once_and_divided_by_owner():
    stream, tests = Stream(), Stream(4)
    data = SplitDataModule(module(DataLoader(stream, 2), test=DataLoader(tests, 2)), NaturalIds(attribute="who"))
    data.setup()
    data.setup()
    assert stream.passes == tests.passes == 1 and data.client_names == ("a", "b")
    assert seen(data.client_dataloader(1)) == [1, 3, 5, 7, 9] and seen(data.client_dataloader(1, split="test")) == [
        1,
        3,
    ]


def test_only_what_a_test_loader_gives_is_tested():
    data = SplitDataModule(module(DataLoader(TEN), test=DataLoader(TEN, batch_sampler=Evens(2))), IID(), num_clients=2)
    assert seen(data.test_dataloader()) == [0, 2, 4]


@pytest.mark.parametrize(
    ("loader", "told"),
    [
        (DataLoader(Stream(1001)), "more than 1,000 samples"),
        (DataLoader(Stream(0)), "a stream (Stream) that is empty"),
        (DataLoader(Stream(), batch_size=None), "no batch size"),
        (DataLoader(TEN, batch_size=None), "no batch size"),
        (DataLoader(TEN, sampler=Evens()), "draws by a Evens"),
        (DataLoader(TEN, batch_sampler=Evens(2)), "draws by a Evens"),
        (DataLoader(TEN, sampler=RandomSampler(TEN, replacement=True)), "RandomSampler with replacement"),
        (DataLoader(TEN, sampler=RandomSampler(TEN, num_samples=4)), "draws by a RandomSampler"),
        ({"a": DataLoader(TEN), "b": DataLoader(TEN)}, "gives a dict: one DataLoader is needed"),
    ],
)
def test_what_would_train_otherwise_is_refused_in_one_line(loader, told):
    with pytest.raises(UserError) as caught:
        SplitDataModule(module(loader), IID(), num_clients=2, stream_limit=1000).setup()
    assert told in str(caught.value) and "\n" not in str(caught.value)
    assert "more than" not in told or "data.stream_limit" in str(caught.value)
