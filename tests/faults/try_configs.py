"""Try bad configurations in one process: what each came to. ``python tests/faults/try_configs.py COUNT SEED``."""

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
TINY = str(Path(__file__).parents[1] / "tiny.yaml")
SHORT = ["--engine.progress", "false", "--engine.table", "false", "--engine.pictures", "false"]
LIMIT = 60


class HangError(Exception):
    """A run that took too long."""


def outcome(key, flags):
    """Return what a configuration came to: ``refused``, ``ran``, or what is wrong with its message."""
    from flcluster.cli import main

    def late(*_):
        raise HangError

    said, before = io.StringIO(), signal.signal(signal.SIGALRM, late)
    stop = [] if any(flag.startswith("--engine.max_updates") for flag in flags) else ["--engine.max_updates", "2"]
    signal.alarm(LIMIT)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = main(["fit", "--config", TINY, *SHORT, *flags, *stop, "--run_dir", "run"])
    except SystemExit as end:
        code = end.code
    except HangError:
        return "hangs", ""
    except BaseException:
        return "traceback", traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        shutil.rmtree("run", ignore_errors=True)
    text = said.getvalue()
    if code == 0:
        return "ran", text
    if "Traceback" in text:
        return "traceback", text
    name = key.rpartition(".")[2]
    return ("refused" if name in text else "names no key"), text


def main():
    """Try, count, and show what is wrong."""
    from bad_configs import drawn

    count, seed = int(sys.argv[1]), int(sys.argv[2])
    os.chdir(tempfile.mkdtemp())
    counts = Counter[str]()
    for at, (key, flags) in enumerate(drawn(count, seed), start=1):
        what, text = outcome(key, flags)
        counts[what] += 1
        if what not in ("refused", "ran"):
            lines = [line for line in text.strip().splitlines() if line.strip()]
            print(what, *flags, "|", *(lines[-3:] if what == "traceback" else lines[:3]), flush=True)
        if at % 100 == 0:
            print(f"{at} of {count}: {dict(counts)}", file=sys.stderr, flush=True)
    print(f"{count} bad configurations, seed {seed}: {dict(counts)}")
    raise SystemExit(1 if set(counts) - {"refused", "ran"} else 0)


if __name__ == "__main__":
    main()
