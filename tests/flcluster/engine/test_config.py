"""Configs that are laid over others: which files, in which order, and what is refused."""

from pathlib import Path

import pytest
import yaml

from flcluster.cli import main
from flcluster.engine.config import plan_fit
from flcluster.engine.layers import layers
from flcluster.engine.resume import named_after
from flcluster.errors import UserError

TINY = Path(__file__).parents[2] / "tiny.yaml"


def write(name, **tree):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(yaml.safe_dump(tree, sort_keys=False))


def of_method(**settings):
    return {"algorithm": {"init_args": settings}}


def test_flags_win_over_the_file_and_the_file_over_its_bases():
    write("below/a.yaml", base=str(TINY), seed_everything=1, **of_method(rho=0.1, beta0=0.1, c1=0.1, c2=0.1))
    write("below/b.yaml", **of_method(beta0=0.2, c1=0.2, c2=0.2))
    write("top.yaml", base=["below/a.yaml", "below/b.yaml"], **of_method(c1=0.3, c2=0.3))
    plan = plan_fit(["--config=top.yaml", "--algorithm.c2", "0.4"])
    found = yaml.safe_load(plan.text)
    said = found["algorithm"]["init_args"]
    assert (said["rho"], said["beta0"], said["c1"], said["c2"], said["cycles"]) == (0.1, 0.2, 0.3, 0.4, 5)
    assert found["seed_everything"] == 1 and "base" not in found and plan.run_dir.parent == Path("runs/top")


def test_every_file_is_laid_once_below_all_that_name_it():
    write("d.yaml")
    write("b.yaml", base="d.yaml")
    write("c.yaml", base=["d.yaml"])
    write("a.yaml", base=["b.yaml", "c.yaml"])
    assert [str(path) for path in layers(Path("a.yaml"))] == ["d.yaml", "b.yaml", "c.yaml", "a.yaml"]


def test_another_class_keeps_what_both_have():
    write("a.yaml", base=str(TINY), algorithm="FedBuff")
    said = yaml.safe_load(plan_fit(["--config", "a.yaml"]).text)["algorithm"]
    assert said["class_path"].endswith("FedBuff") and said["init_args"]["cycles"] == 5
    assert "beta0" not in said["init_args"]


def test_what_a_run_of_it_writes_is_whole():
    write("deep/a.yaml", base=str(TINY), **of_method(cycles=1))
    assert main(["fit", "--config", "deep/a.yaml", "--run_dir", "run"]) == 0
    kept = yaml.safe_load(Path("run/config.yaml").read_text())
    assert "base" not in kept and kept["algorithm"]["init_args"]["cycles"] == 1 and kept["data"]["class_path"]
    assert main(["fit", "--config", "deep/a.yaml", "--run_dir", "run", "--ckpt_path", "last"]) == 0


@pytest.mark.parametrize("command", ["fit", "data", "drift"])
@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"base": "gone.yaml"}, "gone.yaml (base of a.yaml) cannot be read"),
        ({"base": "b.yaml"}, "--config a.yaml: base goes round in a circle: a.yaml > b.yaml > ./a.yaml"),
        ({"base": {"x": 1}}, "--config a.yaml: base must be a file or a list of files"),
        ({"base": [1]}, "got [1]"),
    ],
)
def test_broken_bases_are_named(command, tree, says, capsys):
    write("a.yaml", **tree)
    Path("b.yaml").write_text("base: ./a.yaml\n")
    assert main([command, "--config", "a.yaml"]) == 2
    assert says.replace("./", "") in capsys.readouterr().err


def test_a_base_that_is_no_yaml_is_named():
    Path("bad.yaml").write_text("a: [")
    write("a.yaml", base="bad.yaml")
    with pytest.raises(UserError, match=r"bad.yaml \(base of a.yaml\) cannot be read"):
        layers(Path("a.yaml"))


def test_runs_are_named_after_the_paper_too():
    Path("configs/dfca/studies").mkdir(parents=True)
    names = ("my.yaml", "configs/my.yaml", "configs/dfca/digits.yaml", "configs/dfca/studies/table1.yaml")
    assert [named_after(Path(name)) for name in names] == ["my", "my", "dfca_digits", "dfca_table1"]
