"""Studies: which runs are started how, what is made of them, and what is refused before anything runs."""

import csv
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from runs import write_run

from flcluster.cli import main
from flcluster.cli.jobs import processes as jobs
from flcluster.cli.study import study
from flcluster.errors import UserError

TINY = Path(__file__).parents[2] / "tiny.yaml"
VARIANTS = {
    "as it is": {},
    "Local, fewer": {"algorithm": "Local", "data": {"init_args": {"num_clients": 4}}},
    "FedAvg": {"algorithm": {"class_path": "FedAvg", "init_args": {"rounds": 2}}},
}


def write_study(**changes):
    tree = {"base": str(TINY), "variants": VARIANTS, "table": ["client_acc_after"], "budget": "own", **changes}
    Path("s.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    return "s.yaml"


def ran(path, seed=0, accuracies=(0.1, 0.2, 0.3), step=10.0, status="finished", **summary):
    """A run directory with an accuracy a round."""
    at = range(len(accuracies))
    metrics = {"update": [10 * i for i in at], "epoch": at, "time": [step * i for i in at], "client_acc": accuracies}
    told = {"dataset": "Stream", "num_clusters": 1, "status": status, "client_acc": accuracies[-1], **summary}
    write_run(path, "FedAvg", seed, metrics, **told)


class Ended:
    """A process that has ended before anyone looked."""

    def __init__(self, code=0):
        self.code = code

    def poll(self):
        return self.code

    def wait(self, timeout=None):
        return self.code


@pytest.fixture
def started(monkeypatch):
    """Runs are not started but fabricated; holds the arguments of each."""
    calls: list[tuple[str, list[str]]] = []

    def begin(run_dir, arguments, at_once):
        calls.append((str(run_dir), arguments))
        if not run_dir.exists():
            seed = int(arguments[arguments.index("--seed_everything") + 1]) if "--seed_everything" in arguments else 3
            ran(run_dir, seed, client_acc_after=0.5)
        return Ended()

    monkeypatch.setattr(jobs, "begin", begin)
    return calls


def test_each_variant_is_its_changes_over_the_base(started):
    assert study([write_study(), "--output", "out", "--algorithm.local_epochs", "2", "engine.threads=1"]) == 0
    assert [name for name, _ in started] == ["out/as_it_is", "out/Local_fewer", "out/FedAvg"]
    extra = ["--algorithm.local_epochs", "2", "--engine.threads=1"]
    assert started[0][1] == ["--config", str(TINY), *extra]
    assert started[1][1] == ["--config", str(TINY), "--config", "out/variants/Local_fewer.yaml", *extra]
    assert yaml.safe_load(Path("out/variants/Local_fewer.yaml").read_text()) == VARIANTS["Local, fewer"]
    assert Path("out/study.md").exists()


def test_what_variants_have_in_common_comes_between(started):
    common = {"data": {"init_args": {"num_clients": 8}}}
    assert study([write_study(common=common), "--output", "out"]) == 0
    shared = ["--config", str(TINY), "--config", "out/common.yaml"]
    assert [arguments for _, arguments in started[:2]] == [
        shared,
        [*shared, "--config", "out/variants/Local_fewer.yaml"],
    ]
    assert yaml.safe_load(Path("out/common.yaml").read_text()) == common


def test_axes_of_a_matrix_are_files_over_the_bases_in_their_order(started):
    Path("over.yaml").write_text("seed_everything: 5\n")
    matrix = {"data": {"few": {"base": "over.yaml", "data": {"init_args": {"num_clients": 4}}}, "": {}}}
    matrix["method"] = {"M": {"algorithm": "Local"}, "N": {}}
    path = write_study(matrix=matrix, common={"engine": {"session": 2}}, variants={"spelled": {}})
    with pytest.warns(UserWarning, match="no run of variant"):
        assert study([path, "--output", "out", "--only", "few", "M"]) == 0
    assert [name for name, _ in started] == ["out/few_M", "out/few_N", "out/M"]
    files = [str(TINY), "over.yaml", "out/common.yaml", "out/variants/few_M.1.yaml", "out/variants/few_M.2.yaml"]
    assert started[0][1] == [part for file in files for part in ("--config", file)]
    said = [yaml.safe_load(Path(file).read_text()) for file in files[3:]]
    assert said == [{"data": {"init_args": {"num_clients": 4}}}, {"algorithm": "Local"}]


def test_one_label_may_mean_different_things_in_two_matrices(started):
    several = [{"a": {"A": {"seed_everything": i}}, "b": {f"b{i}": {"engine": {"session": 1}}}} for i in (1, 2)]
    assert study([write_study(matrix=several, variants=None), "--output", "out"]) == 0
    first = [Path(arguments[3]).read_text() for _, arguments in started]
    assert first == ["seed_everything: 1\n", "seed_everything: 2\n"]


def test_another_base_on_the_command_line(started):
    Path("other.yaml").write_text(f"base: {TINY}\nseed_everything: 6\n")
    with pytest.warns(UserWarning, match="no run of variant"):
        assert study([write_study(), "--base", "other.yaml", "--output", "out", "--only", "as it is"]) == 0
    assert started[0][1] == ["--config", "other.yaml"]


def test_flags_that_are_none(capsys):
    with pytest.raises(UserError, match=r"^--base: there is no file null$"):
        study([write_study(), "--base", "null"])
    with pytest.raises(SystemExit):
        study([write_study(), "--seeds", "x" * 9000])
    said = capsys.readouterr().err
    assert "--seeds" in said and "must be a whole number, got 'xxx" in said and len(said) < 1500


def test_seeds_and_a_choice_of_variants(started):
    argv = [write_study(), "--output", "out", "--seeds", "5", "7", "--only", "FedAvg", "as_it_is"]
    with pytest.warns(UserWarning, match="no run of variant Local, fewer"):
        assert study(argv) == 0
    assert [name for name, _ in started] == [f"out/{v}-seed{s}" for s in (5, 7) for v in ("as_it_is", "FedAvg")]
    assert started[-1][1][-2:] == ["--seed_everything", "7"]
    with Path("out/study.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["variant"], row["seed"]) for row in rows} == {(v, s) for v in ("as it is", "FedAvg") for s in "57"}
    assert study([write_study(), "--output", "out", "--only", "Local, fewer"]) == 0
    assert "| as it is | 2 | " in Path("out/study.md").read_text()  # what was there before is in the table too


@pytest.mark.filterwarnings("ignore:out has no run")
def test_what_fails_or_stops_keeps_no_other_from_running(monkeypatch, capsys):
    def begin(run_dir, arguments, at_once):
        if run_dir.name == "as_it_is":
            return Ended(2)
        ran(run_dir, 3, status="stopped: engine.max_updates=1" if run_dir.name == "Local_fewer" else "finished")
        return Ended()

    monkeypatch.setattr(jobs, "begin", begin)
    assert study([write_study(table=["client_acc"]), "--output", "out"]) == 2
    said = capsys.readouterr().err
    assert "2 of 3 runs did not finish" in said
    assert "as_it_is: failed (exit code 2)" in said and "Local_fewer: stopped early" in said
    table = Path("out/study.md").read_text()
    assert "| FedAvg | 1 | 0.300 |" in table and "| Local, fewer | 1 |" in table and "as it is" not in table


def test_a_stop_alone_has_an_exit_code_of_its_own(monkeypatch):
    monkeypatch.setattr(jobs, "begin", lambda run_dir, *rest: ran(run_dir, status="stopped: SIGUSR1") or Ended())
    assert study([write_study(variants={"A": {}}), "--output", "out"]) == jobs.STOPPED


def test_the_default_output_is_new_each_time(started):
    assert study([write_study()]) == study(["s.yaml"]) == 0
    assert len({Path(name).parent for name, _ in started}) == 2
    assert all(Path(name).parts[:2] == ("runs", "s") for name, _ in started)


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        ({"algorithm": {"class_path": "Local", "init_args": {"beta0": 1}}}, "beta0"),  # given, not kept from the base
        ({"algorithm": "NoSuchMethod"}, "NoSuchMethod"),
        ({"data": {"init_args": {"num_clusters": 0}}}, "num_clusters"),
        ({"algoritm": "Local"}, "algoritm"),
    ],
)
@pytest.mark.filterwarnings("ignore:out has no run")
def test_no_mistake_waits_behind_other_runs(started, variant, says):
    path = write_study(variants={"fine": {}, "broken": variant})
    with pytest.raises(UserError, match=rf"(?s)s.yaml: variant broken: .*{says}"):
        study([path, "--output", "out"])
    assert not started and not Path("out").exists()
    assert study([path, "--output", "out", "--only", "fine"]) == 0


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--only", "Locale"], "no variant Locale; there are as it is, Local, fewer, FedAvg"),
        (["--run_dir", "x"], "leave out --run_dir"),
        (["--draw_only", "true"], "needs --output"),
        (["--draw_only", "true", "--output", "none"], "none is not a directory"),
        (["--draw_only", "true", "--output", "."], "holds no run of the study s.yaml"),
        (["--draw_only", "true", "--output", ".", "--seeds", "1"], "leave out --seeds"),
        (["--draw_only", "true", "--output", ".", "--data.num_clients", "5"], "leave out --data.num_clients 5"),
    ],
)
@pytest.mark.filterwarnings("ignore:. has no run")
def test_mistakes_on_the_command_line(argv, says, capsys, started):
    assert main(["study", write_study(), *argv]) == 2
    assert says in capsys.readouterr().err
    assert not started


