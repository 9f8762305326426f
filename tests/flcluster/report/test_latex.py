"""Tables for papers."""

from flcluster.report.latex import latex, write_latex
from flcluster.report.tables import Grid

GRID = Grid(
    "A_table", [{"Method": "CDFL, ρ = .01", "Acc": "0.8 ±0.1", "Δ": "-0.2"}, {"Method": "50 %", "Δ": "+.1"}], "Of a & b"
)


def test_booktabs_with_numbers_to_the_right_and_nothing_that_latex_takes_for_a_command():
    assert latex(GRID, "one").splitlines() == [
        r"\begin{table}",
        r"  \centering",
        r"  \caption{A\_table. Of a \& b}",
        r"  \label{tab:one}",
        r"  \begin{tabular}{lrr}",
        r"    \toprule",
        r"    Method & Acc & $\Delta$ \\",
        r"    \midrule",
        r"    CDFL, $\rho$ = .01 & 0.8 $\pm$0.1 & $-$0.2 \\",
        r"    50 \% &  & +.1 \\",
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def test_a_wide_table_is_scaled_to_the_text():
    lines = latex(Grid("Wide", [{f"c{i}": str(i) for i in range(9)}]), "wide").splitlines()
    assert lines[4] == r"  \resizebox{\linewidth}{!}{%" and lines[-3:] == [r"  \end{tabular}", "  }", r"\end{table}"]
    assert "resizebox" not in latex(Grid("Not so", [{f"c{i}": str(i) for i in range(8)}]), "not_so")


def test_several_tables_in_one_file(tmp_path):
    write_latex([GRID, Grid("Other", GRID.rows)], tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text()
    assert text.startswith("% needs") and text.count(r"\toprule") == 2 and r"\label{tab:other}" in text
