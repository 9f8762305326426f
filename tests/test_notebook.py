"""The notebook in docs/ does what it says, cell by cell in one namespace."""

import ast
import json
import sys
import types
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "docs" / "quickstart.ipynb"


def cells():
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def test_it_is_kept_without_outputs():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells())


def test_its_cells_run_one_after_the_other(monkeypatch, capfd):
    kernel = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", kernel)  # as a kernel's cells are
    scope, shown = kernel.__dict__, []
    for at, cell in enumerate(cells()):
        tree = ast.parse("".join(cell["source"]), f"cell {at}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {at}", "exec"), scope)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), f"cell {at}", "eval"), scope))
    printed, told = capfd.readouterr()
    run, longer = scope["run"], scope["longer"]
    assert abs(run.summary["client_acc_after"] - 0.847) < 0.03 and scope["accuracy"] > 0.85
    assert [each.summary["algorithm"] for each in scope["runs"]] == ["CDFL", "Local"] and " Local " in printed
    assert longer.summary["algorithm"] == "Median" and longer.metrics["epoch"][-1] == 8
    assert longer.summary["client_acc_after"] > 0.5
    assert "Median stands in the script itself" in (longer.dir / "config.yaml").read_text()
    assert "Traceback" not in told and all(path.exists() for path in shown[1])