def fielding_study():
    return write_study(
        title="Who is faster",
        variants={"FIELDING": {}, "Slow": {}, "Global": {}},
        target={"variant": "Global", "last": 2},
        table=["client_acc", "client_acc_last", "tta", "speedup", "gain", "reclusterings", "nothing"],
        figures=[{"kind": "lines", "x": "time", "target": True, "file": "acc"}, {"kind": "sizes"}],
        paper="fielding_table6_m",
    )


def test_drawing_only_tells_what_is_there(capsys):
    path = fielding_study()
    ran(Path("out/Global"), accuracies=(0.1, 0.3, 0.2, 0.4, 0.4), step=100)
    ran(Path("out/FIELDING"), accuracies=(0.1, 0.5, 0.5, 0.6, 0.8), step=150, reclusterings=3)
    ran(Path("out/Slow"), accuracies=(0.1, 0.2, 0.4, 0.5, 0.3), status="stopped: SIGTERM")
    with pytest.warns(UserWarning, match="left out") as said:
        assert study([path, "--output", "out", "--draw_only", "true"]) == 0
    assert sorted(str(w.message).partition(":")[0] for w in said) == [
        "no run has a value for nothing",
        "no run has anything to draw for sizes",
    ]
    text = Path("out/study.md").read_text()
    assert "| FIELDING | 1 | 0.800 | 0.500 | 2.5 | 2.00× | 30.0 | 3 |" in text  # 5 min / 2.5 min; .7 - .4
    assert "| Slow | 1 | 0.300 | 0.300 | never |  | 0.0 |  |" in text
    assert "| Global | 1 | 0.400 | 0.280 | 5.0 | 1.00× | 0.0 |  |" in text
    assert "mean of its last 2 rows" in text
    assert "| 1.1 | 53.0 | 479 |" in text and "![acc](acc.png)" in text and "(stopped: SIGTERM)" in text
    assert Path("out/acc.png").read_bytes().startswith(b"\x89PNG")
    with Path("out/study.csv").open() as file:
        values = {(row["variant"], row["metric"]): row["value"] for row in csv.DictReader(file)}
    assert (values["Global", "target"], values["Slow", "tta"], values["FIELDING", "tta"]) == ("0.4", "", "150.0")
    printed = capsys.readouterr().out
    assert "Who is faster" in printed and "2.00×" in printed and "fielding_table6_m" in printed


