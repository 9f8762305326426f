"""One palette, for every reader: colour-blind ones, on light and on dark ground; and in all pictures."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from flcluster.report.style import OKABE_ITO, ON_DARK, OTHERS, shade

ROOT = Path(__file__).parents[3]
SEEN = {
    "as it is": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""How linear RGB is seen: Machado, Oliveira and Fernandes 2009, severity 1."""
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(colour, sight):
    """A colour in CIELAB, as somebody sees it."""
    xyz = np.array(TO_XYZ) @ np.clip(np.array(sight) @ linear(colour), 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SEEN)
@pytest.mark.parametrize("dark", [False, True])
def test_the_first_colours_are_told_apart_by_everyone(sight, dark):
    """A difference of about ten is seen at a glance."""
    colours = [ON_DARK.get(colour, colour) if dark else colour for colour in OKABE_ITO[:7]]
    seen = [lab(colour, SEEN[sight]) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 10


@pytest.mark.parametrize("colour", OKABE_ITO + OTHERS)
def test_colours_are_seen_on_their_ground(colour):
    """On dark ground three to one, as WCAG asks of graphics; on white Okabe and Ito's own go down to two to one."""
    css = (ROOT / "flcluster" / "report" / "html" / "assets" / "page.css").read_text()
    grounds = [block.split("--paper: ")[1][:7] for block in css.split(":root")[1:3]]
    for ground, ink, least in ((grounds[0], colour, 2.0), (grounds[1], ON_DARK.get(colour, colour), 3.0)):
        low, high = sorted(np.dot([0.2126, 0.7152, 0.0722], linear(each)) for each in (ground, ink))
        assert (high + 0.05) / (low + 0.05) > least


def test_no_picture_has_a_palette_of_its_own():
    """Clusters, labels and methods have the colours of ``shade``; colour maps are for amounts."""
    for folder in ("flcluster", "datamodules", "algorithms"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            assert not any(word in text for word in ("tab10", "tab20", '"C0"', '"C1"', "turbo", "colormaps")), path


def test_pictures_of_data_have_the_colours_of_clusters(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    from flcluster.datamodules import RotatedDigits
    from flcluster.datamodules.pictures.data import draw_data

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **how: figures.append(figure) or Path(path).touch())
    data = RotatedDigits(num_clusters=2, num_clients=3)
    data.prepare_data()
    data.setup("fit")
    assert draw_data(data, tmp_path / "data.png") == tmp_path / "data.png"
    bars = figures[0].get_axes()[0].containers
    assert [bar.patches[0].get_facecolor()[:3] for bar in bars] == [to_rgb(shade(0)), to_rgb(shade(1))]


def test_data_that_cannot_be_drawn_harm_no_run(tmp_path, capsys):
    from flcluster.datamodules.pictures.data import draw_data

    assert draw_data(object(), tmp_path / "data.png") is None
    assert "no picture of the data" in capsys.readouterr().err
