"""LEAF's JSON files come out as writers, upright, ink bright, and turned by cluster."""

import json
import shutil

import jsonargparse
import numpy as np
import pytest
import torch
from lightning import Trainer

from flcluster.datamodules import RotatedFEMNIST
from flcluster.datamodules.clusters.femnist import MEAN, STD
from flcluster.datamodules.sources.leaf import load_femnist
from flcluster.errors import UserError
from flcluster.modules import MLP

SIZES = {"f0000_14": (9, 2), "f0001_41": (4, 1), "f0002_00": (1, 1), "f0100_07": (6, 3), "f0102_03": (7, 2)}
"""Training and test samples of each writer; two files of three and two writers."""


def write_json(path, writers):
    """Write one file as LEAF's data_to_json.py and split_data.py do: grey values divided by 255, one list an image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": (x.reshape(len(x), -1) / 255).tolist(), "y": y.tolist()} for name, (x, y) in writers.items()}
    counts = [len(y) for _, y in writers.values()]
    data["unlisted"] = {"x": [], "y": []}  # split_data.py leaves writers of one sample in user_data, not in users
    path.write_text(json.dumps({"users": list(writers), "num_samples": counts, "user_data": data}))


@pytest.fixture
def written(tmp_path):
    """Write every writer's images (bytes, dark ink on white) and return them by split and name."""
    rng, found = np.random.default_rng(8), {}
    for column, split in enumerate(("train", "test")):
        found[split] = {
            name: (rng.integers(0, 256, (n[column], 28, 28), dtype=np.uint8), rng.integers(0, 62, n[column]))
            for name, n in SIZES.items()
        }
        items = list(found[split].items())
        for i, part in enumerate((items[2:], items[:2])):  # files that do not list writers in the order of their names
            path = tmp_path / "femnist" / "data" / split / f"all_data_{i}_niid_0_keep_0_{split}_9.json"
            write_json(path, dict(part))
    return found


def small(tmp_path, **arguments):
    return RotatedFEMNIST(root=tmp_path, **{"num_clusters": 2, "num_clients": 4, **arguments})


def pixels(x):
    return np.rint((x.numpy() * STD[0] + MEAN[0]) * 255).astype(int)


def test_known_before_any_file_is_read():
    data = RotatedFEMNIST()
    assert (data.num_classes, data.input_shape, data.num_clusters, data.num_clients) == (62, (1, 28, 28), 4, 400)
    assert data.name == "FEMNIST" and data.angles == [0, 90, 180, 270]


