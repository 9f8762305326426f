"""Small faults in the code that the tests are to guard, drawn by seed: a sign, a bound, a lost statement.

Docstrings, annotations, decorators, assertions and what is said (errors, warnings, ``__str__``) are left alone.
"""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = (
    "algorithms",
    *(f"flcluster/{name}.py" for name in ("errors", "files", "given", "score", "seeds")),
    *(f"flcluster/{name}" for name in ("data", "clustering", "topology", "devices", "federation", "records")),
    *("flcluster/protocol", "flcluster/engine"),
)
"""What is mutated: all methods and the engine, without what only shows (report, cli, script)."""

COMPARED = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
COUNTED = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_PAIRS = (("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("sum", "mean"), ("any", "all"))
TWINS = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
SAYS = {"print", "warn", "warning", "info", "debug", "cast", "TypeVar", "lru_cache", "kill", "killpg"}
"""Calls whose arguments are left alone: what is only said or declared, and signals, which would hit others."""
DELETED = (ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True)
class Mutant:
    """One fault: the bytes from ``start`` to ``end`` of a file become ``text``."""

    path: str
    line: int
    kind: str
    what: str
    start: int
    end: int
    text: str
    lines: tuple[int, int]
    """Lines of which a test that may notice runs one."""

    def applied(self, source: str) -> str:
        """Return the file with the fault in it."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()


def called(node: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_said(node: ast.AST) -> bool:
    """Whether this is a call that makes a message, or declares."""
    return isinstance(node, ast.Call) and (called(node) in SAYS or called(node).endswith(("Error", "Warning")))


def expressions(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield what an expression may become: the kind of fault, the node that is replaced, and by what."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in COMPARED:
            yield "comparison", node, ast.Compare(left, [COMPARED[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in COUNTED and not _text(left) and not _text(right):
            yield "arithmetic", node, ast.BinOp(left, COUNTED[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in COUNTED and not _text(value):
            yield "arithmetic", node, ast.AugAssign(target, COUNTED[type(op)](), value)
        case ast.UnaryOp(ast.Not() | ast.USub() as op, operand):
            yield ("condition" if isinstance(op, ast.Not) else "arithmetic"), node, operand
        case ast.BoolOp(op, values):
            yield "condition", node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant(bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield "constant", node, ast.Constant(value + 1)
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            yield "condition", test, ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=tests):
            yield from (("condition", test, ast.UnaryOp(ast.Not(), test)) for test in tests)
        case ast.Slice(lower, upper):
            for bound in (lower, upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    yield "slice", bound, ast.BinOp(bound, ast.Add(), ast.Constant(1))
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", value, ast.Constant(None)
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    func, args, keywords = node.func, node.args, node.keywords
    if called(node) in TWINS:
        twin = TWINS[called(node)]
        yield "twin", func, ast.Attribute(func.value, twin) if isinstance(func, ast.Attribute) else ast.Name(twin)
    if len(args) > 1 and not any(isinstance(arg, ast.Starred) for arg in args[:2]):
        yield "argument", node, ast.Call(func, [args[1], args[0], *args[2:]], keywords)
        yield "argument", node, ast.Call(func, args[:-1], keywords)
    for i, keyword in enumerate(keywords):
        if keyword.arg is not None:
            yield "argument", node, ast.Call(func, args, keywords[:i] + keywords[i + 1 :])


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


class Finder(ast.NodeVisitor):
    """Goes through a file and keeps its mutants."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.raw = path, source.encode()
        self.offsets = [0]
        for line in self.raw.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.found: list[Mutant] = []
        self.inside: list[ast.AST] = []
        self.statement: ast.stmt | None = None
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        """Note what a node may become and go on to those in it."""
        if is_said(node) or isinstance(node, ast.JoinedStr) or self._declares(node):
            return
        before = self.statement
        self.statement = node if isinstance(node, ast.stmt) else before
        for kind, old, new in expressions(node):
            self._keep(kind, old, ast.unparse(ast.fix_missing_locations(new)))
        if self._may_go(node):
            self._keep("statement", node, "pass")
        self._go_on(node)
        self.statement = before

    def _declares(self, node: ast.AST) -> bool:
        switch = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        alias = isinstance(node, ast.Assign) and not self.inside and isinstance(node.value, ast.BinOp | ast.List)
        shows = isinstance(node, ast.FunctionDef) and node.name in ("__str__", "__repr__")
        return switch or alias or shows or isinstance(node, ast.Import | ast.ImportFrom | ast.Assert)

    def _may_go(self, node: ast.AST) -> bool:
        done = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant) and not is_said(node.value)
        named = isinstance(node, ast.AnnAssign) and node.value is not None
        inside = bool(self.inside) and isinstance(self.inside[-1], ast.FunctionDef)
        return inside and (done or named or isinstance(node, DELETED))

    def _go_on(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.inside.append(node)
            defaults = [*node.args.defaults, *node.args.kw_defaults] if isinstance(node, ast.FunctionDef) else []
            for part in (*defaults, *node.body):
                if part is not None:
                    self.visit(part)
            self.inside.pop()
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
        else:
            self.generic_visit(node)

    def _keep(self, kind: str, old: ast.AST, new: str) -> None:
        start = self.offsets[old.lineno - 1] + old.col_offset
        end = self.offsets[old.end_lineno - 1] + old.end_col_offset
        new = f"({new})" if isinstance(old, ast.expr) and not isinstance(old, ast.Constant | ast.Name) else new
        was = " ".join(self.raw[start:end].decode().split())
        self.found.append(Mutant(self.path, old.lineno, kind, f"{was} → {new}", start, end, new, self._noticed(old)))

    def _noticed(self, node: ast.AST) -> tuple[int, int]:
        """What is run as a file is imported is noticed by who uses what it belongs to."""
        owner = self.inside[-1] if self.inside else None
        if isinstance(owner, ast.FunctionDef) and self.statement is not owner:
            return self.statement.lineno, node.lineno
        return (owner.lineno + 1, owner.end_lineno) if owner else (1, self.raw.count(b"\n") + 1)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a file, in order."""
    return Finder(path, source).found


def files() -> list[str]:
    """Return the files that are mutated, as paths in the repository."""
    places = [ROOT / part for part in PARTS]
    found = [path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def drawn(count: int, seed: int) -> list[Mutant]:
    """Draw mutants: each from another line, uniformly over all files; on a line a kind, and then one of that kind."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for path in files():
        for mutant in mutants_of(path, (ROOT / path).read_text()):
            lines.setdefault((path, mutant.line), []).append(mutant)
    draw = random.Random(seed)
    chosen: list[Mutant] = []
    for line in draw.sample(sorted(lines), len(lines)):
        kind = draw.choice(sorted({mutant.kind for mutant in lines[line]}))
        mutant = draw.choice([mutant for mutant in lines[line] if mutant.kind == kind])
        if len(chosen) < count and compiles(mutant):
            chosen.append(mutant)
    return chosen


def compiles(mutant: Mutant) -> bool:
    """Whether the file is still Python."""
    try:
        compile(mutant.applied((ROOT / mutant.path).read_text()), mutant.path, "exec")
    except SyntaxError:
        return False
    return True
