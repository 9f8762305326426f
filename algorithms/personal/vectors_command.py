"""``flcluster vectors``: make a file of class vectors from a language model or a list of word vectors."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from flcluster.errors import UserError

from .embedding import MINILM, embed
from .naming import sentence
from .vector_files import NamedVectors, write_vectors
from .word_vectors import name_vectors


def vectors(argv: list[str]) -> int:
    """Embed class names and write the file."""
    parser = ArgumentParser(prog="flcluster vectors", description="Make a file of class vectors for AP-FL's generator.")
    parser.add_argument("--output", type=str, required=True, help="The .npz file to write.")
    parser.add_argument(
        "--names",
        type=str,
        nargs="+",
        default=[],
        help="Class names, .txt files with one name a line, or datasets (CIFAR100, EMNIST-letters …) for all their "
        "names; default the names of all datasets flcluster knows.",
    )
    parser.add_argument(
        "--model",
        type=str | None,
        default=None,
        help=f"Model on the Hugging Face hub, or a folder with one; default {MINILM}.",
    )
    parser.add_argument(
        "--words",
        type=str | None,
        default=None,
        help="List of word vectors to use instead: .txt, .vec, .bin (and .gz).",
    )
    parser.add_argument(
        "--prompt", type=str | None, default=None, help="Sentence with {name} in it, instead of our own wording."
    )
    given = parser.parse_args(argv)
    output = Path(given.output).expanduser()
    if output.suffix != ".npz":
        raise UserError(f"--output {output} must be a .npz file")
    names = all_names(given.names)
    if given.words is not None and (given.model is not None or given.prompt is not None):
        raise UserError("--words takes vectors from a list, which is asked no sentence: leave out --model and --prompt")
    if given.words is not None:
        words = Path(given.words).expanduser()
        made = NamedVectors(names, name_vectors(words, names), words.name)
    else:
        model = given.model or MINILM
        made = NamedVectors(names, embed(model, sentences(names, given.prompt)), model)
    write_vectors(output, made)
    print(f"wrote {output}: {len(names)} names, {made.vectors.shape[1]} values each, by {made.source}")
    return 0


def sentences(names: Sequence[str], prompt: str | None) -> list[str]:
    """Return what the model is asked for each name."""
    if prompt is None:
        return [sentence(name) for name in names]
    if "{name}" not in prompt:
        raise UserError(f"--prompt {prompt!r} must have {{name}} in it, where the class name goes")
    return [prompt.replace("{name}", name.replace("_", " ")) for name in names]


def all_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return each name once, in order: those given, those of the files and datasets given, or all that are known."""
    known, found = known_names(), list[str]()
    for entry in given or known:
        found += _lines(Path(entry).expanduser()) if entry.endswith(".txt") else known.get(entry, (entry,))
    return tuple(dict.fromkeys(found))


def known_names() -> dict[str, tuple[str, ...]]:
    """Return the class names of the datasets we know."""
    from flcluster.datamodules.sources.class_names import EMNIST, KNOWN

    return {**KNOWN, **{f"EMNIST-{split}": names for split, names in EMNIST.items()}}


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--names {path} cannot be read ({error}): it must be a text file, a name a line") from error
    if not found:
        raise UserError(f"--names {path} holds no names: write one a line")
    return found
