"""Files of class vectors and lists of word vectors: both ways, and every way they can be wrong."""

import gzip

import numpy as np
import pytest

from flcluster.algorithms.personal.vector_files import NamedVectors, pick, read_vectors, unit_vectors, write_vectors
from flcluster.algorithms.personal.word_vectors import name_vectors, read_words
from flcluster.errors import UserError


def made(count=3, width=5):
    vectors = unit_vectors(np.random.default_rng(0).standard_normal((count, width)), "test")
    return NamedVectors(("A", "a", "T-shirt/top")[:count], vectors, "some/model")


def test_what_is_written_is_read(tmp_path):
    write_vectors(tmp_path / "v.npz", made())
    found = read_vectors(tmp_path / "v.npz")
    assert found.names == made().names and found.source == "some/model"
    assert np.allclose(found.vectors, made().vectors, atol=1e-3)
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-6)


def test_the_same_vectors_give_the_same_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_vectors(tmp_path / name, made())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_classes_may_be_called_names_and_vectors(tmp_path):
    np.savez(tmp_path / "v.npz", names=np.array([1.0, 0.0]), vectors=np.array([0.0, 2.0]), source=np.array([1.0, 1.0]))
    found = read_vectors(tmp_path / "v.npz")
    assert found.names == ("names", "vectors", "source") and found.source == "v"
    assert np.allclose(found.vectors[1], [0, 1])


def test_pick_keeps_the_order_asked_for():
    assert np.array_equal(pick(made(), ["a", "A", "a"], ""), made().vectors[[1, 0, 1]])
    with pytest.raises(UserError, match="no vector for the class b: do something"):
        pick(made(), ["A", "b"], "do something")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones(3), "b": np.ones(4)}, "all of one length"),
        ({"a": np.ones((2, 2))}, "one vector of numbers per class name"),
        ({"a": np.float64(1.0)}, "one vector of numbers per class name"),
        ({}, "one vector of numbers per class name"),
        ({"a": np.ones(3), "b": np.zeros(3)}, "not all of them zero"),
        ({"a": np.array([1.0, np.nan])}, "finite"),
        ({"a": np.array([object()])}, "cannot be read"),
        ({"a": np.array(["x", "y"])}, "numbers"),
        ({"names": np.array(["a", "b"]), "vectors": np.ones((3, 2))}, "2 names"),
    ],
)
def test_wrong_contents(tmp_path, arrays, message):
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(UserError, match=rf"wrong\.npz.*{message}"):
        read_vectors(tmp_path / "wrong.npz")


@pytest.mark.parametrize("contents", [b"", b"not an archive", b"PK\x03\x04 broken", np.lib.format.magic(1, 0) + b"x"])
def test_files_that_are_no_archive(tmp_path, contents):
    (tmp_path / "wrong.npz").write_bytes(contents)
    with pytest.raises(UserError, match=r"wrong\.npz cannot be read"):
        read_vectors(tmp_path / "wrong.npz")


def flipped(packed, at):
    return packed[:at] + bytes([packed[at] ^ 0xFF] * 20) + packed[at + 20 :]


def test_flipped_bytes_are_one_message(tmp_path):
    """Whatever the unpacking makes of them: a wrong checksum, or data that cannot be unpacked."""
    values = np.random.default_rng(0).normal(size=400)
    np.savez_compressed(tmp_path / "good.npz", cat=values)
    packed = (tmp_path / "good.npz").read_bytes()
    lines = "\n".join(f"word{i} {a} 1" for i, a in enumerate(values)) + "\ncat 1 2\n"
    listed = gzip.compress(lines.encode())
    for at in range(60, 1500, 60):
        (tmp_path / "wrong.npz").write_bytes(flipped(packed, at))
        with pytest.raises(UserError, match=r"wrong\.npz"):
            read_vectors(tmp_path / "wrong.npz")
        (tmp_path / "wrong.txt.gz").write_bytes(flipped(listed, at))
        with pytest.raises(UserError, match=r"wrong\.txt\.gz"):
            name_vectors(tmp_path / "wrong.txt.gz", ["cat"])


