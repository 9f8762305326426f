"""Converters on small files in the published layouts; every row of the manifest against what was written."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from flcluster.datamodules.traces.arrivals import TraceDays, TraceIntervals, TraceLabelBuckets
from flcluster.datamodules.traces.convert import KINDS, convert
from flcluster.datamodules.traces.convert.fmow import utm_zone
from flcluster.datamodules.traces.manifest import read_manifest
from flcluster.datamodules.traces.module import TraceDataModule
from flcluster.errors import UserError


def picture(path, size=(8, 8), colour=(10, 20, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def converted(kind, source):
    """Convert into a folder beside the source; return rows as dictionaries, the manifest, and the class names."""
    path = convert(kind, source, source.parent / "out" / "deep" / "trace.csv")
    held = read_manifest(path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert (path.parent / row["image"]).is_file()
        row["image"] = (path.parent / row["image"]).resolve().relative_to(source.resolve()).as_posix()
    return rows, held


# ------------------------------------------------------------------------------------------------------------- FMoW

WILDS = (
    "split,img_filename,img_path,spatial_reference,epsg,category,visible,img_width,img_height,country_code,cloud_cover,"
    "timestamp,lat,lon,region"
)
PLACES = [  # split, category, timestamp, latitude, longitude
    ("train", "zoo", "2016-05-29T16:36:54Z", 48.85, 2.35),
    ("val", "airport", "2014-12-31T23:59:59Z", 48.85, 2.35),
    ("seq", "airport", "2017-01-01T00:00:00Z", 48.85, 2.35),
    ("test", "dam", "2015-01-01T00:00:00Z", -33.9, 151.2),
    ("train", "dam", "2015-01-02T00:00:00.250Z", 48.9, 2.5),
]


def write_wilds(folder, places=PLACES):
    rows = [WILDS.split(",")]
    for i, (split, category, timestamp, latitude, longitude) in enumerate(places):
        rows.append(
            [split, "a.jpg", "p", "s", "1", category, "1", "9", "9", "FRA", "0", timestamp, latitude, longitude, 3]
        )
        if split != "seq":
            picture(folder / "images" / f"rgb_img_{i}.png")
    return table(folder / "rgb_metadata.csv", rows)


def test_fmow_by_wilds(tmp_path):
    """The file name counts all rows, from 0; sequestered and early ones are left out; the zone comes from the place."""
    write_wilds(tmp_path / "fmow")
    rows, held = converted("fmow", tmp_path / "fmow")
    assert [(r["image"], r["label"], r["client"], r["time"]) for r in rows] == [
        ("images/rgb_img_4.png", "dam", "31U", "2015-01-02T00:00:00.250Z"),
        ("images/rgb_img_0.png", "zoo", "31U", "2016-05-29T16:36:54Z"),
        ("images/rgb_img_3.png", "dam", "56H", "2015-01-01T00:00:00Z"),
    ]
    assert held.classes == ["airport", "dam", "zoo"] and held.labels.tolist() == [1, 2, 1]
    assert held.times[1] - held.times[2] == pytest.approx(514 + (16 * 3600 + 36 * 60 + 54) / 86_400)


def write_fmow(folder, name, utm, timestamp, boxes):
    path = folder / f"{name}_rgb.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"gsd": 2.1, "utm": utm, "timestamp": timestamp, "bounding_boxes": boxes}))
    path.with_name(path.name.replace("_rgb", "_msrgb")).write_text("not read")
    picture(path.with_suffix(".jpg"))


def test_fmow_rgb(tmp_path):
    folder, no = tmp_path / "fmow-rgb", {"ID": -1, "category": "false_detection", "box": [0, 0, 1, 1]}
    write_fmow(folder, "train/zoo/zoo_3/zoo_3_0", "18t", "2016-01-02T10:00:00Z", [no, {"ID": 4, "category": "zoo"}])
    write_fmow(folder, "val/dam/dam_0/dam_0_1", "18T", "2015-06-01T10:00:00Z", {"ID": 4, "category": "dam"})
    write_fmow(folder, "val/dam/dam_0/dam_0_2", "18T", "2011-06-01T10:00:00Z", [{"ID": 4, "category": "dam"}])
    write_fmow(folder, "val/none/none_0/none_0_2", "18T", "2016-06-01T10:00:00Z", [no])
    (folder / "test").mkdir()
    rows, held = converted("fmow", folder)
    assert [(r["image"], r["label"], r["client"]) for r in rows] == [
        ("val/dam/dam_0/dam_0_1_rgb.jpg", "dam", "18T"),
        ("train/zoo/zoo_3/zoo_3_0_rgb.jpg", "zoo", "18T"),
    ]
    assert held.classes == ["dam", "zoo"]
    write_fmow(folder, "train/zoo/zoo_4/zoo_4_0", "18T", "2016-01-02", [{"ID": 4}])
    with pytest.raises(UserError, match=r"zoo_4_0_rgb\.json is no metadata of fMoW.*'category'"):
        convert("fmow", folder, tmp_path / "m.csv")


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ((0.0, -180.0), "1N"),
        ((-0.1, 179.9), "60M"),
        ((40.7, -74.0), "18T"),
        ((60.4, 5.3), "32V"),  # Bergen
        ((60.4, 2.9), "31V"),
        ((78.2, 15.6), "33X"),  # Longyearbyen
        ((78.2, 8.9), "31X"),
        ((78.2, 9.0), "33X"),
        ((78.2, 21.0), "35X"),
        ((78.2, 33.0), "37X"),
        ((83.9, 50.0), "39X"),
        ((-79.9, 0.0), "31C"),
    ],
)
def test_utm_zones(place, zone):
    assert utm_zone(*place) == zone


# ------------------------------------------------------------------------------------------------------- Cityscapes


def write_city(folder, split, city, frames, objects):
    for sequence, frame in frames:
        stem = f"{city}_{sequence:06d}_{frame:06d}"
        picture(folder / "leftImg8bit" / split / city / f"{stem}_leftImg8bit.png", (300, 200))
        path = folder / "gtFine" / split / city / f"{stem}_gtFine_polygons.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"imgHeight": 200, "imgWidth": 300, "objects": objects}))


BIG = [[10, 20], [61, 20], [61, 71], [30, 90]]
OBJECTS = [
    {"label": "car", "polygon": BIG},
    {"label": "sky", "polygon": BIG},
    {"label": "person", "polygon": [[0, 0], [50, 0], [50, 150]]},  # 50 pixels wide: too small
    {"label": "bicycle", "polygon": [[100, 0], [151, 0], [151, 60]]},
]


def test_cityscapes_from_annotations(tmp_path):
    """Two objects a frame: 100 of them are 50 frames."""
    folder = tmp_path / "cityscapes"
    frames = [(s, f) for s in (1, 0) for f in range(0, 90, 3)]  # 60 frames, written out of order
    write_city(folder, "train", "ulm", frames, OBJECTS)
    write_city(folder, "val", "jena", [(0, 7)], OBJECTS)
    rows, held = converted("cityscapes", folder)
    assert len(rows) == 122 and held.classes == ["person", "car", "truck", "bus", "bicycle", "motorcycle"]
    assert rows[0]["image"] == "leftImg8bit/val/jena/jena_000000_000007_leftImg8bit.png"
    assert [(r["label"], r["box"], r["client"]) for r in rows[:2]] == [
        ("car", "10 20 61 90", "jena_0"),
        ("bicycle", "100 0 151 60", "jena_0"),
    ]
    ulm = rows[2:]
    assert [r["client"] for r in ulm] == ["ulm_0"] * 100 + ["ulm_1"] * 20
    assert [int(r["time"]) for r in ulm] == [s * 10**6 + f for s, f in sorted(frames) for _ in range(2)]
    by_frame, _ = converted("cityscapes_frames", folder)
    assert [r["client"] for r in by_frame] == ["jena_0"] * 2 + ["ulm_0"] * 120


def test_a_client_has_a_hundred_frames_at_most(tmp_path):
    write_city(tmp_path / "c", "train", "ulm", [(0, f) for f in range(101)], OBJECTS)
    rows, _ = converted("cityscapes_frames", tmp_path / "c")
    assert [r["client"] for r in rows] == ["ulm_0"] * 200 + ["ulm_1"] * 2


def test_cityscapes_from_sample_lists(tmp_path):
    """Ekya's lists come before annotations; they have no header, and may have more classes."""
    folder = tmp_path / "cityscapes"
    write_city(folder, "train", "ulm", [(0, 5), (0, 1)], OBJECTS)
    images = [f"train/ulm/ulm_000000_{f:06d}_leftImg8bit.png" for f in (5, 1)]
    lines = [[0, images[0], 2, 1, 2, 100, 120], [1, images[1], 5, 3, 4, 60.0, 70], [2, images[1], 6, 3, 4, 60, 70]]
    path = table(folder / "sample_lists" / "citywise" / "ulm_fine.csv", lines)
    rows, _ = converted("cityscapes", folder)
    assert [(r["image"], r["label"], r["client"], r["time"], r["box"]) for r in rows] == [
        (f"leftImg8bit/{images[1]}", "motorcycle", "ulm_0", "1", "3 4 60 70"),
        (f"leftImg8bit/{images[0]}", "truck", "ulm_0", "5", "1 2 100 120"),
    ]
    table(path, [["idx", "imgpath", "class", "x0", "y0", "x1", "y1"], *lines])
    assert converted("cityscapes", folder)[0] == rows
    for line, says in (
        ([3, images[0], "car", 1, 2, 3, 4], "line 4: invalid literal"),
        ([3, images[0], 1, 1, 2, 3], "line 4: 6 values for 7 columns"),
        ([3, "train/ulm/frame.png", 1, 1, 2, 3, 4], r"line 4: .*is not named <city>_<sequence>_<frame>"),
    ):
        table(path, [*lines, line])
        with pytest.raises(UserError, match=says):
            convert("cityscapes", folder, tmp_path / "m.csv")


