"""The tool that puts small faults into the code: what it changes, what it leaves alone, which tests it asks."""

import json
import sys
import types
from pathlib import Path

import mutants
import pytest
from lines import Lines, distance
from mutants import Mutant, drawn, mutants_of
from named import CDFL, UPLOADS, named
from tree import ROOT, Tree, exchanged, module_of
from try_mutants import known, part_of, table, verdict


def becomes(source):
    """What a statement in a function may become."""
    text = f"def f():\n    {source}\n"
    return {mutant.applied(text).splitlines()[1].strip() for mutant in mutants_of("x.py", text)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return a < b", {"return (a <= b)", "return (None)"}),
        ("return a is not b", {"return (a is b)", "return (None)"}),
        ("return a * b", {"return (a / b)", "return (None)"}),
        ("return x[:n]", {"return x[:n + 1]", "return (None)"}),
        ("return a and not b", {"return (a or not b)", "return a and (b)", "return (None)"}),
        ("x = 3", {"x = 4", "pass"}),
        ("x += 0.5", {"x += 1.5", "x -= 0.5", "pass"}),
        ("x: bool = True", {"x: bool = False", "pass"}),
        ("if a: pass", {"if not a: pass"}),
        ("a(b, c, d=e)", {"(a(c, b, d=e))", "(a(b, d=e))", "(a(b, c))", "pass"}),
        ("a.min(x)", {"(a.max)(x)", "pass"}),
        ("[a for a in b if c]", {"[a for a in b if not c]", "pass"}),
        ("raise E from e", {"pass"}),
        ("α = (β + 1)", {"α = ((β - 1))", "α = (β + 2)", "pass"}),
    ],
)
def test_what_a_statement_may_become(source, expected):
    assert becomes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "assert a > 1",
        'x = print("a", 1)',
        'raise UserError(f"{a + 1} is too many", 2)',
        'return f"{a + 1}"',
        "import a",
        "return None",
    ],
)
def test_what_is_said_or_declared_is_left_alone(source):
    assert becomes(source) - {"pass", "return (None)"} == set()


def test_decorators_annotations_and_their_messages_are_left_alone():
    text = '@d(1)\nclass A:\n    x: T[1] = 2\n    """Doc 3."""\n\n    def __str__(self) -> T[4]:\n        return 5\n'
    assert [mutant.what for mutant in mutants_of("x.py", text)] == ["2 → 3"]


def test_faults_of_what_runs_at_import_are_noticed_by_who_uses_it():
    text = "N = 1\n\n\nclass A:\n    x = 2\n\n    def f(self, y=3):\n        return (\n            4\n        )\n"
    found = {mutant.what: mutant.lines for mutant in mutants_of("x.py", text)}
    assert found == {"1 → 2": (1, 11), "2 → 3": (5, 10), "3 → 4": (8, 10), "4 → 5": (8, 9), "4 → None": (8, 9)}


def test_a_seed_draws_the_same_and_every_line_once(monkeypatch):
    monkeypatch.setattr(mutants, "files", lambda: ["algorithms/uploads/cdfl.py", "flcluster/given.py"])
    one, other = drawn(40, 1), drawn(40, 2)
    assert one == drawn(40, 1) != other
    assert len({(mutant.path, mutant.line) for mutant in one}) == len(one) == 40
    for mutant in one:
        source = (ROOT / mutant.path).read_text()
        assert mutant.applied(source) != source
        compile(mutant.applied(source), mutant.path, "exec")


def test_all_methods_and_the_engine_are_mutated():
    found = set(mutants.files())
    assert {"algorithms/uploads/cdfl.py", "flcluster/seeds.py", "flcluster/engine/loops/rounds.py"} <= found
    assert not any(path.startswith(("flcluster/report", "flcluster/cli", "flcluster/script")) for path in found)


def test_a_tree_is_the_code_as_it_is_imported_but_for_one_file(tmp_path):
    tree, path = Tree(tmp_path), "algorithms/uploads/cdfl.py"
    at, whole = tmp_path / "flcluster/algorithms/uploads/cdfl.py", (ROOT / path).read_text()
    assert at.read_text() == whole and tree.original(str(at)) == path
    tree.put(path, "broken")
    assert at.read_text() == "broken" and (ROOT / path).read_text() == whole
    tree.put(path, None)
    assert at.read_text() == whole