@pytest.mark.parametrize("num_clusters", [1, 2, 4])
def test_a_client_is_a_writer_inverted_and_turned(num_clusters, written, tmp_path):
    data = small(tmp_path, num_clusters=num_clusters, num_clients=5)
    data.setup()
    assert sorted(data.writers) == sorted(SIZES)
    for client, name in enumerate(data.writers):
        cluster, shard = client % num_clusters, data.shard(client)
        for split, view in (("train", shard.train), ("test", shard.test)):
            images, labels = written[split][name]
            x, y = view.tensors()
            upright = torch.from_numpy(255 - images.astype(int))[:, None]
            expected = torch.rot90(upright, cluster * 4 // num_clusters, (-2, -1))
            np.testing.assert_array_equal(pixels(x), expected)
            assert y.tolist() == labels.tolist() and x.dtype == torch.float32 and y.dtype == torch.int64
        assert data.size(client) == SIZES[name][0] and data.main_cluster(client) == cluster
        assert shard.mixture.tolist() == [float(k == cluster) for k in range(num_clusters)]


def test_paper_is_black_and_ink_is_bright(tmp_path):
    image = np.full((1, 28, 28), 255, np.uint8)
    image[0, 3:5, 10] = 0  # a short stroke
    for split in ("train", "test"):
        write_json(tmp_path / f"femnist/data/{split}/all_data_0.json", {"f": (image, np.array([61]))})
    x, _ = small(tmp_path, num_clusters=1, num_clients=1).shard(0).train.tensors()
    assert pixels(x).sum() == 2 * 255 and (pixels(x)[0, 0, 3:5, 10] == 255).all()


def test_unnormalised_pixels_are_ink_from_0_to_1(written, tmp_path):
    data = small(tmp_path, normalise=False)
    data.setup()
    for client, name in enumerate(data.writers):
        x, _ = data.shard(client).test.tensors()
        upright = torch.from_numpy((255 - written["test"][name][0].astype(int)) / 255)[:, None]
        expected = torch.rot90(upright, 2 * (client % 2), (-2, -1))
        np.testing.assert_allclose(x.numpy(), expected, rtol=0, atol=1e-6)


def test_clusters_are_the_unions_of_their_writers(written, tmp_path):
    data = small(tmp_path)
    for cluster in (0, 1):
        members = [data.shard(client) for client in (cluster, cluster + 2)]
        for whole, parts in (
            (data.cluster_train(cluster), [shard.train for shard in members]),
            (data.cluster_test(cluster), [shard.test for shard in members]),
        ):
            assert torch.equal(whole.tensors()[0], torch.cat([part.tensors()[0] for part in parts]))
            assert all(part.parts[0][0] is whole.parts[0][0] for part in parts)
    assert len(data.pool()) == sum(data.size(client) for client in range(4))


def test_writers_are_chosen_by_the_seed(written, tmp_path):
    chosen = {seed: small(tmp_path, seed=seed) for seed in range(8)}
    for data in chosen.values():
        data.setup()
        assert len(set(data.writers)) == 4
    assert len({tuple(data.writers) for data in chosen.values()}) > 4
    again = small(tmp_path, seed=3)
    again.setup()
    assert again.writers == chosen[3].writers


def test_writers_with_too_little_are_left_out(written, tmp_path):
    data = small(tmp_path, min_samples=6, num_clients=3)
    data.setup()
    assert sorted(data.writers) == ["f0000_14", "f0100_07", "f0102_03"]
    with pytest.raises(UserError, match=r"data.num_clients asks for 4 writers, .* has 3 with at least 6 .*min_samples"):
        small(tmp_path, min_samples=6).setup()


def test_nothing_changes_with_time(written, tmp_path):
    data = small(tmp_path)
    assert torch.equal(data.shard(2, 0).train.tensors()[0], data.shard(2, 9).train.tensors()[0])
    assert all(len(data.drifted(cycle)) == 0 for cycle in range(4))


def test_there_is_no_proxy(written, tmp_path):
    with pytest.raises(UserError, match="FEMNIST has no proxy sets"):
        small(tmp_path).proxy(0)


@pytest.mark.filterwarnings("ignore")
def test_a_plain_trainer_takes_it(written, tmp_path):
    data = small(tmp_path, batch_size=3)
    assert [len(y) for _, y in data.test_dataloader()][:-1] == [3] * (len(data.pool("test")) // 3)
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    model = MLP(data.num_classes, data.input_shape, hidden=(8,))
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data)
    assert 0 <= trainer.callback_metrics["test_acc"] <= 1


# the cache -----------------------------------------------------------------------------------------------------------


def test_files_are_read_once_and_the_cache_is_enough(written, tmp_path, monkeypatch):
    small(tmp_path).prepare_data()
    assert [path.name for path in tmp_path.glob("*") if path.is_file()] == ["femnist-28.pt"]
    with monkeypatch.context() as patch:
        patch.setattr("flcluster.datamodules.sources.leaf.json.loads", lambda *_: pytest.fail("read again"))
        first = small(tmp_path).shard(1).train.tensors()[0]
        shutil.rmtree(tmp_path / "femnist")
        assert torch.equal(small(tmp_path).shard(1).train.tensors()[0], first)


def test_other_files_under_the_same_names_are_read_anew(written, tmp_path):
    assert len(load_femnist(tmp_path)[0]) == 5
    for split in ("train", "test"):
        path = tmp_path / "femnist" / "data" / split / f"all_data_1_niid_0_keep_0_{split}_9.json"
        write_json(path, {"f9999_99": written[split]["f0000_14"]})
    names, train, _ = load_femnist(tmp_path)
    assert names == ["f0002_00", "f0100_07", "f0102_03", "f9999_99"]
    assert train.counts().tolist() == [1, 6, 7, 9]


# what is missing or broken -------------------------------------------------------------------------------------------


def test_missing_files_say_what_to_put_where(written, tmp_path):
    with pytest.raises(UserError, match=r"preprocess.sh .*-t sample.*--data.root") as caught:
        small(tmp_path / "nowhere").prepare_data()
    assert str(tmp_path / "nowhere" / "femnist" / "data" / "train") in str(caught.value)
    shutil.rmtree(tmp_path / "femnist" / "data" / "test")
    with pytest.raises(UserError, match=r"no JSON file in .*femnist/data/test\."):
        small(tmp_path).setup()


IMAGE = [0.5] * 784


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"users": ["a"', "JSONDecodeError"),
        ("[]", "AttributeError"),
        ("{}", "KeyError: 'users'"),
        ({"users": ["a"], "user_data": {}}, "KeyError: 'a'"),
        ({"users": ["a"], "user_data": {"a": {"x": [IMAGE]}}}, "KeyError: 'y'"),
        ({"users": ["a"], "user_data": {"a": {"x": [IMAGE], "y": [1, 2]}}}, "writer a: .*1 images, 2 labels"),
        ({"users": ["a"], "user_data": {"a": {"x": [IMAGE[1:]], "y": [1]}}}, "each image must be 784 numbers"),
        ({"users": ["a"], "user_data": {"a": {"x": [[200.0] * 784], "y": [1]}}}, r"sample 0 .*pixels in \[0, 1\]"),
        ({"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [IMAGE], "y": [1]}}}, "2 told of"),
        ({"users": ["a"], "user_data": {"a": {"x": [IMAGE], "y": [1.5]}}}, "its label a whole one"),
        ({"users": ["a"], "user_data": {"a": {"x": [IMAGE], "y": [62]}}}, r"sample 0 .* has the label 62 .*0..61"),
    ],
)
def test_broken_files_are_named(content, reason, written, tmp_path):
    path = tmp_path / "femnist" / "data" / "test" / "all_data_7.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=f"all_data_7.json is not as LEAF writes it .*{reason}.*preprocess.sh"):
        small(tmp_path).setup()
    assert not (tmp_path / "femnist-28.pt").exists()


def test_a_file_that_is_not_text_is_named(written, tmp_path):
    (tmp_path / "femnist" / "data" / "train" / "all_data_7.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"all_data_7.json is not as LEAF writes it \(UnicodeDecodeError"):
        small(tmp_path).setup()


def test_a_writer_in_two_files_and_no_writer_at_all(written, tmp_path):
    extra = tmp_path / "femnist" / "data" / "train" / "older.json"
    write_json(extra, {"f0001_41": written["train"]["f0001_41"]})
    with pytest.raises(UserError, match=r"older.json has writer f0001_41, whom another file"):
        small(tmp_path).setup()
    for path in tmp_path.glob("femnist/data/*/*.json"):
        write_json(path, {})
    with pytest.raises(UserError, match="has a writer"):
        small(tmp_path).setup()


def test_a_split_by_writers_is_refused(written, tmp_path):
    """With LEAF's ``-t user`` nobody has both training and test samples."""
    for path in (tmp_path / "femnist" / "data" / "test").glob("*.json"):
        path.unlink()
    write_json(tmp_path / "femnist/data/test/all_data_0.json", {"f7": written["test"]["f0000_14"]})
    with pytest.raises(UserError, match=r"has 0 with at least 1 training samples .*-t sample"):
        small(tmp_path).setup()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_clients": 0}, "data.num_clients must be at least 1, got 0"),
        ({"num_clients": 3, "num_clusters": 4}, "data.num_clients is 3: each of the 4 clusters needs a client"),
        ({"min_samples": 0}, "data.min_samples must be at least 1, got 0"),
        ({"batch_size": 0}, "data.batch_size must be at least 1, got 0"),
        ({"seed": -1}, "data.seed must be at least 0, got -1"),
    ],
)
def test_impossible_arguments_fail_at_construction(arguments, message):
    with pytest.raises(UserError, match=message):
        RotatedFEMNIST(**arguments)


def test_an_unknown_client_is_refused(written, tmp_path):
    with pytest.raises(IndexError, match="client 4 of 4"):
        small(tmp_path).shard(4)


def test_every_argument_is_explained_in_help():
    parser = jsonargparse.ArgumentParser()
    parser.add_class_arguments(RotatedFEMNIST, "data")
    text = " ".join(parser.format_help().split())
    explained = ("Number of clients", "Writers with fewer training samples", "Seed of every draw", "Folder that holds")
    assert all(part in text for part in explained), text


def test_writers_validate_on_a_share_of_what_they_wrote(written, tmp_path):
    data, plain = small(tmp_path, val_share=0.25), small(tmp_path)
    for client in range(data.num_clients):
        held, before = data.shard(client), plain.shard(client)
        parts = [set(view.parts[0][1].tolist()) for view in (held.train, held.val)]
        assert parts[0] | parts[1] == set(before.train.parts[0][1].tolist()) and not parts[0] & parts[1]
        assert len(parts[0]) == data.size(client) > 0 and before.val is None
    assert sum(len(data.shard(m).val) for m in range(data.num_clients)) > 0
