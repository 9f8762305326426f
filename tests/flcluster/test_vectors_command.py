"""``flcluster vectors``, with a stand-in for transformers: what is asked of a model and what is made of its answer."""

import importlib.metadata
import re
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from flcluster.algorithms.personal import embedding
from flcluster.algorithms.personal.embedding import masked_mean
from flcluster.algorithms.personal.semantics import NamesFile, shipped
from flcluster.algorithms.personal.vectors_command import all_names, known_names
from flcluster.cli import main
from flcluster.datamodules.sources.class_names import CIFAR100, EMNIST


class Tokenizer:
    """A token per character, padded with zeros; remembers what it was asked."""

    asked: ClassVar[list[str]] = []

    def __call__(self, sentences, padding, return_tensors):
        Tokenizer.asked += sentences
        width = max(map(len, sentences))
        ids = torch.tensor([[ord(c) for c in s] + [0] * (width - len(s)) for s in sentences])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def states(ids):
    """A token's state is (its code, 100); padding's is rubbish that must not count."""
    return torch.where((ids > 0)[..., None], torch.stack([ids, torch.full_like(ids, 100)], -1), 7777).float()


class Bert(torch.nn.Module):
    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=states(input_ids))


class Clip(torch.nn.Module):
    wrapped = False

    def get_text_features(self, input_ids, attention_mask):
        found = torch.stack([attention_mask.sum(1), input_ids[:, 0]], 1).float()
        return SimpleNamespace(pooler_output=found) if self.wrapped else found


class Wrapped(Clip):
    wrapped = True


@pytest.fixture
def hub(monkeypatch):
    """Install a transformers that knows three models."""
    models, Tokenizer.asked = {"bert": Bert, "clip": Clip, "new-clip": Wrapped}, []

    def load(name):
        if name not in models:
            raise OSError(f"{name} is no model\nand more lines")
        return models[name]()

    fake = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda name: Tokenizer()),
        AutoModel=SimpleNamespace(from_pretrained=load),
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)
    return models


def expected(sentence):
    row = np.array([np.mean([ord(c) for c in sentence]), 100.0])
    return row / np.linalg.norm(row)


def test_bert_is_averaged_over_its_tokens_without_the_padding(hub, tmp_path, capsys):
    output = tmp_path / "new" / "bert.npz"
    assert main(["vectors", "--model", "bert", "--names", "cat", "aquarium_fish", "Q", "--output", str(output)]) == 0
    assert Tokenizer.asked == ["a photo of a cat", "a photo of an aquarium fish", 'the capital letter "Q"']
    held = NamesFile(path=str(output))
    found = held.vectors(["cat", "aquarium_fish", "Q"])
    assert np.allclose(found, [expected(sentence) for sentence in Tokenizer.asked], atol=1e-3)
    assert held.title == "bert"
    assert "3 names, 2 values each, by bert" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["clip", "new-clip"])
def test_clip_gives_its_text_features(hub, tmp_path, model):
    assert main(["vectors", "--model", model, "--names", "cat", "--output", str(tmp_path / "c.npz")]) == 0
    row = np.array([len("a photo of a cat"), ord("a")])
    assert np.allclose(NamesFile(path=str(tmp_path / "c.npz")).vectors(["cat"]), row / np.linalg.norm(row), atol=1e-3)


def test_a_prompt_of_ones_own(hub, tmp_path):
    arguments = ["--prompt", "{name}, seen from above", "--names", "oak_tree", "--output", str(tmp_path / "p.npz")]
    assert main(["vectors", "--model", "bert", *arguments]) == 0
    assert Tokenizer.asked == ["oak tree, seen from above"]


def test_many_names_go_in_batches_and_stay_in_order(hub, tmp_path):
    names = [f"name {at}" for at in range(150)]
    (tmp_path / "classes.txt").write_text("\n".join(names))
    files = ["--names", str(tmp_path / "classes.txt"), "--output", str(tmp_path / "m.npz")]
    assert main(["vectors", "--model", "bert", *files]) == 0
    found = NamesFile(path=str(tmp_path / "m.npz")).vectors(names)
    assert np.allclose(found, [expected(f"a photo of a {name}") for name in names], atol=1e-3)