def test_seeds_are_compared_pairwise_and_averaged():
    path = fielding_study()
    for seed, (ours, theirs) in enumerate([((0.1, 0.5, 0.6), (0.1, 0.4, 0.4)), ((0.1, 0.2, 0.3), (0.1, 0.2, 0.2))]):
        ran(Path(f"out/FIELDING-seed{seed}"), seed, ours)
        ran(Path(f"out/Global-seed{seed}"), seed, theirs, step=20)
    ran(Path("out/Slow-seed0"), 0, (0.1, 0.1, 0.1))
    ran(Path("out/Slow-seed1"), 1, (0.1, 0.2, 0.2))
    ran(Path("out/Other"), 0)
    with pytest.warns(UserWarning):
        study([path, "--output", "out", "--draw_only", "true"])
    text = Path("out/study.md").read_text()
    assert "| FIELDING | 2 | 0.450 ±0.212 | 0.300 ±0.141 | 10.0 ±0.0 | 2.00 ±0.00× | 10.0 ±7.1 |" in text
    assert "| Slow | 2 |" in text and "10.0 (1/2 seeds) | 2.00× (1/2 seeds)" in text
    assert "Mean ± standard deviation over seeds." in text and "Other" not in text


@pytest.mark.filterwarnings("ignore:no run has")
def test_a_seed_with_other_settings_is_no_repeat():
    path = write_study(variants={"A": {}}, table=["client_acc"])
    for seed, accuracy, lr in ((0, 0.2, 0.1), (1, 0.4, 0.1), (2, 0.9, 1.0)):
        settings = {"seed_everything": seed, "model": {"class_path": "M", "init_args": {"lr": lr}}}
        ran(Path(f"out/A-seed{seed}"), seed, (0.1, accuracy), settings=settings)
    with pytest.warns(UserWarning, match=r"A: seed 2 has other settings \(lr=0.1 but lr=1.0\) and is left out"):
        study([path, "--output", "out", "--draw_only", "true"])
    assert "| A | 2 | 0.300 ±0.141 |" in Path("out/study.md").read_text()