# ------------------------------------------------------------------------------------------------------------ Waymo

LABELS = (
    "idx,image name,class,timestamp,weather,location,time of day,segment,frame index,camera name,label id,"
    "xmin,ymin,xmax,ymax,detection difficulty level,tracking difficulty level"
)


def write_waymo(folder, name, samples):
    """Samples are (segment, camera, frame, object, class)."""
    rows = [LABELS.split(",")]
    for i, (segment, camera, frame, number, label) in enumerate(samples):
        image = f"{frame:04d}_{number}.jpg"
        rows.append(
            [i, image, label, 10**15, "sunny", "location_phx", "Day", segment, frame, camera, number, 0, 0, 9, 9, 0, 0]
        )
        picture(folder / segment / camera / image)
    return table(folder / "sample_lists" / "citywise" / f"{name}_labels.csv", rows)


SAMPLES = [
    ("s2", "FRONT", 11, "x", 0),
    ("s1", "FRONT", 9, "y", 3),
    ("s1", "SIDE_LEFT", 9, "y", 2),
    ("s1", "FRONT", 0, "y", 1),
]


def test_waymo(tmp_path):
    """One client a camera of a segment; a sample that two lists name counts once."""
    write_waymo(tmp_path / "waymo", "phx", SAMPLES)
    write_waymo(tmp_path / "waymo", "phx_000_009", SAMPLES[1:3])
    rows, held = converted("waymo", tmp_path / "waymo")
    assert [(r["image"], r["label"], r["client"], r["time"]) for r in rows] == [
        ("s1/FRONT/0000_y.jpg", "pedestrian", "s1/FRONT", "0"),
        ("s1/FRONT/0009_y.jpg", "cyclist", "s1/FRONT", "9"),
        ("s1/SIDE_LEFT/0009_y.jpg", "sign", "s1/SIDE_LEFT", "9"),
        ("s2/FRONT/0011_x.jpg", "vehicle", "s2/FRONT", "11"),
    ]
    assert held.classes == ["vehicle", "pedestrian", "sign", "cyclist"]


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        ([0, 1, 2, 3], ["vehicle", "pedestrian", "sign", "cyclist"]),
        ([1, 2, 3, 4], ["vehicle", "pedestrian", "sign", "cyclist"]),
        ([0, 1, 2, 4], ["vehicle", "pedestrian", "cyclist"]),
        ([1, 1, 2, 3], ["vehicle", "vehicle", "pedestrian", "sign"]),
    ],
)
def test_waymo_class_numbers(tmp_path, classes, names):
    """Waymo's own numbers, with 0 for unknown, or Ekya's, which start at 0."""
    write_waymo(tmp_path / "waymo", "sf", [("s", "FRONT", i, "o", c) for i, c in enumerate(classes)])
    assert [r["label"] for r in converted("waymo", tmp_path / "waymo")[0]] == names


