"""A folder of gathered runs and the claims they are held against: whatever a page may say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flcluster.errors import UserError
from flcluster.records.columns import Column
from flcluster.records.columns import column as described
from flcluster.report.claims.claim import Judged, judge, read_claims
from flcluster.report.claims.grids import claims_text, counts_grid
from flcluster.report.gathered.studies import Gathered, mean_and_deviation
from flcluster.report.paper_tables import read_table
from flcluster.report.printed import beside, notes
from flcluster.report.tables import Grid, markdown

CLAIMS = "claims"
NONE = "–"


@dataclass(frozen=True)
class Results:
    """A folder of gathered runs, with the claims that they are held against; its methods are a template's words."""

    folder: Path

    @cached_property
    def papers(self) -> Mapping[str, Sequence[Judged]]:
        """Every paper's claims with what was found, by the name of the paper."""
        files = sorted((self.folder / CLAIMS).glob("*.yaml"))
        if not files:
            raise UserError(f"{self.folder / CLAIMS} has no file of claims: give the folder results of a checkout")
        told = dict(read_claims(path) for path in files)
        return {paper: [judge(claim, self.studies.get) for claim in claims] for paper, claims in told.items()}

    @cached_property
    def studies(self) -> Mapping[str, Gathered]:
        """The gathered runs of every study, by its name."""
        return {path.stem: Gathered(path) for path in self.folder.glob("*.csv")}

    def study(self, name: str) -> Gathered:
        """Return the gathered runs of a study that must be there."""
        if name not in self.studies:
            path = self.folder / f"{name}.csv"
            raise UserError(f"{path} is missing: flcluster gather RUNS --output {path} writes it")
        return self.studies[name]

    # what a template may say ------------------------------------------------------------------------------------

    def has(self, study: str, *variants: str) -> bool:
        """Say whether a study's runs are there, and among them some of each variant."""
        return study in self.studies and set(variants) <= set(self.studies[study].variants)

    def value(self, study: str, variant: str, column: str) -> str:
        """Return a number of a variant, mean ± standard deviation over seeds."""
        values = self.study(study).values(variant, column)
        return described(column).text(*mean_and_deviation(values), runs=len(values)) or NONE

    def gap(self, study: str, first: str, second: str, column: str) -> str:
        """Return how many points one variant is above another, seed by seed."""
        ours, theirs = self.study(study).values(first, column), self.study(study).values(second, column)
        gaps = {seed: 100 * (ours[seed] - theirs[seed]) for seed in set(ours) & set(theirs)}
        mean, deviation = mean_and_deviation(gaps)
        return f"{mean:+.1f}" + (f" ±{deviation:.1f}" if len(gaps) > 1 else "") if gaps else NONE

    def printed(self, table: str, column: str, **line: str) -> str:
        """Return a number of a paper's table, of the one line that has these cells; a share where it has per cent."""
        found = [row for row in read_table(table) if line.items() <= row.items()]
        if len(found) != 1:
            raise UserError(f"{len(found)} lines of the paper's table {table} have {line}: one was asked for")
        return f"{float(found[0][column]) / 100:.3f}" if column.endswith("_pct") else found[0][column]

    def table(
        self,
        study: str,
        *columns: str,
        only: Sequence[str] = (),
        against: str = "",
        paper: Mapping[str, str] | None = None,
    ) -> str:
        """Return a study's table as Markdown: a line a variant, what papers print beside, below it what ran.

        Args:
            study: The study; where none of it has run, the table says so.
            columns: What to show; the first is the one that is compared.
            only: The variants to show, in this order, without those that have not run; all if not given.
            against: A variant that others are compared with, in points.
            paper: What a paper says of some variants, where none of its tables is about them.
        """
        told = self.studies.get(study)
        names = [name for name in only or told.variants if name in told.variants] if told else []
        if told is None or not names:
            return f"*Not run yet: `results/{study}.csv`.*"
        ours: dict[Column, list[str]] = {}
        for column in columns:
            ours[described(column)] = [self.value(study, name, column) for name in names]
            if column == columns[0] and against in names:
                shown = Column("against", f"Against {against}, points".replace("_", " "))
                ours[shown] = ["" if name == against else self.gap(study, name, against, column) for name in names]
        printed = [[row for row in told.printed(name) if row.metric in columns] for name in names]
        leads = [{"variant": name.replace("_", " "), "seeds": str(len(told.seeds(name)))} for name in names]
        others = [{"paper": (paper or {}).get(name, "")} for name in names]
        lines = zip(leads, beside(ours, printed), others, strict=True)
        caption = told.made_by(names) + notes(row for rows in printed for row in rows)
        return markdown(Grid("", [{**lead, **line, **other} for lead, line, other in lines], caption, empty=("", NONE)))

    def claims(self, paper: str) -> str:
        """Return a paper's claims as Markdown, and below them why some do not hold."""
        if paper not in self.papers:
            raise UserError(f"{self.folder / CLAIMS} has no claims of {paper!r}: it has {', '.join(self.papers)}")
        return claims_text(self.papers[paper])

    def counts(self, examples: bool = False) -> str:
        """Return how many claims hold, a line a paper, with the first that was tried where examples are asked for."""
        return markdown(counts_grid(self.papers, examples))