def test_the_bundled_minilm_is_preferred_to_the_hub(hub, tmp_path, monkeypatch):
    package = tmp_path / embedding.BUNDLE
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    hub[str(package / "model")] = Bert
    assert main(["vectors", "--names", "cat", "--output", str(tmp_path / "v.npz")]) == 0
    assert NamesFile(path=str(tmp_path / "v.npz")).title == embedding.MINILM


def test_word_vectors_need_no_model(tmp_path):
    (tmp_path / "glove.txt").write_text("cat 3 4\ndog 0 1\n")
    lists = ["--words", str(tmp_path / "glove.txt"), "--names", "dog", "cat", "--output", str(tmp_path / "w.npz")]
    assert main(["vectors", *lists]) == 0
    held = NamesFile(path=str(tmp_path / "w.npz"))
    assert held.title == "glove.txt" and np.allclose(held.vectors(["cat", "dog"]), [[0.6, 0.8], [0, 1]], atol=1e-3)


def test_all_known_names_are_what_ships():
    assert all_names([]) == shipped().names
    assert {*CIFAR100, *EMNIST["byclass"]} <= set(all_names([]))


def test_a_dataset_stands_for_its_names():
    assert all_names(["CIFAR100", "okapi"]) == (*CIFAR100, "okapi")
    assert all_names(["EMNIST-letters"]) == EMNIST["letters"]
    assert set(known_names()) >= {"Digits", "MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "EMNIST-byclass"}


def test_a_model_that_embeds_no_sentences(hub, monkeypatch, capsys):
    """GPT-2's tokenizer has nothing to pad with and raises a ValueError; some models have no last layer to average."""

    def refuse(self, sentences, padding, return_tensors):
        raise ValueError("Asking to pad but the tokenizer does not have a padding token.\nMore.")

    arguments = ["vectors", "--model", "bert", "--names", "cat", "--output", "x.npz"]
    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "__call__", refuse)
        assert main(arguments) == 2
        assert "--model bert gives no vectors of sentences (Asking to pad" in capsys.readouterr().err
    monkeypatch.setattr(Bert, "forward", lambda self, input_ids, attention_mask: SimpleNamespace(logits=input_ids))
    assert main(arguments) == 2
    assert "last_hidden_state" in capsys.readouterr().err


def test_names_come_once_in_order(tmp_path):
    (tmp_path / "more.txt").write_text("\ufeffdog\n\n ox \ncat\n", encoding="utf-8")
    assert all_names(["cat", str(tmp_path / "more.txt"), "bee"]) == ("cat", "dog", "ox", "bee")


def test_masked_mean_against_a_loop():
    drawn = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 1]])
    for row in range(3):
        kept = [drawn[row, at] for at in range(4) if mask[row, at]]
        assert torch.allclose(masked_mean(drawn, mask)[row], sum(kept) / len(kept))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--model", "nobody/nothing", "--output", "x.npz"],
            r"--model nobody/nothing .*nothing is no model\): it must be",
        ),
        (["--model", "bert", "--output", "x.txt"], r"--output x\.txt must be a \.npz file"),
        (["--model", "bert", "--output", "x.npz", "--prompt", "hello"], r"--prompt 'hello' must have {name} in it"),
        (["--output", "x.npz", "--names", "gone.txt"], r"--names gone\.txt cannot be read"),
        (["--output", "x.npz", "--words", "gone.vec"], r"there is no file gone\.vec"),
        (["--output", "x.npz", "--words", "w.txt", "--prompt", "a {name}"], r"leave out --model and --prompt"),
        (["--output", "x.npz", "--words", "w.txt", "--model", "bert"], r"leave out --model and --prompt"),
    ],
)
def test_mistakes_are_one_message(hub, arguments, message, capsys):
    assert main(["vectors", *arguments]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert re.search(message, told), told


def test_without_transformers(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["vectors", "--output", str(tmp_path / "x.npz")]) == 2
    assert "pip install transformers" in capsys.readouterr().err
    assert not (tmp_path / "x.npz").exists()


def test_runs_need_neither_transformers_nor_the_bundle():
    """What ships is read with NumPy alone: neither package is a dependency."""
    declared = importlib.metadata.requires("flcluster") or []
    assert not [line for line in declared if "transformers" in line or "minilm" in line]
