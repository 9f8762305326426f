"""One short run of every method on embedded data, to see whether a change to the code changes any number.

python tests/benchmarks/same_numbers.py write DIR          run all (a few minutes) and keep their metrics in DIR
python tests/benchmarks/same_numbers.py compare DIR DIR    exit 1 and name every run and column that differs

Write with the code before and after a change, on one machine, and compare: timings aside, all is equal to the last bit.
"""

import csv
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import flcluster.algorithms as methods
from flcluster.cli import main as flcluster
from flcluster.protocol.base import Algorithm

ROOT = Path(__file__).resolve().parents[2]
UPLOADS, ROUNDS, DRIFT = "tests/tiny.yaml", "configs/fedavg_digits.yaml", "configs/fielding/digits.yaml"
GOSSIP, SKEW = "configs/dfca/digits.yaml", "configs/apfl/digits.yaml"
SHORT = {
    UPLOADS: [],
    ROUNDS: ["--algorithm.rounds", "4", "--algorithm.participation", "0.5", "--algorithm.measure", "all"],
    DRIFT: ["--algorithm.rounds", "24"],
    GOSSIP: ["--algorithm.rounds", "6"],
    SKEW: ["--algorithm.rounds", "3"],
}
AP_FL = ["--algorithm.generator_steps", "40", "--algorithm.friend_epochs", "2"]
FEDDF = ["--data.proxy_size", "100"]
RUNS: dict[str, tuple[str, list[str]]] = {
    **{name: (UPLOADS, []) for name in ("CDFL", "CCFL", "FedSoftAsync", "FedBuff", "CA2FL", "FedAsync", "Local")},
    "Local-own": (UPLOADS, ["--algorithm.start", "own"]),
    "CDFL-epochs": (UPLOADS, ["--algorithm.staleness_unit", "epochs"]),
    **{name: (ROUNDS, []) for name in ("FedAvg", "FedProx", "FedYogi", "QFedAvg", "IFCA")},
    **{name: (DRIFT, []) for name in ("Fielding", "StaticClustering", "AlwaysRecluster", "MoveIndividuals")},
    **{name: (DRIFT, []) for name in ("SelectedOnly", "LossTriggeredFielding", "FlexCFL", "Auxo", "FedDrift")},
    "FieldingAnalysis": (DRIFT, ["--algorithm.local_steps", "1"]),
    "Fielding-Oort": (DRIFT, ["--algorithm.selection", "Oort"]),
    "Fielding-DistanceSelection": (DRIFT, ["--algorithm.selection", "DistanceSelection"]),
    **{name: (GOSSIP, []) for name in ("DFCA", "AsyncDFCA", "DFedAvgM", "FedSPD")},
    "DFCA-LI": (GOSSIP, ["--algorithm.initialisation", "local", "--algorithm.aggregation", "sequential"]),
    "DFCA-idle": (GOSSIP, ["--algorithm.participation", "0.5", "--algorithm.idle_neighbours", "true"]),
    "APFL": (SKEW, AP_FL),
    "APFL-rounds": (SKEW, [*AP_FL, "--algorithm.aggregation", "fedavg", "--algorithm.friend_classes", "all"]),
    "FedDF": (SKEW, FEDDF),
    "Scaffold": (SKEW, ["--model.optimizer", "sgd"]),
    **{name: (SKEW, []) for name in ("FedGen", "FedAvgFT", "LocalRounds")},
}
"""Run -> its config and what it changes; the name up to a dash is the method."""
TIMED = ("coordinator_seconds",)
"""Columns that are measured with a clock."""


def write(folder: Path) -> int:
    """Run every method for a short time; keep metrics.csv and clients.csv."""
    found = (getattr(methods, name) for name in methods.__all__)
    known = {kind.__name__ for kind in found if issubclass(kind, Algorithm)}
    if absent := known - {name.partition("-")[0] for name in RUNS}:
        raise SystemExit(f"no run of {', '.join(sorted(absent))}: add one to RUNS in {__file__}")
    quiet = [part for key in ("progress", "pictures", "table") for part in (f"--engine.{key}", "false")]
    for name, (config, flags) in RUNS.items():
        print(name, flush=True)
        with TemporaryDirectory() as scratch:
            run = Path(scratch) / name
            method = ["--config", str(ROOT / config), "--algorithm", name.partition("-")[0], *SHORT[config], *flags]
            alone = ["--engine.threads", "1", "--engine.together", "1"]  # what a rule says may change with the code
            if code := flcluster(["fit", *method, *quiet, *alone, "--run_dir", str(run)]):
                raise SystemExit(f"{name} failed with exit code {code}")
            for file in ("metrics.csv", "clients.csv"):
                target = folder / name / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((run / file).read_bytes())
    return 0


def compare(one: Path, other: Path) -> int:
    """Name every column that differs."""
    files = sorted({path.relative_to(folder) for folder in (one, other) for path in folder.rglob("*.csv")})
    said = [line for file in files for line in differences(one / file, other / file, str(file))]
    print("\n".join(said) or f"{len(files)} files are the same, timings aside")
    return int(bool(said) or not files)


def differences(one: Path, other: Path, name: str) -> list[str]:
    """Return a line for each column of two files that is not the same in both."""
    if not (one.exists() and other.exists()):
        return [f"{name}: only in {(one if one.exists() else other).parents[1]}"]
    a, b = ({row[0]: row[1:] for row in zip(*csv.reader(path.open(newline="")), strict=True)} for path in (one, other))
    columns = [column for column in {**a, **b} if column not in TIMED and a.get(column) != b.get(column)]
    return [f"{name}: {column}" for column in columns]


if __name__ == "__main__":
    commands = {("write", 1): write, ("compare", 2): compare}
    command = commands.get((sys.argv[1], len(sys.argv) - 2)) if len(sys.argv) > 1 else None
    if command is None:
        raise SystemExit(__doc__)
    raise SystemExit(command(*map(Path, sys.argv[2:])))  # type: ignore[operator]
