"""Try bad data folders, each in a process of its own: what each came to.

python tests/faults/try_data.py COUNT SEED [WORD …]    only those whose reader, file or harm has one of the words

Every reader of data gets a small good folder of its kind with one harm. It must refuse it in one message that names the
file, with exit code 2. Where a harm cannot be noticed (a flipped bit in a format without a checksum),
or leaves every number as it was, it may run.
"""

import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
import bad_data
import forked
import good_data
import numpy as np
import verdict

SECONDS = 30.0
GOOD = ("refused", "ran right", "ran, cannot be noticed")


def read(case: bad_data.Case, told: object, folder: Path) -> int:
    """Read a folder in this process, and say what it holds, as the command line would."""
    from flcluster.errors import UserError

    good_data.trust(told)
    try:
        print(f"read {case.recipe.read(folder)}", flush=True)
    except UserError as error:
        print(f"flcluster: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def harmed(case: bad_data.Case, good: Path, folder: Path) -> bool:
    """Copy a good folder and harm it; False if there is nothing to be harmed so."""
    shutil.copytree(good, folder)
    path = folder / case.file
    harm = bad_data.harms(case.recipe, case.file, folder)[case.harm]
    draw = np.random.default_rng(zlib.crc32(f"{case.recipe.name} {case.file} {case.harm}".encode()))
    return harm(path, draw) is not False


def outcome(case: bad_data.Case, good: Path, told: object, right: str, folder: Path) -> tuple[str, str]:
    """Return what a case came to, and what was said."""
    if not harmed(case, good, folder):
        return "ran right", "nothing to harm"
    ended = forked.forked(lambda: read(case, told, folder), folder, SECONDS)
    said = ended.said.replace(str(folder), "")
    if (folder / "executed").exists():
        return "executed a pickle", said
    if ended.code == forked.LATE:
        return "hangs", said
    if ended.code == 0:
        lines = said.splitlines()
        if lines[-1:] == [f"read {right}"]:
            return "ran right", said
        return ("silent" if case.must else "ran, cannot be noticed"), said
    if ended.code != 2 or "Traceback" in said:
        return "traceback", said
    if len(said.strip().splitlines()) != 1 or len(said) > 4000:
        return "more than one message", said
    of_folder = case.harm == "removed" and str(folder) in ended.said  # which of many files is gone nobody can know
    return ("refused" if of_folder or names(case, said) else "names no file"), said


def names(case: bad_data.Case, said: str) -> bool:
    """Say whether a message names the bad file, its folder, or the bad name of another file that it holds."""
    value = case.harm.partition(" is ")[2].strip("'").replace("\\t", "\t")
    if case.recipe.only:  # no file of ours
        return "data." in said
    told = [Path(case.file).name, str(Path(case.file).parent), *([value] if {".", "/"} & {*value} else [])]
    return any(word in said for word in told if word != ".")


@contextmanager
def good_folders():
    """Write a good folder for each reader; yield the folders, what to trust, and what is right, by reader."""
    forked.warm()
    folders, told, right = {}, {}, {}
    with TemporaryDirectory() as base:
        for at, recipe in enumerate(good_data.recipes()):
            folders[recipe.name] = Path(base) / f"good{at}"
            folders[recipe.name].mkdir()
            told[recipe.name] = recipe.write(folders[recipe.name])
            right[recipe.name] = _right(recipe, folders[recipe.name], told[recipe.name], Path(base) / "copy")
        yield Path(base), folders, told, right


def _right(recipe: good_data.Recipe, folder: Path, told: object, copy: Path) -> str:
    shutil.copytree(folder, copy)
    case = bad_data.Case(recipe, "", "", False)
    ended = forked.forked(lambda: read(case, told, copy), copy, SECONDS)
    shutil.rmtree(copy)
    if ended.code:
        raise SystemExit(f"the good folder of {recipe.name} cannot be read: {ended.said}")
    return ended.said.splitlines()[-1].removeprefix("read ")


def attempts(count: int, seed: int, words: list[str], show: Callable[[str, bad_data.Case, str], None]) -> Counter[str]:
    """Try so many cases, and count what they came to."""
    counts = Counter[str]()
    with good_folders() as (base, folders, told, right):
        cases = bad_data.drawn(10**9 if words else count, seed, folders)
        chosen = [c for c in cases if not words or any(w in f"{c.recipe.name} {c.file} {c.harm}" for w in words)][
            :count
        ]
        for at, case in enumerate(chosen, start=1):
            name, folder = case.recipe.name, base / "bad"
            what, said = outcome(case, folders[name], told[name], right[name], folder)
            shutil.rmtree(folder)
            counts[what] += 1
            show(what, case, said)
            if at % 100 == 0:
                print(f"{at} of {len(chosen)}: {dict(counts)}", file=sys.stderr, flush=True)
    return counts


def shown(what: str, case: bad_data.Case, said: str) -> None:
    """Show what is wrong."""
    if what not in GOOD:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        print(f"{what} | {case.recipe.name} | {case.file} | {case.harm} |", *lines[-4:], flush=True)


def main() -> None:
    """Try, count, and show what is wrong."""
    verdict.tell("bad data folders", attempts(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:], shown), GOOD)


if __name__ == "__main__":
    main()
