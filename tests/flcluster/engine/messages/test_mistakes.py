"""A wrong class, key or value is one line that names what comes nearest and where the list is."""

from pathlib import Path

import pytest
import yaml

import flcluster as fl
from flcluster.cli import main
from flcluster.engine.config import fit_parser, plan_fit
from flcluster.engine.messages.classes import known
from flcluster.engine.messages.names import method_named
from flcluster.engine.messages.parser import plainer
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.records.reader import family

ROOT = Path(__file__).parents[4]
TINY = str(ROOT / "tests" / "tiny.yaml")
GOSSIP = ["--data.num_clusters", "2", "--algorithm", "DFCA", "--algorithm.topology", "ErdosRenyi"]


def refused(capsys, *argv: str) -> str:
    """The one line that a run says which is refused; nothing is written."""
    assert main(["fit", "--config", TINY, *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and not [path for path in Path().rglob("runs/**/*") if path.is_file()]
    assert len(err.strip().splitlines()) == 1 and len(err) < 330, err
    return err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("--algorithm CDLF", "there is no method CDLF; did you mean CDFL? flcluster methods lists them"),
        ("--algorithm.help CDLF", "did you mean CDFL?"),
        ("--algorithm RotatedDigits", "there is no method RotatedDigits; flcluster methods lists them"),
        ("--algorithm flcluster.datamodules.RotatedDigits", "is no method; flcluster methods lists them"),
        ("--data RotatedDigit", "there is no datamodule RotatedDigit; did you mean RotatedDigits"),
        ("--data RotatedDigit", "flcluster data --list lists them"),
        ("--model MPL", "there is no model MPL; did you mean MLP"),
        ("--model flcluster.modules.MPL", "flcluster.modules has no MPL; did you mean MLP?"),
        ("--model mine.Softmax", "mine.Softmax cannot be imported (No module named 'mine'); PYTHONPATH=."),
        ("--logger CVSLogger", "did you mean CSVLogger"),
        ("--algorithm.rhoo 1", "algorithm.rhoo: CDFL has no such setting; did you mean rho?"),
        ("--algorithm.rhoo 1", "flcluster fit --algorithm.help CDFL lists them"),
        ("--algorithm.rh 1", "algorithm.rh: CDFL has no such setting; did you mean rho?"),
        ("--algorithm.init_args.rh 1", "did you mean rho?"),
        ("--data.num_client=3", "did you mean num_clients"),
        ("--model.hiden [3]", "model.hiden: MLP has no such setting; did you mean hidden?"),
        ("--seed 3", "there is no key seed; did you mean seed_everything? flcluster fit --help lists them"),
        ("--algoritm CDFL", "did you mean algorithm?"),
        ("--engine.max_u 3", "there is no key engine.max_u; did you mean max_updates"),
        ("--fabric.precison 16", "did you mean precision?"),
        ("--algorithm.rho abc", "algorithm.rho must be a number, got 'abc'"),
        ("--algorithm.staleness_unit epoch", "must be cycles or epochs, got 'epoch'; did you mean epochs?"),
        ("--engine.progress maybe", "engine.progress must be true or false, got 'maybe'"),
        ("--seed_everything x", "seed_everything must be a whole number"),
        ("--seed_everything -1", "seed_everything must be at least 0, got -1"),
        ("--engine.max_updates -4", "engine.max_updates must be at least 0, got -4"),
        ("--engine.session 0", "engine.session must be at least 1"),
        ("--engine.threads -1", "engine.threads must be at least 1"),
        ("--engine.look_ahead -1", "engine.look_ahead must be at least 0"),
        ("--engine.memory_gb -1", "engine.memory_gb must be at least 0"),
        ("--engine.checkpoint_minutes -1", "engine.checkpoint_minutes must be at least 0"),
        ("--engine.max_time=-1:00:00", "engine.max_time must be HH:MM:SS"),
        ("--fabric.num_nodes -1", "fabric.num_nodes must be at least 1"),
        ("--data.num_clients -3", "fit: data.num_clients must be at least 1, got -3"),
        ("--algorithm.cycles -1", "algorithm.cycles must be positive"),
        (
            "--data.seed 3",
            "data.seed cannot be set: the data are drawn with the run's seed: set seed_everything instead",
        ),
        ("--data.init_args.seed=3", "data.seed cannot be set"),
        ("--model.num_classes 4", "model.num_classes cannot be set: the model is made with the data's num_classes"),
        ("--model.input_shape [1,8,8]", "leave it out, or set data.input_shape"),
    ],
)
def test_flags(argv, said, capsys):
    assert said in refused(capsys, *argv.split())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--algorithm.topology.pp", "1"], "algorithm.topology.pp: ErdosRenyi has no such setting; did you mean p?"),
        (["--algorithm.topology.p", "often"], "algorithm.topology.p must be a number, got 'often'"),
        (["--algorithm.topology", "ErdosReny"], "there is no Topology ErdosReny; did you mean ErdosRenyi?"),
        (["--algorithm.round", "3"], "algorithm.round: DFCA has no such setting; did you mean rounds?"),
    ],
)
def test_parts_of_parts(argv, said, capsys):
    assert said in refused(capsys, *GOSSIP, *argv)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("algorithm: {class_path: CDFL, init_args: {rhoo: 1}}", "a.yaml: algorithm.rhoo: CDFL has no such setting"),
        (
            "data: flcluster.datamodqles.CSV",
            "a.yaml: data: flcluster.datamodqles.CSV cannot be imported (No module named",
        ),
        ("data: flcluster.datamodules.CVS", "a.yaml: data: flcluster.datamodules has no CVS"),
        ("algorithm: {class_path: CDLF}", "a.yaml: algorithm: there is no method CDLF; did you mean CDFL?"),
        ("algorithm: CDLF", "a.yaml: algorithm: there is no method CDLF"),
        ("algorithm: {class_path: CDFL, init_args: {rh: 1}}", "a.yaml: algorithm.rh: CDFL has no such setting"),
        ("seed: 3", "a.yaml: there is no key seed; did you mean seed_everything?"),
        ("engine: {max_u: 3}", "a.yaml: there is no key engine.max_u; did you mean max_updates"),
        ("algoritm: CDFL", "a.yaml: there is no key algoritm; did you mean algorithm?"),
        ("engine: {max_update: 3}", "a.yaml: there is no key engine.max_update; did you mean max_updates"),
        ("engine: {session: often}", "a.yaml: engine.session must be a whole number or null, got 'often'"),
        (
            "algorithm: {class_path: DFCA, init_args: {topology: {class_path: ErdosRenyi, init_args: {pp: 1}}}}",
            "a.yaml: algorithm.topology.pp: ErdosRenyi has no such setting",
        ),
        ("callbacks: [{class_path: EarlyStoping}]", "a.yaml: callbacks[0]: there is no"),
        ("model: {class_pith: MLP}", "a.yaml: model.class_pith: MLP has no such setting"),
        ("algorithm: {class_path: FedAvg, init_args: {server: {class_pa: Average}}}", "a.yaml: algorithm.server: "),
        ("callbacks: [{class_path: EarlyStopping, init_args: {patienc: 3}}]", "callbacks[0].patienc"),
    ],
)
def test_files_are_named(tree, said, capsys):
    Path("a.yaml").write_text(tree)
    Path("over.yaml").write_text("base: a.yaml")
    assert said in refused(capsys, "--config", "a.yaml")
    assert said in refused(capsys, "--config", "over.yaml", "--seed_everything", "3")


