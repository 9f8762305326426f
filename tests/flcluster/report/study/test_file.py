"""Study files: what they say, and what is wrong with them in one message."""

from pathlib import Path

import pytest
import yaml

from flcluster.errors import UserError
from flcluster.report.study.file import Picture, Target, read_study

GOOD = {
    "title": "A figure",
    "base": "base.yaml",
    "variants": {"FIELDING": {"algorithm": "Fielding"}, "Global": {"algorithm": "FedAvg"}, 1.5: None},
    "target": "Global",
    "figures": [
        {"kind": "lines", "x": "time", "y": "client_acc", "target": True, "file": "acc"},
        {"kind": "difference", "of": ["FIELDING", "Global"], "y": "client_acc"},
        {"kind": "sizes"},
    ],
    "table": ["client_acc", "tta"],
    "paper": "fielding_table6_m",
}


def read(**changes):
    Path("base.yaml").touch()
    Path("s.yaml").write_text(yaml.safe_dump({**GOOD, **changes}, sort_keys=False))
    return read_study(Path("s.yaml"))


def test_a_study_is_read_as_written():
    study = read()
    assert study.title == "A figure"
    assert study.common == {} and read(common={"data": {"a": 1}}).common == {"data": {"a": 1}}
    assert study.base == (Path("base.yaml"),)
    assert study.variants == {"FIELDING": {"algorithm": "Fielding"}, "Global": {"algorithm": "FedAvg"}, "1.5": {}}
    assert study.target == Target(variant="Global", last=5, x="time", y="client_acc")
    assert study.figures[0] == Picture("lines", "time", "client_acc", target=True, file="acc")
    assert study.figures[1].of == ("FIELDING", "Global")
    assert [picture.name for picture in study.figures] == ["acc", "difference_client_acc_over_epoch", "sizes"]
    assert (study.table, study.paper) == (("client_acc", "tta"), ("fielding_table6_m",))


def test_a_figure_against_a_setting_is_named_by_both():
    variants = {name: {"data": {"init_args": {"size": int(name[-1])}}} for name in ("A 1", "A 2")}
    figures = [{"kind": "against", "x": "data.init_args.size", "y": y} for y in ("purity", ["client_acc", "purity"])]
    study = read(variants={**variants, "B": {}}, target=None, table=[], figures=figures)
    assert [figure.name for figure in study.figures] == ["purity_against_size", "client_acc_purity_against_size"]


def test_bases_are_found_beside_the_file():
    Path("deep/studies").mkdir(parents=True)
    Path("deep/a.yaml").touch()
    Path("deep/studies/b.yaml").touch()
    Path("deep/studies/s.yaml").write_text("{base: [../a.yaml, b.yaml], variants: {A: {}}}")
    study = read_study(Path("deep/studies/s.yaml"))
    assert [path.resolve() for path in study.base] == [
        Path("deep/a.yaml").resolve(),
        Path("deep/studies/b.yaml").resolve(),
    ]
    assert (study.title, study.target, study.figures, study.table) == ("s", None, (), ())


def test_a_target_sets_its_own_and_the_others():
    target = read(target={"variant": "Global", "baselines": {"1.5": "FIELDING"}, "last": 2, "x": "epoch"}).target
    assert (target.last, target.x) == (2, "epoch")
    assert [target.of(name) for name in ("Global", "1.5", "FIELDING")] == ["Global", "FIELDING", "FIELDING"]
    only_pairs = read(target={"baselines": {1.5: "FIELDING"}}).target
    assert [only_pairs.of(name) for name in ("Global", "1.5", "FIELDING")] == [None, "FIELDING", "FIELDING"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"titel": "x"}, r"there is no key titel; did you mean title\?"),
        ({"variants": None}, r"variants or matrix must name settings"),
        ({"base": None}, r"base: variant FIELDING is laid over no config"),
        ({"common": ["data"]}, r"common must be a dict, got \[.data.\]"),
        ({"base": "gone.yaml"}, r"base: there is no file gone.yaml"),
        ({"base": {"a": 1}}, r"base must be .*, got .*{.a.: 1}"),
        ({"variants": ["A", "B"]}, r"variants must be a dict, got \[.A., .B.\]"),
        (
            {"variants": {"Global": {}, "FIELDING": "Fielding"}},
            r"variants(\.FIELDING)? must be .*Fielding",
        ),
        ({"variants": {"Global": {}, "FIELDING": {}, "a+b": {}, "a b": {}}}, r"a\+b, a b would share one directory"),
        ({"variants": {"Global": {}, "FIELDING": {}, "A-seed1": {}}}, r"'A-seed1' gives no directory name"),
        ({"variants": {"Global": {}, "FIELDING": {}, "+": {}}}, r"'\+' gives no directory name"),
        ({"target": "Globul"}, r"target.variant: there is no variant Globul; there are FIELDING, Global, 1.5"),
        ({"target": {"variant": "Global", "rows": 3}}, r"there is no key target\.rows; it has variant"),
        ({"target": {"variant": "Global", "last": 0}}, r"target.last .* got 0"),
        ({"target": {"last": 3}}, r"target needs variant"),
        ({"target": {"baselines": ["Global"]}}, r"target.baselines must be a dict"),
        ({"target": {"baselines": {"FIELDING": "Globul"}}}, r"target.baselines: there is no variant Globul"),
        ({"target": None}, r"tta need a target"),
        ({"target": None, "table": [], "figures": [{"kind": "lines", "target": True}]}, r"target: true needs a target"),
        ({"target": None, "table": [], "figures": [{"kind": "bars", "y": "gain"}]}, r"gain need a target"),
        ({"figures": {"kind": "lines"}}, r"figures: Expected a <class .tuple.>"),
        ({"figures": ["lines"]}, r"figures: each must be a mapping with a kind, got 'lines'"),
        ({"figures": [{"kind": "sizes"}, {"x": "time"}]}, r"figures.kind is missing: of what kind is {'x': 'time'}"),
        ({"figures": [{"kind": None}]}, r"figures.kind is missing"),
        ({"figures": [{"kind": "pie"}]}, r"figures\[0\].kind must be .*lines.*, got .?pie"),
        ({"figures": [{"kind": "lines", "colour": "red"}]}, r"there is no key figures\[0\]\.colour; it has"),
        ({"figures": [{"kind": "lines", "of": ["Globul"]}]}, r"figures\[0\].of: there is no variant Globul"),
        ({"figures": [{"kind": "difference", "of": ["Global"]}]}, r"a difference needs of: \[A, B\]"),
        ({"figures": [{"kind": "bars", "y": ["a", "b"]}]}, r"kind bars takes one y, got a, b"),
        ({"target": None, "table": [], "figures": [{"kind": "against", "y": "gain"}]}, r"gain need a target"),
        ({"figures": [{"kind": "sizes"}, {"kind": "against"}]}, r"figures\[1\].x: no variant sets epoch; .*topology.p"),
        (
            {"figures": [{"kind": "against", "x": "algorithm.rounds"}]},
            r"figures\[0\].x: no variant sets algorithm.rounds",
        ),
        (
            {"figures": [{"kind": "against", "x": "algorithm"}]},
            r"algorithm is 'Fielding' in variant 'FIELDING', not a num",
        ),
        ({"figures": [{"kind": "against", "by": "algorithm"}]}, r"there is no key figures\[0\]\.by; did you mean y\?"),
        ({"figures": [{"kind": "sizes"}, {"kind": "sizes"}]}, r"sizes would be written twice"),
        ({"paper": "table6"}, r"paper: there is no table table6; choose of .*fielding_table6_m"),
    ],
)
def test_mistakes_are_named(changes, says):
    with pytest.raises(UserError, match=rf"(?s)study s.yaml: .*{says}"):
        read(**changes)


