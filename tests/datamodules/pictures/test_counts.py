"""Pictures of label skew show every count, and who drops out."""

import numpy as np
import pytest
from PIL import Image

from flcluster.datamodules import APFLTable1, Pathological, QuantitySkew, Shards, SkewedDigits, StreamDigits
from flcluster.datamodules.pictures.clients import draw_clients
from flcluster.datamodules.pictures.counts import draw_counts

STAYS, DROPS = (0, 114, 178), (213, 94, 0)


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def count(image, colour):
    return int((abs(image - colour).max(axis=-1) <= 1).sum())


def test_dropouts_have_their_own_colour(tmp_path):
    with_one = pixels(draw_clients(SkewedDigits(partition=APFLTable1()), tmp_path / "new" / "a.png"))
    without = pixels(draw_clients(SkewedDigits(partition=APFLTable1(), dropouts=[]), tmp_path / "b.png"))
    assert count(with_one, DROPS) > 1000 and count(without, DROPS) == 0
    assert count(without, STAYS) > count(with_one, STAYS) > 1000
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["a.png"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition": Pathological(table=((0, 1, 2, 3, 4), (5, 6, 7, 8, 9)))}, "Pathological(table)"),
        (
            {"partition": QuantitySkew(), "dropouts": [1], "monopoly_classes": [3]},
            "QuantitySkew(0.5), dropouts 1, monopolies 3",
        ),
    ],
)
def test_titles_say_how_the_data_were_divided(settings, said, tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr("matplotlib.figure.Figure.suptitle", lambda self, text, **style: titles.append(text))
    draw_counts(SkewedDigits(num_clients=2, **settings), tmp_path / "a.png")
    assert titles[0].splitlines()[1] == said


def test_areas_are_in_proportion_to_counts(tmp_path, monkeypatch):
    """Two clients, two classes: nine times the samples make a circle of three times the width."""
    drawn = {}

    def scatter(self, x, y, areas, *rest, **more):
        drawn.update({(a, b): area for a, b, area in zip(x.tolist(), y.tolist(), areas.tolist(), strict=True)})

    monkeypatch.setattr("matplotlib.axes.Axes.scatter", scatter)
    data = SkewedDigits(partition=Pathological(classes_per_client=5), num_clients=2)
    counts = np.zeros((2, 10), dtype=np.int64)
    counts[0, 0], counts[0, 1], counts[1, 1] = 90, 10, 50
    monkeypatch.setattr(data, "label_counts", lambda clients, cycle: counts)
    draw_counts(data, tmp_path / "a.png")
    assert set(drawn) == {(0, 0), (0, 1), (1, 1)}
    assert drawn[0, 0] / drawn[0, 1] == pytest.approx(9) and drawn[0, 0] / drawn[1, 1] == pytest.approx(1.8)


def test_many_clients_become_colours_and_the_first_are_shown(tmp_path):
    data = SkewedDigits(partition=Shards(), num_clients=100, dropouts=[3])
    all_of_them = pixels(draw_clients(data, tmp_path / "a.png"))
    first = pixels(draw_clients(data, tmp_path / "b.png", max_clients=12))
    assert all_of_them.shape[1] > 1.5 * first.shape[1]
    assert count(all_of_them, DROPS) > 200 and count(all_of_them, (68, 1, 84)) > 100  # the darkest of the colours


@pytest.mark.parametrize(("clients", "each"), [(5, 0), (60, 0), (60, 1)])
def test_nothing_at_all_and_one_sample_each_can_be_drawn(clients, each, tmp_path, monkeypatch):
    data = SkewedDigits(partition=QuantitySkew(alpha=9.0), num_clients=clients)
    monkeypatch.setattr(data, "label_counts", lambda chosen, cycle: np.full((len(chosen), 10), each))
    assert draw_counts(data, tmp_path / "a.png").exists()


def test_streams_are_drawn_too(tmp_path):
    image = pixels(draw_clients(StreamDigits(), tmp_path / "a.png", cycle=10))
    assert count(image, STAYS) > 1000