def test_what_follows_from_others_is_refused_in_a_file_too(capsys):
    Path("a.yaml").write_text("data: {init_args: {seed: 3}}")
    assert "a.yaml: data.seed cannot be set" in refused(capsys, "--config", "a.yaml")


def test_a_study_names_its_file_and_variant(capsys):
    Path("s.yaml").write_text(f"base: {TINY}\nvariants: {{good: {{}}, bad: {{algorithm: {{init_args: {{rhoo: 1}}}}}}}}")
    assert main(["study", "s.yaml"]) == 2
    err = capsys.readouterr().err
    assert "study s.yaml: variant bad: algorithm.rhoo: CDFL has no such setting; did you mean rho?" in err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("variant: {a: {}}", "there is no key variant; did you mean variants? it has"),
        ("variants: {a: {}}\ntitel: x", "there is no key titel; did you mean title?"),
        (
            "variants: {a: {}}\nfigures: [{kind: lines, tilte: x}]",
            "there is no key figures[0].tilte; did you mean title",
        ),
        ("variants: {a: {}}\nfigures: [{kind: line}]", "figures[0].kind must be lines or difference or"),
        (
            "variants: {a: {}}\ntarget: {variant: a, lst: 3}",
            "there is no key target.lst; did you mean last? it has variant",
        ),
        ("variants: {a: {}}\ntarget: {variant: a, last: many}", "target.last must be a whole number, got 'many'"),
    ],
)
def test_a_study_file_has_its_keys_checked_too(text, said, capsys):
    Path("s.yaml").write_text(f"base: {TINY}\n{text}")
    assert main(["study", "s.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"flcluster study: study s.yaml: {said}") and len(err.splitlines()) == 1


def test_a_script_is_told_the_same():
    with pytest.raises(UserError, match=r"algorithm\.rhoo: CDFL has no such setting; did you mean rho\?"):
        fl.fit(config=TINY, algorithm={"class_path": "CDFL", "init_args": {"rhoo": 1}})


def test_what_is_not_given_is_named(capsys):
    assert main(["fit"]) == 2
    assert "data, model, algorithm not given: add a --config" in capsys.readouterr().err
    assert main(["fit", "--data", "RotatedDigits", "--algorithm", "CDFL"]) == 2
    assert "fit: model not given: add a --config that names them, or --model CLASS\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("AP-FL", "APFL", {}),
        ("FedSoft-Async", "FedSoftAsync", {}),
        ("FedAvg-FT", "FedAvgFT", {}),
        ("q-FedAvg", "QFedAvg", {}),
        ("SCAFFOLD", "Scaffold", {}),
        ("DFCA-GI", "DFCA", {"initialisation": "global"}),
        ("DFCA-LI", "DFCA", {"initialisation": "local"}),
        ("AsyncDFCA-LI", "AsyncDFCA", {"initialisation": "local"}),
        ("CDFL", "CDFL", {}),
        ("mine.AP-FL", "mine.AP-FL", {}),
        ("Nothing-Like-It", "Nothing-Like-It", {}),
    ],
)
def test_names_as_they_are_printed(name, kind, settings):
    assert method_named(name) == (kind, settings)