def test_an_imported_function_is_exchanged_in_place(monkeypatch):
    """Also a method and a property; what is run at import, and what would lose its class cell, is not."""
    text = "class A:\n    n = 7\n\n    def f(self):\n        return 1\n"
    text += "\n    @property\n    def g(self):\n        return 2\n"
    text += "\n    def __init__(self):\n        super().__init__()\n        self.x = 3\n"
    module = types.ModuleType("flcluster.made_up")
    exec(compile(text, "made_up.py", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "flcluster.made_up", module)
    made, found = module.A(), mutants_of("flcluster/made_up.py", text)
    done = {mutant.what: exchanged(mutant, text) for mutant in found if mutant.kind in ("constant", "statement")}
    assert done == {
        **{"1 → 2": True, "2 → 3": True, "3 → 4": True, "self.x = 3 → pass": True},
        **{"super().__init__() → pass": False, "7 → 8": False},
    }
    assert (made.f(), made.g, made.n) == (2, 3, 7)


def test_the_name_of_a_file():
    assert module_of("algorithms/uploads/__init__.py") == "flcluster.algorithms.uploads"
    assert module_of("flcluster/seeds.py") == "flcluster.seeds"


def mutant_at(line):
    return Mutant("algorithms/uploads/cdfl.py", line, "", "", 0, 0, "", (line, line))


def test_near_tests_that_run_the_line_come_first(tmp_path):
    """Line 7 is run by a far file's first test and the own file's second; the others of both files come after them."""
    code, own, far = "algorithms/uploads/cdfl.py", "tests/algorithms/uploads/test_cdfl.py", "tests/flcluster/test_x.py"
    none = "tests/flcluster/test_y.py"
    tests = {
        far: {f"{far}::a": [0.1, {code: [7]}], f"{far}::b": [0.1, {code: [8]}]},
        none: {f"{none}::e": [0.1, {"flcluster/seeds.py": [7]}]},
        own: {f"{own}::c": [2.0, {code: [3]}], f"{own}::d": [2.0, {code: [7]}]},
    }
    (tmp_path / "m").write_text(json.dumps({path: {"digests": {}, "tests": rows} for path, rows in tests.items()}))
    lines = Lines(tmp_path / "m")
    assert list(lines.tests(mutant_at(7))) == [f"{own}::d", f"{far}::a", f"{own}::c", f"{far}::b"]
    assert list(lines.tests(mutant_at(99))) == [
        f"{own}::c",
        f"{own}::d",
        f"{far}::a",
        f"{far}::b",
    ]  # what runs the file


def test_how_near_a_test_is():
    path = "flcluster/engine/loops/uploads.py"
    near = ("loops/test_uploads.py", "loops/test_rounds.py", "test_fit.py")
    assert [distance(path, f"tests/flcluster/engine/{name}") for name in near] == [0, 1, 2]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], ("caught", "as it is imported (hangs or dies)")),
        ([{"what": "began", "test": "t"}], ("caught", "t (hangs or dies)")),
        (
            [{"what": "began", "test": "t"}, {"what": "failed", "test": "t"}],
            ("caught", "t"),
        ),
        ([{"what": "began", "test": "t"}, {"what": "ended"}], ("survived", "1 tests pass")),
    ],
)
def test_what_became_of_a_mutant(told, expected):
    assert verdict(told) == expected


def test_the_table_counts_by_part():
    found = [(mutant_at(1), "caught"), (mutant_at(2), "survived"), (mutant_at(3), "equivalent")]
    assert table(found).splitlines()[2:] == ["| algorithms/uploads | 3 | 1 | 1 | 1 |", "| all | 3 | 1 | 1 | 1 |"]
    assert part_of("flcluster/seeds.py") == "flcluster"


def test_equivalent_mutants_are_few_and_have_a_reason():
    assert len(known()) <= 6
    assert all(len(why) > 10 and (Path(ROOT) / path).exists() for (path, _), why in known().items())


def test_faults_of_old_still_fit_the_code():
    assert {mutant.path for mutant in named()} >= {CDFL, UPLOADS}
