"""Checkpoints: whole or not there, readable without running code, refused with a sentence otherwise."""

import pickle

import pytest
import torch

from flcluster import files
from flcluster.errors import UserError
from flcluster.records import checkpoint
from flcluster.records.checkpoint import DamagedError, load_checkpoint, save_checkpoint
from flcluster.records.seal import seal

CONTENT = {
    "position": 7,
    "tensors": {"a": torch.tensor([1.5, float("nan"), -0.0]), "b": torch.arange(3), "c": torch.zeros(0, 2, 3)},
    "nested": [{"x": 1.25}, None, "text", True, (1, 2)],
    "by_number": {3: torch.ones(2, dtype=torch.float64)},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "checkpoints" / "last.ckpt"


def test_it_comes_back(path):
    save_checkpoint(path, CONTENT)
    back = load_checkpoint(path)
    assert back["position"] == 7
    assert back["nested"] == CONTENT["nested"]
    for name, tensor in CONTENT["tensors"].items():
        assert back["tensors"][name].dtype == tensor.dtype
        assert back["tensors"][name].shape == tensor.shape
        assert back["tensors"][name].numpy().tobytes() == tensor.numpy().tobytes()
    assert torch.equal(back["by_number"][3], torch.ones(2, dtype=torch.float64))


def test_it_loads_with_weights_only(path):
    save_checkpoint(path, CONTENT)
    assert torch.load(path, weights_only=True)["position"] == 7


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_it_never_runs_code(path, tmp_path):
    """A pickle that would create a file when loaded is refused, and creates none."""

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "gotcha"), "w"))

    path.parent.mkdir(parents=True)
    torch.save({"version": checkpoint.VERSION, "evil": Evil()}, path)
    seal(path)
    with pytest.raises(UserError):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps({"version": checkpoint.VERSION, "evil": Evil()}))
    with pytest.raises(UserError):
        load_checkpoint(path)
    assert not (tmp_path / "gotcha").exists()


def test_a_new_one_replaces_the_old_and_leaves_nothing_else(path):
    save_checkpoint(path, {"position": 1})
    save_checkpoint(path, {"position": 2})
    assert load_checkpoint(path)["position"] == 2
    assert sorted(p.name for p in path.parent.iterdir()) == ["last.ckpt", "previous.ckpt"]


def test_the_one_before_stays(path):
    for n in (1, 2, 3):
        save_checkpoint(path, {"position": n})
    assert load_checkpoint(path)["position"] == 3
    assert load_checkpoint(path.with_name("previous.ckpt"))["position"] == 2


def test_the_one_before_stays_where_files_have_one_name_only(path, monkeypatch):
    def refused(*names):
        raise PermissionError("no links here")

    monkeypatch.setattr(checkpoint.os, "link", refused)
    for n in (1, 2, 3):
        save_checkpoint(path, {"position": n})
    assert load_checkpoint(path.with_name("previous.ckpt"))["position"] == 2


def test_every_flipped_bit_is_noticed(path):
    """Of one checkpoint, every 41st bit and all of the end, where the seal and the archive's list are."""
    save_checkpoint(path, CONTENT)
    whole = path.read_bytes()
    bits = 8 * len(whole)
    for bit in {*range(0, bits, 41), *range(bits - 8 * 200, bits)}:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedError, match=r"last\.ckpt is damaged"):
            load_checkpoint(path)


def test_a_seal_that_was_taken_off_is_noticed(path):
    """What another program writes again, without the seal."""
    save_checkpoint(path, CONTENT)
    torch.save(torch.load(path, weights_only=True), path)
    with pytest.raises(DamagedError, match="seal is gone"):
        load_checkpoint(path)


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_one(path, monkeypatch, error):
    """The write fails after some bytes, as on a full disk."""
    save_checkpoint(path, {"position": 1})

    def half(content, file, *args, **kwargs):
        file.write(b"PK\x03\x04 half of a file")
        raise error

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(type(error)):
        save_checkpoint(path, {"position": 2})
    monkeypatch.undo()
    assert load_checkpoint(path)["position"] == 1
    save_checkpoint(path, {"position": 3})  # what was left over does not stop the next one
    assert load_checkpoint(path)["position"] == 3


def test_the_old_one_is_there_until_the_new_one_is_on_disk(path, monkeypatch):
    """Nothing is renamed before the bytes are synced, and at that moment the new file is whole."""
    save_checkpoint(path, {"position": 1})
    order, sync, rename = [], files.os.fsync, files.os.replace
    monkeypatch.setattr(files.os, "fsync", lambda n: (order.append("sync"), sync(n))[1])

    def replace(a, b):
        order.append(f"rename to {b.name}")
        assert load_checkpoint(path)["position"] == 1
        assert torch.load(a, weights_only=True)["position"] == (2 if b == path else 1)
        rename(a, b)

    monkeypatch.setattr(files.os, "replace", replace)
    save_checkpoint(path, {"position": 2})
    assert order == ["sync", "rename to previous.ckpt", "sync", "rename to last.ckpt"]


def test_a_missing_file(path):
    with pytest.raises(UserError, match=r"last\.ckpt"):
        load_checkpoint(path)


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_cut_file(path, keep):
    save_checkpoint(path, CONTENT)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"last\.ckpt"):
        load_checkpoint(path)


def test_a_corrupt_file(path):
    """Bytes of the pickled part turned over."""
    save_checkpoint(path, CONTENT)
    content = bytearray(path.read_bytes())
    at = content.index(b"position")
    content[at - 20 : at + 40] = bytes(255 - b for b in content[at - 20 : at + 40])
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"last\.ckpt"):
        load_checkpoint(path)


@pytest.mark.parametrize("version", [0, 1, 999, "3"])
def test_another_version_is_refused_by_name(path, version):
    path.parent.mkdir(parents=True)
    torch.save({"version": version}, path)
    with pytest.raises(UserError, match=rf"of version {version}, and this flcluster reads version 3: go on with"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [{"state_dict": {}}, [1, 2], torch.ones(2)])
def test_a_foreign_file(path, content):
    path.parent.mkdir(parents=True)
    torch.save(content, path)
    with pytest.raises(UserError, match="not a flcluster checkpoint"):
        load_checkpoint(path)


def test_text_and_folders_are_no_checkpoints(path):
    path.mkdir(parents=True)
    with pytest.raises(UserError, match=r"last\.ckpt"):
        load_checkpoint(path)
    text = path.parent / "config.yaml"
    text.write_text("position: 3\n")
    with pytest.raises(UserError, match=r"config\.yaml"):
        load_checkpoint(text)
