"""Vectors of classes: lengths, neighbours that make sense, what controls must not know, and files."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from jsonargparse import ArgumentParser

from flcluster.algorithms.personal.semantics import (
    NamedVectors,
    NamesFile,
    OneHot,
    RandomVectors,
    Semantics,
    ShippedNames,
    pick,
    read_vectors,
    shipped,
    unit_vectors,
)
from flcluster.datamodules.sources.class_names import (
    CIFAR10,
    CIFAR100,
    CIFAR100_GROUPS,
    DIGITS,
    EMNIST,
    FASHION_MNIST,
    KNOWN,
)
from flcluster.errors import UserError

DATASETS = KNOWN | {f"EMNIST {split}": names for split, names in EMNIST.items()}
ANY = [ShippedNames(), OneHot(), RandomVectors()]


def likeness(semantics, names):
    """Return a function that gives the cosine of two classes."""
    vectors = semantics.vectors(names)
    return lambda a, b: float(vectors[names.index(a)] @ vectors[names.index(b)])


def nearest(semantics, names):
    vectors = semantics.vectors(names)
    cosines = vectors @ vectors.T - 9 * np.eye(len(names))
    return {name: names[at] for name, at in zip(names, cosines.argmax(1), strict=True)}


# ----------------------------------------------------------------------------------------------------- what all share


@pytest.mark.parametrize("semantics", ANY, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_class_of_every_dataset_has_a_vector_of_its_own(semantics, dataset):
    names = DATASETS[dataset]
    vectors = semantics.vectors(names)
    assert vectors.dtype == np.float32 and vectors.shape[0] == len(names) and vectors.ndim == 2
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors @ vectors.T - np.eye(len(names))).max() < 0.99
    assert np.array_equal(vectors, semantics.vectors(names))


def test_a_name_means_the_same_whatever_stands_beside_it():
    """And whatever the seed of the run is; what is asked for first comes first."""
    few, all_ = ShippedNames().vectors(["seven", "B"], seed=1), ShippedNames().vectors(["B", "a", "0", "seven"], seed=2)
    assert np.array_equal(few, all_[[3, 0]])


def test_titles_tell_them_apart_and_mark_what_cannot_be_compared():
    titles = [semantics.title for semantics in ANY]
    assert len(set(titles)) == len(titles)
    assert [type(s).__name__ for s in ANY if "control" in s.title] == ["OneHot", "RandomVectors"]


def test_they_are_named_on_the_command_line():
    parser = ArgumentParser()
    parser.add_argument("--semantics", type=Semantics, default=ShippedNames())
    given = parser.parse_args(["--semantics", "RandomVectors", "--semantics.dim", "7"])
    assert parser.instantiate(given).semantics == RandomVectors(dim=7)


# ---------------------------------------------------------------------------------------------------- shipped vectors


@pytest.mark.parametrize(
    ("names", "one", "near", "far"),
    [
        (CIFAR10, "cat", "dog", "truck"),
        (CIFAR10, "automobile", "truck", "frog"),
        (CIFAR10, "deer", "horse", "ship"),
        (FASHION_MNIST, "Shirt", "T-shirt/top", "Sandal"),
        (FASHION_MNIST, "Sneaker", "Ankle boot", "Pullover"),
        (CIFAR100, "maple_tree", "oak_tree", "telephone"),
        (CIFAR100, "boy", "girl", "bridge"),
    ],
)
def test_neighbours_make_sense(names, one, near, far):
    cosine = likeness(ShippedNames(), names)
    assert cosine(one, near) > cosine(one, far) + 0.1


def test_superclasses_of_cifar100_stay_together():
    """By chance 4 of the 99 others, or 4 %, share the superclass of a class."""
    group = {name: coarse for coarse, names in CIFAR100_GROUPS.items() for name in names}
    same = [group[a] == group[b] for a, b in nearest(ShippedNames(), CIFAR100).items()]
    assert np.mean(same) >= 0.6


def test_numbers_are_near_the_next_and_letters_near_their_other_case():
    cosine = likeness(ShippedNames(), DIGITS)
    steps = [cosine(DIGITS[i], DIGITS[i + 1]) for i in range(9)]
    leaps = [cosine(DIGITS[i], DIGITS[i + 5]) for i in range(5)]
    assert np.mean(steps) > np.mean(leaps)
    found = nearest(ShippedNames(), EMNIST["byclass"])
    assert [a for a, b in found.items() if a.isalpha() and a.swapcase() != b] == []


def test_a_digit_means_the_same_as_its_word():
    words, digits = ShippedNames().vectors(DIGITS), ShippedNames().vectors(EMNIST["digits"])
    assert np.allclose(words, digits, atol=1e-3)


def test_what_ships_says_where_it_is_from():
    assert shipped().source == "sentence-transformers/all-MiniLM-L6-v2"
    assert shipped().vectors.shape[1] == 384


def test_names_that_do_not_ship_are_listed():
    with pytest.raises(UserError, match=r"classes okapi, quagga: .*docs/methods/apfl\.md.*NamesFile"):
        ShippedNames().vectors(["cat", "okapi", "dog", "quagga"])


# ------------------------------------------------------------------------------------------------------------ controls


def test_one_hot_knows_nothing():
    assert np.array_equal(OneHot().vectors(CIFAR10), np.eye(10))


def test_random_vectors_follow_the_seed_and_are_nearly_at_right_angles():
    vectors = RandomVectors(dim=400).vectors(CIFAR100, seed=3)
    assert vectors.shape == (100, 400)
    assert np.array_equal(vectors, RandomVectors(dim=400).vectors(CIFAR100, seed=3))
    assert not np.allclose(vectors, RandomVectors(dim=400).vectors(CIFAR100, seed=4), atol=0.1)
    cosines = (vectors @ vectors.T)[np.triu_indices(100, 1)]
    assert np.abs(cosines).max() < 6 / 20 and cosines.std() == pytest.approx(1 / 20, rel=0.1)  # 1 / sqrt(400)


def test_sizes_are_checked():
    with pytest.raises(UserError, match=r"algorithm\.semantics\.dim"):
        RandomVectors(dim=0)


# --------------------------------------------------------------------------------------------------------------- files


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "clip.npz"
    np.savez(path, **{"T-shirt/top": np.array([3.0, 4.0]), "Bag": np.array([0.0, -2.0])})
    held = NamesFile(path=str(path))
    assert np.allclose(held.vectors(["Bag", "T-shirt/top"]), [[0, -1], [0.6, 0.8]])
    assert held.title == "clip" and NamesFile(path=str(path), label="CLIP").title == "CLIP"


def test_a_file_that_lacks_names_lists_them(tmp_path):
    np.savez(tmp_path / "few.npz", cat=np.ones(2))
    with pytest.raises(UserError, match=r"classes dog, ox: .*few\.npz \(algorithm\.semantics\.path\)"):
        NamesFile(path=str(tmp_path / "few.npz")).vectors(["dog", "cat", "ox"])


@pytest.mark.parametrize("ask", [lambda held: held.title, lambda held: held.vectors(["cat"])])
def test_a_file_that_is_not_there_names_the_key(tmp_path, ask):
    with pytest.raises(UserError, match=r"algorithm\.semantics\.path: there is no file .*none\.npz"):
        ask(NamesFile(path=str(tmp_path / "none.npz")))


def made(count=3, width=5):
    vectors = unit_vectors(np.random.default_rng(0).standard_normal((count, width)), "test")
    return NamedVectors(("A", "a", "T-shirt/top")[:count], vectors, "some/model")


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
    for at in range(60, 1500, 60):
        (tmp_path / "wrong.npz").write_bytes(flipped(packed, at))
        with pytest.raises(UserError, match=r"wrong\.npz"):
            read_vectors(tmp_path / "wrong.npz")


def test_a_single_array_is_no_archive(tmp_path):
    with (tmp_path / "wrong.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UserError, match=r"wrong\.npz cannot be read"):
        read_vectors(tmp_path / "wrong.npz")


def test_no_file(tmp_path):
    with pytest.raises(UserError, match=r"there is no file .*gone\.npz: docs/methods/apfl\.md has a recipe"):
        read_vectors(tmp_path / "gone.npz")


# -------------------------------------------------------------------------------------------------------------- recipe

RECIPES = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[3] / "docs/methods/apfl.md").read_text("utf-8"), re.S
)


def test_the_recipe_for_sentences_makes_a_file_of_all_names(monkeypatch):
    """As the document has it, with a model that tells sentences apart: it is asked what the shipped vectors say."""
    asked, draw = [], np.random.default_rng(0)

    def encode(sentences, normalize_embeddings):
        asked.extend(sentences)
        return unit_vectors(draw.standard_normal((len(sentences), 6)), "stub")

    stub = SimpleNamespace(SentenceTransformer=lambda model: SimpleNamespace(encode=encode))
    monkeypatch.setitem(sys.modules, "sentence_transformers", stub)
    exec(RECIPES[0], {})
    held = read_vectors(Path("clip.npz"))
    assert held.names == shipped().names and held.source == "clip-ViT-B-32" == NamesFile(path="clip.npz").title
    expected = unit_vectors(np.random.default_rng(0).standard_normal((len(held.names), 6)), "test")
    assert np.allclose(held.vectors, expected, atol=1e-3)
    said = dict(zip(held.names, asked, strict=True))
    assert said["A"] == 'the capital letter "A"' and said["a"] == 'the small letter "a"'
    assert said["zero"] == said["0"] == "the number zero"
    assert said["Ankle boot"] == "a photo of an ankle boot" and said["pickup_truck"] == "a photo of a pickup truck"


def test_the_recipe_for_words_takes_their_mean(monkeypatch):
    words = {word: np.random.default_rng(len(word)).random(3) for name in CIFAR100 for word in name.split("_")}
    loaded = SimpleNamespace(load_word2vec_format=lambda path, binary: words)
    monkeypatch.setitem(sys.modules, "gensim", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "gensim.models", SimpleNamespace(KeyedVectors=loaded))
    exec(RECIPES[1], {})
    oak = (words["oak"] + words["tree"]) / 2
    assert np.allclose(NamesFile(path="w2v.npz").vectors(["oak_tree"]), [oak / np.linalg.norm(oak)])
    assert NamesFile(path="w2v.npz").title == "word2vec"