def test_broken_waymo_lists(tmp_path):
    path = write_waymo(tmp_path / "waymo", "phx", [*SAMPLES, ("s1", "FRONT", 3, "z", 7)])
    with pytest.raises(UserError, match=r"phx_labels\.csv, line 6: there is no class 7"):
        convert("waymo", tmp_path / "waymo", tmp_path / "m.csv")
    path.write_text(path.read_text().replace("camera name", "camera"))
    with pytest.raises(UserError, match=r"has no column 'camera name'"):
        convert("waymo", tmp_path / "waymo", tmp_path / "m.csv")


# ------------------------------------------------------------------------------------------------------ Open Images


def write_open_images(folder, samples):
    """Samples are (client, label)."""
    rows = [["client_id", "sample_path", "label_name", "label_id"]]
    for i, (client, label) in enumerate(samples):
        rows.append([client, f"{i:04x}.jpg", f"Name {label}", label])
        picture(folder / "train" / f"{i:04x}.jpg", (2, 2))
    return table(folder / "client_data_mapping" / "train.csv", rows)


def test_open_images(tmp_path):
    """102 labels: 100 and 101 occur once, 99 as often as 98. Client a has 10 of the top, b nine of them and 101."""
    samples = [("c", label) for label in range(100) for _ in range(2)]
    samples += [("a", label) for label in range(10)] + [("a", 100)]
    samples += [("b", label) for label in (*range(9), 101)]
    write_open_images(tmp_path / "openImage", samples)
    rows, held = converted("open_images", tmp_path / "openImage")
    assert held.client_names == ["a", "c"] and held.classes == [f"Name {label}" for label in range(100)]
    expected = sorted((c, i, label) for i, (c, label) in enumerate(samples) if c != "b" and label < 100)
    assert [(r["client"], r["image"], r["label"]) for r in rows] == [
        (c, f"train/{i:04x}.jpg", f"Name {label}") for c, i, label in expected
    ]


