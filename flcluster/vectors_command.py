"""``flcluster vectors``: make a file of class vectors from a language model or a list of word vectors."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from flcluster.embedding import MINILM, embed
from flcluster.errors import UserError
from flcluster.naming import sentence
from flcluster.vector_files import NamedVectors, write_vectors
from flcluster.word_vectors import name_vectors


def vectors(argv: list[str]) -> int:
    """Embed class names and write the file."""
    parser = ArgumentParser(prog="flcluster vectors", description="Make a file of class vectors for AP-FL's generator.")
    parser.add_argument("--output", type=str, required=True, help="The .npz file to write.")
    parser.add_argument(
        "--names",
        type=str,
        nargs="+",
        default=[],
        help="Class names, or .txt files with one name a line; default all names of the datasets flcluster knows.",
    )
    parser.add_argument(
        "--model", type=str, default=MINILM, help="Model on the Hugging Face hub, or a folder with one."
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
    if given.words is not None:
        words = Path(given.words).expanduser()
        made = NamedVectors(names, name_vectors(words, names), words.name)
    else:
        made = NamedVectors(names, embed(given.model, sentences(names, given.prompt)), given.model)
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
    """Return each name once, in order: those given, those of the files given, or those of all known datasets."""
    found: list[str] = []
    for entry in given:
        found += _lines(Path(entry).expanduser()) if entry.endswith(".txt") else [entry]
    return tuple(dict.fromkeys(found if given else known_names()))


def known_names() -> list[str]:
    """Return the class names of all datasets we know, some more than once."""
    from flcluster.datamodules.class_names import EMNIST, KNOWN

    return [name for group in (*KNOWN.values(), *EMNIST.values()) for name in group]


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--names {path} cannot be read ({error}): it must be a text file, a name a line") from error
    if not found:
        raise UserError(f"--names {path} holds no names: write one a line")
    return found