def test_a_single_array_is_no_archive(tmp_path):
    with (tmp_path / "wrong.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UserError, match=r"wrong\.npz cannot be read"):
        read_vectors(tmp_path / "wrong.npz")


def test_no_file(tmp_path):
    with pytest.raises(UserError, match=r"there is no file .*gone\.npz: make it with `flcluster vectors"):
        read_vectors(tmp_path / "gone.npz")


# ---------------------------------------------------------------------------------------------------------- word lists

WORDS = {"cat": [1.0, 0.0], "oak": [0.0, 2.0], "tree": [4.0, 0.0], "The": [0.5, 0.5], "of course": [9.0, 9.0]}


def text_list(path, header=False):
    lines = [f"{len(WORDS)} 2"] * header + [f"{word} {a} {b}" for word, (a, b) in WORDS.items()]
    path.write_text("\n".join(lines) + "\n")


def binary_list(path, between=b"\n"):
    body = b"".join(
        w.encode() + b" " + np.array(v, "<f4").tobytes() + between for w, v in WORDS.items() if " " not in w
    )
    path.write_bytes(f"{len(WORDS) - 1} 2\n".encode() + body)


def test_every_format_gives_the_same(tmp_path):
    text_list(tmp_path / "glove.txt")
    text_list(tmp_path / "fasttext.vec", header=True)
    binary_list(tmp_path / "word2vec.bin")
    binary_list(tmp_path / "original.bin", between=b"")
    (tmp_path / "word2vec.bin.gz").write_bytes(gzip.compress((tmp_path / "word2vec.bin").read_bytes()))
    (tmp_path / "glove.txt.gz").write_bytes(gzip.compress((tmp_path / "glove.txt").read_bytes()))
    for name in ("glove.txt", "fasttext.vec", "word2vec.bin", "original.bin", "word2vec.bin.gz", "glove.txt.gz"):
        found = read_words(tmp_path / name, {"cat", "tree", "dog"})
        assert {word: vector.tolist() for word, vector in found.items()} == {"cat": [1, 0], "tree": [4, 0]}, name


def test_names_are_means_of_words(tmp_path):
    """oak_tree is (0, 2) + (4, 0) over 2 = (2, 1), scaled; the is not in the list but The is looked up as written."""
    text_list(tmp_path / "w.txt")
    found = name_vectors(tmp_path / "w.txt", ["oak_tree", "CAT", "The/cat"])
    diagonal = np.array([1.5, 0.5])
    expected = [np.array([2, 1]) / np.sqrt(5), [1, 0], diagonal / np.linalg.norm(diagonal)]
    assert np.allclose(found, expected)


def test_a_word_that_is_there_in_capitals_only(tmp_path):
    """Lists leave out small words without meaning, the small letter a among them."""
    (tmp_path / "w.txt").write_text("A 0 2\ncat 1 0\nCAT 0 1\n")
    assert name_vectors(tmp_path / "w.txt", ["a", "cat"]).tolist() == [[0, 1], [1, 0]]


def test_names_with_unknown_words_are_listed(tmp_path):
    text_list(tmp_path / "w.txt")
    with pytest.raises(UserError, match=r"w\.txt lacks words of the names pine_tree, dog: "):
        name_vectors(tmp_path / "w.txt", ["cat", "pine_tree", "dog"])


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("w.txt", b"cat 1 x\n"),
        ("w.txt", b"dog 1 2\ncat 1\n"),
        ("w.bin", b"1 2\ncat \x00\x00"),
        ("w.bin", b"2 1\ncat \x00\x00\x00\x00"),
        ("w.bin", b"no numbers\n"),
        ("w.txt.gz", b"not packed"),
    ],
)
def test_broken_lists(tmp_path, name, contents):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(UserError, match=rf"{name} cannot be read as a list of word vectors"):
        name_vectors(tmp_path / name, ["cat"])