@pytest.mark.parametrize(
    ("text", "says"), [("variants: [unclosed", "cannot be read"), ("- a\n- b", "must be a mapping")]
)
def test_what_is_no_study_is_named(text, says):
    Path("bad.yaml").write_text(text)
    with pytest.raises(UserError, match=rf"study bad.yaml.*{says}"):
        read_study(Path("bad.yaml"))
    with pytest.raises(UserError, match=r"study none.yaml cannot be read"):
        read_study(Path("none.yaml"))


def test_a_matrix_is_the_product_of_its_axes_before_spelled_out_variants():
    matrix = {
        "method": {"A": {"algorithm": "FedAvg"}, "B": None},
        "pixels": {"": {}, "raw": {"data": {"init_args": {"normalise": False}}}},
        "α = data.partition.alpha": [0.1, 1],
    }
    study = read(matrix=matrix, variants={"C": {"seed_everything": 4}}, target=None, table=[], figures=[])
    assert list(study.variants) == [
        *("A, α = 0.1", "A, α = 1", "A, raw, α = 0.1", "A, raw, α = 1"),
        *("B, α = 0.1", "B, α = 1", "B, raw, α = 0.1", "B, raw, α = 1"),
        "C",
    ]
    partition = {"partition": {"init_args": {"alpha": 1}}}
    assert study.variants["A, raw, α = 1"] == {
        "algorithm": "FedAvg",
        "data": {"init_args": {"normalise": False, **partition}},
    }
    assert study.variants["B, α = 1"] == {"data": {"init_args": partition}} and study.variants["C"]
    assert [layer.label for layer in study.layers["A, raw, α = 1"]] == ["A", "raw", "α = 1"]


def test_several_matrices_and_bases_of_their_entries():
    Path("x.yaml").touch()
    axis = {"data": {"X": {"base": "x.yaml", "seed_everything": 1}}}
    several = [axis | {"engine.session": [2]}, axis | {"method": {"M": {}}}]
    study = read(base=None, matrix=several, variants=None, target=None, table=[], figures=[])
    assert study.variants == {
        "X, session = 2": {"seed_everything": 1, "engine": {"session": 2}},
        "X, M": {"seed_everything": 1},
    }
    assert study.base == () and study.layers["X, M"][0].base == (Path("x.yaml"),)


def test_figures_take_labels_of_the_matrix_in_the_order_asked():
    matrix = {"method": {"A": {}, "B": {}}, "engine.session": [1, 2]}
    figures = [
        {"kind": "difference", "of": ["B, session = 1", "A, session = 1"]},
        {"kind": "sizes", "of": "session = 2"},
    ]
    study = read(matrix=matrix, variants=None, target=None, table=[], figures=figures)
    assert study.figures[0].of == ("B, session = 1", "A, session = 1")
    assert study.figures[1].of == ("A, session = 2", "B, session = 2")


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        ({"method": {}}, r"axis method has no entries"),
        ({"method": "A"}, r"matrix must be "),
        ({"method": ["FedAvg", "IFCA"]}, r"axis method has a list: call it by the setting's path"),
        ({"a": {"": {}, "x": {}}, "b": {"": {}, "x": {}}}, r"two variants are called 'x'"),
        ({"a": {"A": {"base": "gone.yaml"}}}, r"base: there is no file gone.yaml"),
    ],
)
def test_mistakes_in_a_matrix_are_named(matrix, says):
    with pytest.raises(UserError, match=rf"(?s)study s.yaml: .*{says}"):
        read(matrix=matrix, target=None, table=[], figures=[])
