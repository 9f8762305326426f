"""Try bad configurations, each in a process of its own: what each came to.

python tests/faults/try_configs.py COUNT SEED [WORD …]    only those whose key or class has one of the words

A configuration with one bad setting must be refused in a message that names its key, with exit code 2, or run to its
end and leave a summary that is JSON. Where data or a library cannot be had here, a class is
refused in the same words with all settings good.
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
import forked
import good_configs as good
import verdict
from bad_configs import Bad, drawn, study_text

from flcluster.errors import harmless

SECONDS = float(os.environ.get("FAULTS_SECONDS", "90"))


def strictly(text: str) -> None:
    """Read JSON that has no NaN and no Infinity."""

    def refuse(word: str) -> None:
        raise ValueError(f"summary.json says {word}")

    json.loads(text, parse_constant=refuse)


def case(command: str, flags: list[str]) -> int:
    """Run a command in this process; its summary must be JSON."""
    from flcluster.cli import main

    if command == "fit":
        stop = [] if any("max_updates" in flag for flag in flags) else ["--engine.max_updates", "2"]
        code = main(["fit", *flags[: flags.index("--")], *good.QUIET, *flags[flags.index("--") + 1 :], *stop,
                     "--run_dir", "run"])  # fmt: skip
        if code == 0:
            strictly(Path("run/summary.json").read_text())
        return code
    return main([command, *[flag for flag in flags if flag != "--"], "--list"])


def run(bad: Bad, folder: Path) -> forked.Ended:
    """Try one in a folder that has the files of good configurations."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    flags = bad.flags()
    if bad.command == "study" and not bad.base:
        (folder / "bad.yaml").write_text(study_text(bad))
        flags = ["bad.yaml"]
        at = 1
    else:
        at = len(bad.base)
    return forked.forked(lambda: case(bad.command, [*flags[:at], "--", *flags[at:]]), folder, SECONDS)


def named(key: str, said: str) -> bool:
    """Say whether a message names a key: whole, or its part and its name, if that is no word of every sentence."""
    plain = re.sub(r"\[\d+\]", "", said).replace(".init_args", "")
    part, _, last = key.partition(".")[0], "", key.rpartition(".")[2]
    apart = len(last) > 2 and part in plain and re.search(rf"\b{last}\b", plain, re.IGNORECASE) is not None
    return key in plain or apart


FILES = (
    "root",
    "path",
    "manifest",
    "capacity",
    "availability",
    "profiles",
    "model_start",
    "test_path",
    "--base",
    "--output",
)
"""Settings that name a file: a message may name the file instead."""


def told(bad: Bad, said: str) -> bool:
    """Say whether a message names the key that was bad; or the file, or the variant of a study file, that it names."""
    last, value = bad.key.rpartition(".")[2], str(bad.value).strip("'\"\n")[:40]
    shown = "None" if value == "null" else harmless(value)[:10] or str(bad.value)
    if last in FILES and ((shown and shown in said) or "was not found in" in said):
        return True
    variant = bad.key in ("base", "common", "variants", "matrix") and "bad.yaml: variant" in said
    if bad.key in ("--methods", "--only") and value in said:
        return bad.key in said or "variant" in said
    return named(bad.key, said) or variant


def outcome(bad: Bad, folder: Path, usual: dict[tuple[str, ...], forked.Ended]) -> tuple[str, str]:
    """Return what a configuration came to, and what it said: ``refused``, ``ran``, ``no data``, or what is wrong."""
    found = run(bad, folder)
    if found.code == forked.LATE:
        return "hangs", found.said
    if "Traceback" in found.said or found.code in (forked.CRASHED, 1) or found.code < 0:
        return "traceback", f"{found.code}\n{found.said}"
    if found.code == 0:
        return "ran", found.said
    if found.code != 2:
        return f"exit code {found.code}", found.said
    if told(bad, found.said):
        return ("refused" if len(found.said) < 4000 else "long message"), found.said
    if bad.command == "fit":
        good_one = bad.usual or bad.base
        if good_one not in usual:
            usual[good_one] = run(Bad(bad.key, "", good_one, bad.origin, bad.kind, wrap=()), folder)
        if usual[good_one].code == 2 and usual[good_one].said.splitlines()[-1:] == found.said.splitlines()[-1:]:
            return "no data", found.said
    return "names no key", found.said


@contextlib.contextmanager
def place():
    """Have a folder with what good configurations need, in a process that has loaded everything."""
    forked.warm()
    with TemporaryDirectory() as folder:
        good.files(Path(folder))
        yield Path(folder)


def main():
    """Try, count, and show what is wrong."""
    count, seed, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    counts, usual = Counter(), {}
    with place() as folder:
        chosen = drawn(10**9 if words else count, seed)
        chosen = [bad for bad in chosen if not words or any(word in f"{bad.key} {bad.kind}" for word in words)][:count]
        for at, bad in enumerate(chosen, start=1):
            what, said = outcome(bad, folder, usual)
            counts[what] += 1
            if what not in ("refused", "ran", "no data"):
                lines = [line for line in said.strip().splitlines() if line.strip()]
                shown = lines[:12] if what == "hangs" else lines[-3:] if what == "traceback" else lines[:3]
                print(what, bad.kind, bad.command, *bad.flags()[len(bad.base) :], "|", *shown, flush=True)
            if at % 250 == 0:
                print(f"{at} of {len(chosen)}: {dict(counts)}", file=sys.stderr, flush=True)
    verdict.tell("bad configurations", counts, ("refused", "ran", "no data"))


if __name__ == "__main__":
    main()
