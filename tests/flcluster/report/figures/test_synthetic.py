"""Pictures of AP-FL's synthetic samples and interpolation: what they show, and what is wrong with a broken file."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.colors import to_hex
from runs import make_run

from flcluster.errors import UserError
from flcluster.report.figures.interpolation import interpolation_figure
from flcluster.report.figures.of_run import run_pictures
from flcluster.report.figures.synthetic import UNSEEN, mosaic, shown_classes, synthetic_figure

HEADER = "client,dropout,friend_share,acc_global,acc_local\n"
SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)


def personal(path, config="{}"):
    """A run of AP-FL as its directory tells it."""
    label, settings = "AP-FL (MiniLM) FashionMNIST seed=0", yaml.safe_load(config)
    return make_run("AP-FL (MiniLM)", path=path, settings=settings, num_clusters=1, semantics="MiniLM", label=label)


def write_samples(path, classes=10, unseen=(8, 9), channels=1, side=8, samples=10, **changes):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (classes, samples, channels, side, side), dtype=np.uint8)
    seen = ~np.isin(np.arange(classes), unseen)
    held = {"images": images, "names": np.array([f"name {i}" for i in range(classes)]), "seen": seen, **changes}
    np.savez(Path(path) / "synthetic.npz", **{name: value for name, value in held.items() if value is not None})
    return images


def sweep(clients=4, dropouts=(3,), shares=SHARES):
    """Accuracy falls with the friend's share: client c starts at 0.9 − c/100, dropouts at half of that."""
    lines = []
    for c in range(clients):
        start = (0.9 - c / 100) * (0.5 if c in dropouts else 1)
        lines += [f"{c},{int(c in dropouts)},{share!r},{start - 0.4 * share!r},{start / 2!r}" for share in shares]
    return HEADER + "\n".join(lines) + "\n"


def tick_labels(figure):
    return [(label.get_text(), to_hex(label.get_color())) for label in figure.axes[0].get_yticklabels()]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_row_of_samples_for_each_class_and_unseen_ones_are_marked(tmp_path, channels):
    images = write_samples(tmp_path, channels=channels)
    figure = synthetic_figure(personal(tmp_path))
    labels = tick_labels(figure)
    assert labels[:8] == [(f"name {i}", "#000000") for i in range(8)]
    assert labels[8:] == [(f"name {i} (unseen)", UNSEEN.lower()) for i in (8, 9)]
    drawn = figure.axes[0].images[0].get_array()
    sample = np.asarray(drawn[10:18, 20:28])  # row 1, column 2: a sample takes 8 pixels and a gap of 2
    np.testing.assert_array_equal(sample, images[1, 2, 0] if channels == 1 else images[1, 2].transpose(1, 2, 0))
    title = figure.get_suptitle()
    assert "semantics: MiniLM; 2 of 10 classes unseen" in title and "AP-FL (MiniLM) FashionMNIST" in title
    assert "evenly" not in title


def test_without_unseen_classes_the_title_does_not_speak_of_them(tmp_path):
    write_samples(tmp_path, unseen=())
    assert "unseen" not in synthetic_figure(personal(tmp_path)).get_suptitle()


def test_of_a_hundred_classes_some_are_shown_and_the_title_says_so(tmp_path):
    write_samples(tmp_path, classes=100, unseen=range(80, 100), side=4, channels=3, samples=2)
    figure = synthetic_figure(personal(tmp_path))
    names = [text for text, _ in tick_labels(figure)]
    assert names[:20] == [f"name {i} (unseen)" for i in range(80, 100)]
    assert names[20:] == [f"name {i}" for i in (0, 9, 18, 26, 35, 44, 53, 61, 70, 79)]
    assert "30 of 100 classes: unseen ones first, the others evenly chosen" in figure.get_suptitle()


def test_more_unseen_classes_than_rows_are_chosen_evenly_too():
    seen = np.zeros(100, dtype=bool)
    assert shown_classes(seen, most=4).tolist() == [0, 33, 66, 99]


def test_a_mosaic_has_a_white_gap_around_samples():
    sheet = mosaic(np.zeros((2, 3, 1, 4, 5), dtype=np.uint8))
    assert sheet.shape == (2 * 6, 3 * 7) and (sheet == 0).sum() == 2 * 3 * 4 * 5
    assert (sheet[4:6] == 255).all() and (sheet[:, 5:7] == 255).all()


WRONG = [
    ({"images": None}, "images"),
    ({"images": np.zeros((10, 2, 8, 8), np.uint8)}, r"images are uint8 \[10, 2, 8, 8\]"),
    ({"images": np.zeros((10, 2, 1, 8, 8))}, "images are float64"),
    ({"channels": 2}, "2 channels, not 1 or 3"),
    ({"names": np.array(["one"])}, r"10 classes, but names \(1,\)"),
    ({"seen": np.ones(9, bool)}, r"seen \(9,\)"),
    ({"names": np.array([None] * 10)}, "pickle"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG)
def test_samples_of_another_layout_are_one_message(tmp_path, changes, says):
    write_samples(tmp_path, **changes)
    with pytest.raises(UserError, match=rf"synthetic.npz cannot be drawn.*{says}.*delete it"):
        synthetic_figure(personal(tmp_path))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"not an archive"])
