"""Set up flcluster in .venv and run a job in it. Needs nothing but Python 3.10 or newer.

python3 dev.py quickstart    install, then CDFL and Local on embedded data: a table and pictures
python3 dev.py test          install, then lint, type check, the site and tests
python3 dev.py docs          install, then the site of docs/ and of the docstrings, in site/
python3 dev.py slow          install, then the tests that take minutes
python3 dev.py faults        install, then thousands of faults (bad configurations, kills, flipped bits …): a table
                             faults --write also puts the table into docs/reliability.md
python3 dev.py mutate        install, then small faults in methods and engine, drawn by seed: which test notices each
python3 dev.py browser       install, then the tests in Chromium (on Debian: apt-get install chromium chromium-driver)
python3 dev.py zoo           install, then public modules against a plain Trainer, in environments of their own
python3 dev.py bench         install, then how fast: against plain PyTorch, many clients, processes …: a table of ratios
                             bench --write also puts the table into docs/performance.md
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
SITE = ["mkdocs", "build", "--strict"]
JOBS: dict[str, list[list[str]]] = {
    "quickstart": [["flcluster", "compare", "--config", "configs/quickstart.yaml", "--methods", "CDFL", "Local"]],
    "test": [
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy", "--config-file", "../pyproject.toml", "-p", "flcluster"],
        SITE,
        ["python", "-m", "pytest", "-n", "2", "--dist", "worksteal"],
    ],
    "docs": [SITE],
    "slow": [["python", "-m", "pytest", "-m", "slow"]],
    "faults": [["python", "tests/faults/everything.py"]],
    "mutate": [["python", "tests/faults/mutation/try_mutants.py", "120", "0"]],
    "browser": [["python", "-m", "pytest", "-m", "browser", "tests/browser"]],
    "bench": [["python", "tests/benchmarks/everything.py"]],
}
ZOO = {
    "base": [],
    "vision": ["timm", "segmentation-models-pytorch", "lightly", "torchgeo"],
    "text": ["transformers", "peft"],
    "tables": ["pytorch-tabular", "pytorch-forecasting"],
    "anomaly": ["anomalib"],
}
"""Packages whose modules are tried, by tests/zoo/test_<group>.py; those of one group can be installed together."""
EXTRAS = {"quickstart": "", "bench": "", "docs": "[docs]", "browser": "[test,browser]"}
"""What to install with the package for a job; the others need what the tests need."""


def install(extra: str) -> None:
    """Create the environment and install the checkout in it, unless that was done for this pyproject.toml."""
    stamp = VENV / f"installed{extra}"
    wanted = hashlib.sha256((HERE / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"creating {VENV}", flush=True)
        venv.create(VENV, with_pip=True)
    print("installing flcluster and what it needs (PyTorch is large: some minutes the first time)", flush=True)
    run(["python", "-m", "pip", "install", "--quiet", "--editable", f".{extra}"])
    stamp.write_text(wanted)


def install_zoo(group: str) -> Path:
    """Create the environment of a group of packages over .venv, so that only what .venv has not is installed."""
    if not ZOO[group]:
        return BIN
    place = HERE / ".zoo" / group
    bin_ = place / BIN.name
    stamp, wanted = place / "installed", "\n".join(ZOO[group])
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"installing {', '.join(ZOO[group])} in {place}", flush=True)
        venv.create(place, with_pip=True, clear=True)
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        base, own = (subprocess.check_output([str(b / "python"), "-c", where], text=True).strip() for b in (BIN, bin_))
        (Path(own) / "over.pth").write_text(f"import site; site.addsitedir({base!r})\n")
        run(["python", "-m", "pip", "install", "--quiet", "--prefer-binary", *ZOO[group]], bin_)
        stamp.write_text(wanted)
    return bin_


def zoo() -> None:
    """Try each group of public modules; go on to the next whatever came of it, and fail if one did."""
    failed = []
    for group in ZOO:
        try:
            run(["python", "-m", "pytest", "-m", "zoo", f"tests/zoo/test_{group}.py"], install_zoo(group))
        except SystemExit:
            failed.append(group)
    if failed:
        raise SystemExit(f"not as a plain Trainer: {', '.join(failed)}")


def as_imported() -> Path:
    """Lay the four folders out as they are imported, as flcluster.modules and so on, for mypy and mkdocs."""
    tree = HERE / ".typed" / "flcluster"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for source in [*(HERE / "flcluster").iterdir(), HERE / "modules", HERE / "datamodules", HERE / "algorithms"]:
        if source.name != "__pycache__" and not source.is_symlink():
            (tree / source.name).symlink_to(source)
    return tree.parent


def run(command: list[str], bin_: Path = BIN) -> None:
    """Run a command of an environment; stop with its exit code if it fails."""
    print("$", " ".join(command), flush=True)
    tree = as_imported() if command[0] in ("mypy", "mkdocs") else HERE
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # its theme advertises otherwise
    where = tree if command[0] == "mypy" else HERE
    process = subprocess.Popen([str(bin_ / command[0]), *command[1:]], cwd=where, env=environment)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:  # the job gets it too, and may have something to save
            continue
    if code:
        raise SystemExit(code)


def main() -> None:
    """Install, then do the named job."""
    more = sys.argv[2:]
    if (
        len(sys.argv) < 2
        or sys.argv[1] not in {*JOBS, "zoo"}
        or more not in ([], ["--write"] * (sys.argv[1] in ("faults", "bench")))
    ):
        raise SystemExit(__doc__)
    if sys.version_info < (3, 10):  # noqa: UP036 (an old Python should say so)
        raise SystemExit(f"flcluster needs Python 3.10 or newer, this is {sys.version.split()[0]}")
    install(EXTRAS.get(sys.argv[1], "[test]"))
    if sys.argv[1] == "zoo":
        return zoo()
    for command in JOBS[sys.argv[1]]:
        if command[0] == "mypy" and sys.version_info < (3, 11):
            print("no type check: NumPy for Python 3.10 has older annotations than those that ours are checked with")
        else:
            run([*command, *more])


if __name__ == "__main__":
    main()
