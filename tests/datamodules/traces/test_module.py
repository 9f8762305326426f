"""Real clients and times from a manifest: what arrives when by hand, pixels against the files, errors by line."""

import numpy as np
import pytest
import torch
from PIL import Image

from flcluster.data import labels_of
from flcluster.datamodules.streams.label_buckets import LabelBuckets
from flcluster.datamodules.traces import manifest as manifests
from flcluster.datamodules.traces.arrivals import TraceDays, TraceIntervals, TraceLabelBuckets, TraceSetting
from flcluster.datamodules.traces.manifest import ManifestLine, parse_date, read_manifest, write_manifest
from flcluster.datamodules.traces.module import TraceDataModule
from flcluster.datamodules.traces.pixels import cache_path, cached_pixels
from flcluster.errors import UserError


@pytest.fixture
def trace(tmp_path):
    """40 images of 2 clients and 4 classes, one a day from 2015-01-03 on, named out of order; returns their pixels."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    pixels = rng.integers(0, 256, (40, 6, 6, 3), dtype=np.uint8)
    rows = []
    for i in rng.permutation(40).tolist():
        Image.fromarray(pixels[i]).save(tmp_path / "images" / f"{i}.png")
        day = np.datetime64("2015-01-03") + i
        rows.append(ManifestLine(f"images/{i}.png", "abcd"[i % 4], ("north", "south")[i % 2], f"{day}T12:30:00Z"))
    write_manifest(tmp_path / "trace.csv", rows, ["a", "b", "c", "d"])
    return tmp_path, pixels, rows


def data_of(folder, **more):
    return TraceDataModule(
        "trace.csv", root=folder, **{"image_size": 6, "mean": (0, 0, 0), "std": (1, 1, 1), "window": 10, **more}
    )


def held_days(data, client, cycle):
    """Return the days (from 0) that a client holds at a round, read off its pixels."""
    views = data.shard(client, cycle)
    return sorted(torch.cat([part[1] for view in (views.train, views.test) for part in view.parts]).tolist())


# ------------------------------------------------------------------------------------------------------- the stream


def test_days(trace):
    """Two rounds a day and a window of 10: day d arrives at round 2·d − 10 and stays for 10 rounds."""
    folder, _, rows = trace
    data = data_of(folder, arrivals=TraceDays())
    data.setup()
    assert (data.num_clients, data.num_classes, data.input_shape) == (2, 4, (3, 6, 6))
    day = [int(row.image[7:-4]) for row in rows]
    for client, name in enumerate(data.client_names):
        assert name == rows[[r.client for r in rows].index(name)].client
        parity = ("north", "south").index(name)
        for cycle in (0, 1, 2, 3, 7, 40, 68, 69, 200):
            tick = min(cycle // 2 * 2, 2 * 39 - 10)
            expected = [d for d in range(parity, 40, 2) if tick - 10 - (tick == 0) < 2 * d - 10 <= tick]
            assert sorted(day[i] for i in held_days(data, client, cycle)) == expected
    assert data.drifted(0).tolist() == data.drifted(3).tolist() == []
    assert data.drifted(2).tolist() == [0, 1]  # day 6 comes, day 0 went at the first tick


def test_pixels_and_labels_are_those_of_the_files(trace):
    folder, pixels, rows = trace
    data = data_of(folder)
    view = data.pool("train")
    x, y = view.tensors()
    for image, label, i in zip(x, y, torch.cat([index for _, index in view.parts]).tolist(), strict=True):
        day = int(rows[i].image[7:-4])
        assert torch.equal((image * 255).round().byte(), torch.from_numpy(pixels[day]).permute(2, 0, 1))
        assert data.classes[label] == rows[i].label == "abcd"[day % 4]
    everything = len(view) + len(data.pool("test"))
    assert everything == 40 and len(data.pool("test")) in (7, 8, 9)


@pytest.mark.parametrize(
    ("plan", "days"),
    [
        (TraceDays(rounds_per_day=0.5, start="2015-01-13"), {d: (d - 10) // 2 - 10 for d in range(10, 40)}),
        (TraceIntervals(intervals=5, gap=7), {d: d // 2 * 5 // 20 * 7 - 10 for d in range(40)}),
    ],
)
def test_plans_by_hand(trace, plan, days):
    folder, _, rows = trace
    data = data_of(folder, arrivals=plan, test_share=0.0)
    found = {}
    for cycle in range(80):
        for client in range(2):
            for arrival, view in data.arrived(client, cycle):
                for i in torch.cat([index for _, index in view.parts]).tolist():
                    assert found.setdefault(int(rows[i].image[7:-4]), arrival) == arrival
    assert found == days


def test_label_buckets():
    """All samples of a client's label arrive together, labels spread evenly over the buckets, and seeds matter."""
    rng = np.random.default_rng(1)
    labels, client = rng.integers(0, 12, 4000), rng.integers(0, 9, 4000)
    client[client == 8] = 7
    keep = (client != 3) | (labels < 4)  # client 3 has four labels only
    labels, client = labels[keep], client[keep]

    def draw(seed):
        setting = TraceSetting(labels, 12, 9, 100, 0.2, seed, client, np.zeros(len(labels)), 0.0)
        return TraceLabelBuckets(buckets=5, gap=50).draw(setting)

    found = draw(0)
    assert (found.client == client[found.sample]).all() and len(found.sample) == len(labels)
    for c in range(8):
        mine = found.client == c
        buckets = {}
        for label, arrival in zip(labels[found.sample[mine]].tolist(), found.arrival[mine].tolist(), strict=True):
            assert buckets.setdefault(label, arrival) == arrival
        counts = np.bincount([(a + 100) // 50 for a in buckets.values()])
        assert set(buckets.values()) <= {-100, -50, 0, 50, 100}
        assert counts.tolist() == [1, 1, 1, 1] if c == 3 else sorted(counts.tolist()) == [2, 2, 2, 3, 3]
    assert (draw(0).arrival == found.arrival).all() and (draw(1).arrival != found.arrival).any()


def test_some_clients_only(tmp_path):
    rows = [ManifestLine(f"{i}.png", str(i % 3), f"c{i % 20}") for i in range(200)]
    write_manifest(tmp_path / "trace.csv", rows, ["0", "1", "2"])
    for i in range(200):
        Image.new("RGB", (2, 2), (i, 0, 0)).save(tmp_path / f"{i}.png")
    one, two = (data_of(tmp_path, num_clients=5, arrivals=TraceIntervals(1), seed=seed) for seed in (0, 1))
    assert len(set(one.client_names)) == 5 and one.client_names != two.client_names
    for client, name in enumerate(one.client_names):
        shard = one.shard(client)
        held = torch.cat([index for view in (shard.train, shard.test) for _, index in view.parts]).tolist()
        assert sorted(held) == [i for i in range(200) if f"c{i % 20}" == name]
    with pytest.raises(UserError, match=r"num_clients is 21, but .* has 20 clients"):
        data_of(tmp_path, num_clients=21)


def test_a_proxy_set_is_taken_out_of_the_stream(trace):
    folder, _, rows = trace
    data = data_of(folder, proxy_per_class=3, arrivals=TraceDays())
    proxy = data.proxy(0)
    assert np.bincount(labels_of(proxy)).tolist() == [3, 3, 3, 3]
    index = set(torch.cat([i for _, i in proxy.parts]).tolist())
    held = torch.cat([i for split in ("train", "test") for _, i in data.pool(split).parts]).tolist()
    assert sorted(held) == sorted(set(range(40)) - index)
    for client, name in enumerate(data.client_names):  # and nobody's samples were mixed up by it
        ours = [i for cycle in range(0, 80, 2) for i in held_days(data, client, cycle)]
        assert {rows[i].client for i in ours} == {name}


# -------------------------------------------------------------------------------------------------------- the cache


def test_images_are_decoded_once(trace):
    """With the file of decoded images, the images themselves are not needed; a changed manifest makes another."""
    folder, _, rows = trace
    data = data_of(folder)
    data.prepare_data()
    before = data.pool().tensors()[0]
    path = cache_path(data.manifest, 6)
    assert path.is_file() and path.parent == folder and path.stat().st_size < 40 * 108 + 200
    for image in (folder / "images").iterdir():
        image.unlink()
    assert torch.equal(data_of(folder).pool().tensors()[0], before)
    write_manifest(folder / "trace.csv", rows[:-1], ["a", "b", "c", "d"])
    with pytest.raises(UserError, match="is not a readable image"):
        data_of(folder).setup()
    assert sorted(p.name for p in folder.glob("*.npy*")) == [path.name]  # no half-written file is left


def test_the_cache_can_lie_elsewhere_and_is_checked(trace, tmp_path):
    folder, _, _ = trace
    data = data_of(folder, cache=str(tmp_path / "elsewhere"))
    data.prepare_data()
    path = cache_path(data.manifest, 6, tmp_path / "elsewhere")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(UserError, match=r"is broken .* delete it"):
        data_of(folder, cache=str(tmp_path / "elsewhere")).setup()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the cache"):
        data_of(folder, cache=str(tmp_path / "file")).setup()


def test_boxes_are_cut_out(tmp_path):
    """Two crops of one image, one beyond its edge; resized to the same size."""
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[2:6, 4:8] = (200, 100, 50)
    Image.fromarray(pixels).save(tmp_path / "frame.png")
    boxes = ["4 2 8 6", "", "15 5 99 99", "5.6 2.4 8 6"]
    write_manifest(
        tmp_path / "trace.csv", [ManifestLine("frame.png", "0", "c", str(i), b) for i, b in enumerate(boxes)], ["x"]
    )
    held = cached_pixels(read_manifest(tmp_path / "trace.csv"), 4).numpy()
    flat = np.array([200, 100, 50])[:, None, None]
    assert (held[0] == flat).all() and (held[3] == flat).all() and not held[2].any()
    whole = Image.fromarray(pixels).resize((4, 4), Image.Resampling.BILINEAR)
    assert (held[1] == np.asarray(whole).transpose(2, 0, 1)).all()
    for box in ("30 0 40 5", "1 2 3", "a b c d"):
        write_manifest(tmp_path / "bad.csv", [ManifestLine("frame.png", "0", "c", "1", box)], ["x"])
        with pytest.raises(UserError, match=f"the box '{box}'"):
            cached_pixels(read_manifest(tmp_path / "bad.csv"), 4)


# ----------------------------------------------------------------------------------------------------- the manifest


def write_text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_reading_a_hand_written_manifest(tmp_path):
    """Columns in any order, more of them, numbers as labels, no time: the order of lines."""
    path = write_text(tmp_path / "m.csv", 'note,client,label,image\nx,z,2,"a, b.png"\ny,1,0,c.png\n\nz,z,0,d.png\n')
    held = read_manifest(path)
    assert held.images == ["a, b.png", "c.png", "d.png"] and held.boxes == ["", "", ""]
    assert held.labels.tolist() == [2, 0, 0] and held.classes == ["0", "1", "2"]
    assert held.clients.tolist() == [0, 1, 0] and held.client_names == ["z", "1"]
    assert held.times.tolist() == [0, 1, 2]


def test_labels_by_name_and_by_number(tmp_path):
    path = write_text(tmp_path / "m.csv", "image,label,client,time\na,dog,c,1.5\nb,cat,c,-2\nc,dog,c,1e3\n")
    held = read_manifest(path)
    assert held.classes == ["cat", "dog"] and held.labels.tolist() == [1, 0, 1]
    assert held.times.tolist() == [1.5, -2.0, 1000.0]
    write_text(tmp_path / "m.classes.txt", "dog\ncat\nbird\n")
    held = read_manifest(path)
    assert held.classes == ["dog", "cat", "bird"] and held.labels.tolist() == [0, 1, 0]
    write_text(path, "image,label,client\na,2,c\nb,cat,c\n")
    assert read_manifest(path).labels.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("1970-01-03", 2.0),
        ("1970-01-03T12:00", 2.5),
        ("1970-01-03 06:00:00.000", 2.25),
        ("1970-01-03T18:00:00Z", 2.75),
        ("1970-01-01T00:00:43.2+00:00", 0.0005),
    ],
)
def test_dates(text, day):
    assert manifests.days_since_1970(parse_date(text)) == pytest.approx(day, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no column 'image'"),
        ("image,label\na,b\n", "has no column 'client': it must have image,label,client"),
        ("image,label,client\n", "has no images"),
        ("image,label,client\na,b,c\na,b\n", "line 3: 2 values for 3 columns"),
        ("image,label,client\na,b,c\na,,c\n", "line 3: image, label and client must not be empty"),
        ("image,label,client,time\na,b,c,1\na,b,c,soon\n", "line 3: the time 'soon' is no number"),
        ("image,label,client,time\na,b,c,1\na,b,c,\n", "line 3: the time '' is no number"),
        ("image,label,client,time\na,b,c,1\na,b,c,inf\n", "line 3: the time inf is no number below 1e"),
        ("image,label,client,time\na,b,c,2015-01-01\na,b,c,2015-13-01\n", "line 3: the time '2015-13-01' is no date"),
        ("image,label,client,time\na,b,c,1\na,b,c,1e300\n", "line 3: the time 1e300 is no number below 1e"),
        ("image,label,client\na,1,c\na,1000000000000,c\n", "line 3: the label 1000000000000 would make .*classes.txt"),
        ("image,label,client\na,1,c\na,-1,c\n", "line 3: the label '-1' is no whole number from 0"),
        ("image,label,client\na,1,c\na,cat,c\n", "line 3: the label 'cat' is no whole number from 0"),
        ("image,label,label,client\na,1,1,c\n", "has the column 'label' more than once"),
        ("image,label,client\na,1,c\na,1,\0\n", "line 3: a character of value 0 is not text in UTF-8"),
        ("image,label,client,time\na,b,c,2015-01-01\na,b,c,7\n", "line 3: the time '7' is no date"),
    ],
)
def test_broken_manifests(tmp_path, text, says):
    with pytest.raises(UserError, match=says) as error:
        read_manifest(write_text(tmp_path / "m.csv", text))
    assert "m.csv" in str(error.value)