def test_open_images_class_names(tmp_path):
    """Without a name, or with the name of another class, the id serves."""
    path = write_open_images(tmp_path / "o", [("a", label) for label in range(12)])
    path.write_text(path.read_text().replace("Name 3", "").replace("Name 5", "Name 7"))
    _, held = converted("open_images", tmp_path / "o")
    assert held.classes == [f"Name {i}" if i not in (3, 5, 7) else str(i) for i in range(12)]
    assert held.labels.tolist() == list(range(12))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a,x.jpg,Dog,dog", "line 14: the label_id 'dog'"),
        ("a,,Dog,1", "line 14: .*sample_path"),
        ("a,b,1", "line 14: 3 values"),
    ],
)
def test_broken_open_images(tmp_path, line, says):
    path = write_open_images(tmp_path / "o", [("a", label) for label in range(12)])
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match=says):
        convert("open_images", tmp_path / "o", tmp_path / "m.csv")


# ------------------------------------------------------------------------------------------------------------- all


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_folder_says_what_is_expected(tmp_path, kind):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"has no|has neither"):
        convert(kind, tmp_path / "empty", tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


def test_what_cannot_be(tmp_path):
    (tmp_path / "here").mkdir()
    with pytest.raises(UserError, match=r"no converter for 'kitti': choose from fmow, cityscapes"):
        convert("kitti", tmp_path / "here", tmp_path / "m.csv")
    with pytest.raises(UserError, match="there is no folder"):
        convert("fmow", tmp_path / "nowhere", tmp_path / "m.csv")
    with pytest.raises(UserError, match=r"must be a \.csv file"):
        convert("fmow", tmp_path / "here", tmp_path / "m")
    write_wilds(tmp_path / "here")
    (tmp_path / "here" / "images" / "rgb_img_3.png").unlink()
    with pytest.raises(UserError, match=r"rgb_img_3\.png is missing"):
        convert("fmow", tmp_path / "here", tmp_path / "m.csv")
    write_wilds(tmp_path / "here", [PLACES[1]])
    with pytest.raises(UserError, match=r"nothing in .* could be used for fmow"):
        convert("fmow", tmp_path / "here", tmp_path / "m.csv")
    write_wilds(tmp_path / "here", [PLACES[0], ("train", "zoo", "yesterday", 1.0, 2.0)])
    with pytest.raises(UserError, match=r"rgb_metadata\.csv, line 3: 'yesterday' is no date"):
        convert("fmow", tmp_path / "here", tmp_path / "m.csv")


@pytest.mark.parametrize("kind", ["fmow", "cityscapes", "waymo", "open_images"])
def test_from_published_files_to_a_stream(tmp_path, kind):
    """Convert, open, and let everyone train on what has arrived."""
    source = tmp_path / kind
    if kind == "fmow":
        write_wilds(source, [*[PLACES[3]] * 9, *[("train", "zoo", f"2016-05-{d:02d}", 9 * d, 2.0) for d in [1, 2] * 9]])
        plan = TraceDays(start="2015-01-01")
    elif kind == "cityscapes":
        write_city(source, "train", "ulm", [(0, f) for f in range(60)], OBJECTS)
        plan = TraceIntervals(10, 30)
    elif kind == "waymo":
        write_waymo(source, "phx", [("s", c, f, "o", f % 4) for c in ("FRONT", "SIDE") for f in range(20)])
        plan = TraceIntervals(10, 20)
    else:
        write_open_images(source, [(c, label) for c in "ab" for label in range(12) for _ in range(3)])
        plan = TraceLabelBuckets(10, 50)
    convert(kind, source, tmp_path / "trace.csv")
    data = TraceDataModule("trace.csv", root=tmp_path, image_size=8, arrivals=plan, name=kind)
    data.prepare_data()
    data.setup("fit")
    assert data.name == kind and data.num_clients >= 1
    seen = np.zeros(data.num_clients, dtype=np.int64)
    for cycle in (0, *data.events.tolist()):
        assert (data.label_counts(np.arange(data.num_clients), cycle).sum(axis=1) == data.sizes(cycle)).all()
        seen += data.sizes(cycle)
    assert seen.all()
    x, y = data.pool("train").tensors()
    assert x.shape[1:] == (3, 8, 8) and int(y.max()) < data.num_classes