def test_a_corrupt_archive_is_one_message(tmp_path, content):
    (tmp_path / "synthetic.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"synthetic.npz cannot be drawn .*delete it to do without synthetic.png"):
        synthetic_figure(personal(tmp_path))


def labelled(axes):
    return {line.get_label(): line for line in axes.lines}


def test_interpolation_is_a_mean_over_stays_and_one_over_dropouts(tmp_path):
    (tmp_path / "interpolation.csv").write_text(sweep())
    figure = interpolation_figure(personal(tmp_path))
    both, local = figure.axes
    assert (both.get_title(), local.get_title()) == ("global test set", "clients' own test data")
    assert [tick.get_text() for tick in both.get_xticklabels()] == ["0", "0.01", "0.1", "0.5", "0.9", "0.99", "1"]
    lines = labelled(both)
    assert list(lines) == ["clients that stay", "dropouts"]
    np.testing.assert_allclose(lines["clients that stay"].get_ydata(), [0.89 - 0.4 * share for share in SHARES])
    np.testing.assert_allclose(lines["dropouts"].get_ydata(), [0.435 - 0.4 * share for share in SHARES])
    np.testing.assert_allclose(labelled(local)["clients that stay"].get_ydata(), np.full(7, 0.445))
    (band,) = both.collections  # one dropout has no spread
    half = np.std([0.88, 0.89, 0.9])
    edges = band.get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((0.49 - half, 0.89 + half))


CONFIG = "algorithm: {class_path: flcluster.algorithms.APFL, init_args: {interpolation: %s, reading: %s}}\n"
MARKS = [("0.1", "friend", 2, 4), ("0.1", "literal", 4, 2), ("0.01", "friend", 1, 5), ("0.9", "literal", 2, 4)]


@pytest.mark.parametrize(("coefficient", "reading", "configured", "other"), MARKS)
def test_both_readings_of_the_coefficient_are_marked(tmp_path, coefficient, reading, configured, other):
    (tmp_path / "interpolation.csv").write_text(sweep())
    for axes in interpolation_figure(personal(tmp_path, CONFIG % (coefficient, reading))).axes:
        marks = {name.split(" (")[0]: line.get_xdata()[0] for name, line in labelled(axes).items() if "(" in name}
        assert marks == {"configured": configured, "the other reading": other}


@pytest.mark.parametrize(("reading", "at"), [("friend", 4), ("literal", 2)])
def test_a_share_of_dropouts_own_is_marked_too(tmp_path, reading, at):
    (tmp_path / "interpolation.csv").write_text(sweep())
    settings = "algorithm: {class_path: flcluster.algorithms.APFL, init_args: {interpolation: 0.01, reading: %s, %s}}\n"
    config = settings % (reading, "dropout_interpolation: 0.9")
    for axes in interpolation_figure(personal(tmp_path, config)).axes:
        marks = {name.split(" (")[0]: line.get_xdata()[0] for name, line in labelled(axes).items() if "(" in name}
        assert marks["configured for dropouts"] == at
        assert len(marks) == 3


def test_a_share_that_was_not_tried_is_not_marked(tmp_path):
    """The configured one always is; 1 − 0.3 is not."""
    (tmp_path / "interpolation.csv").write_text(sweep(shares=(*SHARES[:3], 0.3, *SHARES[3:])))
    lines = labelled(interpolation_figure(personal(tmp_path, CONFIG % ("0.3", "friend"))).axes[0])
    assert list(lines) == ["clients that stay", "dropouts", "configured (0.3)"]
    assert lines["configured (0.3)"].get_xdata()[0] == 3


def test_without_dropouts_or_a_local_test_there_is_less_to_draw(tmp_path):
    rows = "0,0,0.0,0.5,\n1,0,0.0,0.7,\n0,0,1.0,0.4,0.2\n"
    (tmp_path / "interpolation.csv").write_text(HEADER + rows)
    both, local = interpolation_figure(personal(tmp_path)).axes
    np.testing.assert_allclose(labelled(both)["clients that stay"].get_xydata(), [[0, 0.6], [1, 0.4]])
    np.testing.assert_allclose(labelled(local)["clients that stay"].get_xydata(), [[1, 0.2]])
    assert "dropouts" not in labelled(both)


BROKEN = [
    ("", "no column client"),
    (HEADER + "0,0,0.1\n", "line 2: 3 cells"),
    (HEADER + "0,0,x,1,1\n", "'x' is no num"),
]


@pytest.mark.parametrize(("text", "says"), BROKEN)
def test_a_broken_sweep_is_one_message(tmp_path, text, says):
    (tmp_path / "interpolation.csv").write_text(text)
    with pytest.raises(UserError, match=rf"interpolation.csv.*{says}.*delete the file to do without interpolation.png"):
        interpolation_figure(personal(tmp_path))


def test_without_a_readable_configuration_nothing_is_marked(tmp_path):
    (tmp_path / "interpolation.csv").write_text(sweep())
    assert list(labelled(interpolation_figure(personal(tmp_path, "null")).axes[0])) == ["clients that stay", "dropouts"]


def test_a_run_draws_both_where_it_has_them(tmp_path):
    run = personal(tmp_path)
    assert synthetic_figure(run) is None and interpolation_figure(run) is None and run_pictures(run) == []
    (tmp_path / "interpolation.csv").write_text(HEADER)
    assert interpolation_figure(run) is None
    (tmp_path / "interpolation.csv").write_text(sweep())
    write_samples(tmp_path)
    assert run_pictures(run) == [tmp_path / "synthetic.png", tmp_path / "interpolation.png"]
    for name in ("synthetic", "interpolation"):
        assert (tmp_path / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