@pytest.mark.filterwarnings("ignore:out has no run")
def test_a_variant_really_runs(capfd):
    """Another class and other data over one base, which holds keys that the class does not have."""
    argv = ["study", write_study(), "--output", "out", "--only", "Local_fewer", "--algorithm.cycles=1"]
    with pytest.warns(UserWarning, match="no run of variant"):
        assert main(argv) == 0
    config = yaml.safe_load(Path("out/Local_fewer/config.yaml").read_text())
    assert config["algorithm"]["class_path"] == "flcluster.algorithms.Local"
    assert "beta0" not in config["algorithm"]["init_args"] and config["algorithm"]["init_args"]["batch_size"] == 16
    assert config["data"]["init_args"]["num_clients"] == 4 and config["data"]["init_args"]["num_clusters"] == 2
    assert Path("out/Local_fewer/clients.csv").read_text().count("\n") == 1 + 4
    assert "run 1 of 1: out/Local_fewer" in capfd.readouterr().err


# budgets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--jobs", "-1"], "--jobs must be at least 1, got -1"),
        (["--seeds", "1", "0", "1"], "--seeds has 1 twice"),
    ],
)
def test_jobs_and_seeds_that_make_no_sense_are_refused_before_anything_runs(started, flags, said):
    with pytest.raises(UserError, match=said):
        study([write_study(), "--output", "out", *flags])
    assert not started


def test_unlike_budgets_are_refused_before_anything_runs(started, capsys):
    variants = {"CDFL": {}, "FedAvg": {"algorithm": "FedAvg"}}
    assert main(["study", write_study(variants=variants, budget="same"), "--output", "out"]) == 2
    said = capsys.readouterr().err
    assert "FedAvg" in said and "algorithm.rounds: 5 of variant FedAvg" in said and "budget: own in the file" in said
    assert not started and not Path("out").exists()


def test_equal_budgets_are_made_on_request(started):
    variants = {
        "CDFL": {},
        "FedAvg": {"algorithm": "FedAvg"},
        "Other data": {"data": {"init_args": {"num_clients": 4}}},
    }
    assert study([write_study(variants=variants, budget="same"), "--output", "out", "--budget", "equal"]) == 0
    assert [arguments[-2:] for _, arguments in started] == [
        ["--config", str(TINY)],
        ["--algorithm.rounds", "5"],
        ["--config", "out/variants/Other_data.yaml"],  # what is on other data is not compared with these
    ]


def test_methods_of_a_comparison_have_names_and_settings_of_their_own(started):
    line = ["compare", "--config", str(TINY), "--methods", "CDFL", "gentle=CDFL", "engine.threads=1", "--output", "out"]
    assert main([*line, "--gentle.rho", "0.01", "--seeds", "4"]) == 0
    assert [name for name, _ in started] == ["out/CDFL-seed4", "out/gentle-seed4"]
    own = [(arguments[-4:-2], "--engine.threads=1" in arguments) for _, arguments in started]
    assert own[0] == (["--config", "out/variants/CDFL.yaml"], True) and own[1] == (["--algorithm.rho", "0.01"], True)


# machines -----------------------------------------------------------------------------------------------------------


def test_a_list_has_one_command_a_run_and_runs_nothing(started, capsys):
    assert study([write_study(), "--output", "o u t", "--seeds", "0", "1", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and not started
    words = shlex.split(lines[4])
    assert words[words.index("--run_dir") + 1] == "o u t/Local_fewer-seed1"
    assert words[words.index("--seed_everything") + 1] == "1" and words[words.index("--ckpt_path") + 1] == "auto"
    assert Path("o u t/variants/Local_fewer.yaml").exists()


@pytest.mark.slow
def test_each_listed_line_runs_in_a_shell_of_its_own_and_all_are_drawn_afterwards(capsys):
    path = write_study(variants={"CDFL": {}, "Local": {"algorithm": "Local"}})
    assert study([path, "--output", "out", "--seeds", "0", "--list", "--algorithm.cycles=1"]) == 0
    for line in capsys.readouterr().out.splitlines():
        for _ in range(2):  # once more changes nothing
            assert subprocess.run(line, shell=True).returncode == 0
    assert study([path, "--output", "out", "--draw_only", "true"]) == 0
    assert "| CDFL | 1 |" in Path("out/study.md").read_text() and "| Local | 1 |" in Path("out/study.md").read_text()
