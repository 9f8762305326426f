import numpy as np
import pytest
from PIL import Image

from flcluster.datamodules import FrameIntervals, LabelSwaps, StreamDigits, Timestamps
from flcluster.datamodules.pictures.stream import draw_stream, held_labels


def test_numbers_behind_the_picture():
    data = StreamDigits()
    rounds, clients = np.array([0, 10, 70]), np.array([3, 9])
    together, single, sizes = held_labels(data, rounds, clients)
    for i, cycle in enumerate(rounds.tolist()):
        counts = data.label_counts(np.arange(20), cycle)
        assert together[i].tolist() == counts.sum(axis=0).tolist()
        assert single[:, i].tolist() == counts[clients].tolist()
        assert sizes[1, i] == np.median(data.sizes(cycle))


def test_the_picture_shows_every_label(tmp_path):
    path = draw_stream(StreamDigits(), tmp_path / "new" / "stream.png")
    assert [file.name for file in path.parent.iterdir()] == ["stream.png"]
    image = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    for colour in ((0, 114, 178), (213, 94, 0), (68, 170, 153)):  # labels 0, 1 and 9
        assert (abs(image - colour).max(1) <= 1).sum() > 3000


@pytest.mark.parametrize(
    "data",
    [
        StreamDigits(static=True, num_clients=1),
        StreamDigits(static=True, shift=LabelSwaps(times=3)),
        StreamDigits(num_clients=5, arrivals=Timestamps(samples=(20, 40), days=60)),
        StreamDigits(num_clients=5, arrivals=FrameIntervals(samples=(20, 40), gap=2)),
    ],
)
def test_streams_of_every_kind_can_be_drawn(data, tmp_path):
    assert Image.open(draw_stream(data, tmp_path / "stream.png", until=90)).size[0] > 900


def test_many_classes_become_a_heat_map(tmp_path, monkeypatch):
    monkeypatch.setattr("flcluster.datamodules.pictures.stream.MAX_STACKED", 5)
    assert Image.open(draw_stream(StreamDigits(), tmp_path / "stream.png", clients=2)).size[0] > 900