def test_every_method_answers_to_its_name_in_tables():
    fit_parser()  # loads all of them
    for own, kind in known([Algorithm]).items():
        if kind.__module__.startswith("flcluster.algorithms") and own != "LocalRounds":  # it is Local in rounds
            assert method_named(family(kind().title))[0] == own


def test_printed_names_in_flags_files_and_scripts():
    def algorithm(*argv):
        return yaml.safe_load(plan_fit(["--config", TINY, *argv]).text)["algorithm"]

    assert algorithm("--algorithm", "FedSoft-Async", "--algorithm.rho", "3")["init_args"]["rho"] == 3
    assert algorithm("--algorithm=FedSoft-Async")["class_path"] == "flcluster.algorithms.FedSoftAsync"
    Path("a.yaml").write_text("algorithm: {class_path: DFCA-LI, init_args: {rounds: 7}}")
    assert algorithm("--config", "a.yaml")["init_args"]["initialisation"] == "local"
    assert algorithm("--config", "a.yaml")["init_args"]["rounds"] == 7
    later = algorithm("algorithm=DFCA-LI", "--algorithm.initialisation", "global")
    assert later["init_args"]["initialisation"] == "global"
    run = fl.fit(config=TINY, algorithm="FedSoft-Async", engine={"max_updates": 0, "progress": False})
    assert run.summary["algorithm"] == "FedSoft-Async"


def test_what_is_not_understood_is_still_one_line():
    text = 'Parser key "x":\n  Does not validate against any of the Union subtypes\n  Errors:\n    - no x'
    assert plainer(text) == "x: no x"


def test_what_is_not_understood_is_told_by_its_whole_key(capsys):
    text = 'Parser key "a": Problem with given class_path \'m.B\':\n  Parser key "c":\n    no\nGiven value type: d'
    assert plainer(text) == "a.c: no"
    said = refused(capsys, "--algorithm", "FedAvg", "--algorithm.devices", "TraceDevices")
    assert "algorithm.devices.capacity: TraceDevices needs a value there" in said


def test_a_run_that_was_stopped_says_how_to_go_on(capsys):
    """The command it prints is run as it stands; the run directory has a blank in its name."""
    import shlex

    limits = ["--engine.max_updates", "6", "--engine.progress=true"]
    assert main(["fit", "--config", TINY, "--run_dir", "a run", *limits]) == 0
    said = capsys.readouterr().err.split("go on with: flcluster ")[1].splitlines()[0]
    assert main(shlex.split(said)) == 0
    assert fl.load("a run").summary["status"] == "finished"
