"""Tables for papers: LaTeX with booktabs."""

import re
from collections.abc import Iterable
from pathlib import Path

from flcluster.errors import harmless
from flcluster.files import replacing, slug
from flcluster.report.tables import Grid

SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "<": "$<$", ">": "$>$", "→": r"$\to$", "…": r"\ldots{}"},
    **{"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "Δ": r"$\Delta$", "η": r"$\eta$"},
    **{"θ": r"$\theta$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$"},
}

WIDE = 8
"""More columns than that are scaled down to the width of the text, where they would run off the page."""


def escaped(text: str) -> str:
    r"""Return text as LaTeX sets it.

    >>> escaped("CDFL, ρ = 0.1 & 75 %")
    'CDFL, $\\rho$ = 0.1 \\& 75 \\%'
    """
    return "".join(SIGNS.get(sign, sign) for sign in re.sub(r"(?<!\w)-(?=\.?\d)", "−", harmless(text)))


def latex(grid: Grid, label: str) -> str:
    """Return a table and its caption as a LaTeX float; the document needs booktabs and graphicx."""
    heads = grid.heads
    fit, close = ("  \\resizebox{\\linewidth}{!}{%", "  }") if len(heads) > WIDE else ("", "")
    numbers = [any(re.match(r"[-+]?\.?\d", cell) for cell in grid.cells(head)) for head in heads]
    sides = "".join("r" if right and at else "l" for at, right in enumerate(numbers))
    rows = [[escaped(row.get(head, "")) for head in heads] for row in grid.rows]
    lines = [
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{escaped(grid.title)}. {escaped(grid.caption)}}}",
        f"  \\label{{tab:{label}}}",
        fit,
        f"  \\begin{{tabular}}{{{sides}}}",
        "    \\toprule",
        f"    {' & '.join(map(escaped, heads))} \\\\",
        "    \\midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        close,
        "\\end{table}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def write_latex(grids: Iterable[Grid], path: Path) -> None:
    """Write tables into one file that a paper takes in by ``\\input``."""
    tables = [latex(grid, slug(grid.title).lower()) for grid in grids]
    with replacing(path) as temporary:
        temporary.write_text("\n".join(["% needs \\usepackage{booktabs,graphicx}", *tables]), encoding="utf-8")