def test_labels_that_are_no_class(tmp_path):
    write_text(tmp_path / "m.classes.txt", "dog\ncat\n")
    for label in ("bird", "2"):
        path = write_text(tmp_path / "m.csv", f"image,label,client\na,dog,c\nb,{label},c\n")
        with pytest.raises(UserError, match=f"line 3: there is no class '{label}' in m.classes.txt"):
            read_manifest(path)
    write_text(tmp_path / "m.classes.txt", "dog\ndog\n")
    with pytest.raises(UserError, match="each class name once"):
        read_manifest(path)


def test_what_cannot_be(trace):
    folder, _, _ = trace
    with pytest.raises(UserError, match=r"there is no .*nothing\.csv.*flcluster convert"):
        TraceDataModule("nothing.csv", root=folder)
    with pytest.raises(UserError, match="LabelBuckets, which makes up clients"):
        data_of(folder, arrivals=LabelBuckets())
    with pytest.raises(UserError, match=r"data\.image_size must be at least 1, got 0"):
        data_of(folder, image_size=0)
    with pytest.raises(UserError, match=r"start is 2020-01-01, but no sample is that late"):
        data_of(folder, arrivals=TraceDays(start="2020-01-01")).setup()
    with pytest.raises(UserError, match=r"data\.arrivals\.start"):
        TraceDays(start="tomorrow")
    for plan, key in ((TraceDays, "rounds_per_day"), (TraceIntervals, "gap"), (TraceLabelBuckets, "buckets")):
        with pytest.raises(UserError, match=rf"data\.arrivals\.{key} must be .*, got 0"):
            plan(**{key: 0})


def test_a_plan_for_traces_needs_a_trace():
    from flcluster.datamodules.streams.arrivals import StreamSetting

    with pytest.raises(UserError, match="use it with TraceDataModule"):
        TraceDays().draw(StreamSetting(np.zeros(3, dtype=np.int64), 1, 1, 10, 0.2, 0))
