"""The page of results, made from gathered runs, claims and a template that has the words but none of the numbers."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from flcluster.errors import UserError
from flcluster.files import replacing
from flcluster.records.columns import column as described
from flcluster.report.claims.claim import Judged, judge, read_claims
from flcluster.report.claims.pictures import curves_picture
from flcluster.report.gathered.curves import path_beside
from flcluster.report.gathered.studies import Gathered, mean_and_deviation
from flcluster.report.style import save
from flcluster.report.tables import Grid, markdown

CLAIMS = "claims"
PLAIN = "—"


@dataclass(frozen=True)
class Results:
    """A folder of gathered runs, with the claims that they are held against."""

    folder: Path

    def papers(self) -> dict[str, list[Judged]]:
        """Return every paper's claims with what was found, by the name of the paper."""
        files = sorted((self.folder / CLAIMS).glob("*.yaml"))
        if not files:
            raise UserError(f"{self.folder / CLAIMS} has no file of claims: give the folder results of a checkout")
        told = dict(read_claims(path) for path in files)
        return {paper: [judge(claim, self.folder) for claim in claims] for paper, claims in told.items()}

    def study(self, name: str) -> Gathered:
        """Return the gathered runs of a study."""
        path = self.folder / f"{name}.csv"
        if not path.exists():
            raise UserError(f"{path} is missing: flcluster gather RUNS --output {path} writes it")
        return Gathered(path)

    # what a template may say ------------------------------------------------------------------------------------

    def value(self, study: str, variant: str, column: str) -> str:
        """Return a number of a variant, mean ± standard deviation over seeds."""
        values = self.study(study).values(variant, column)
        return described(column).text(*mean_and_deviation(values), runs=len(values)) or PLAIN

    def gap(self, study: str, first: str, second: str, column: str, other: str = "") -> str:
        """Return how many points one variant is above another (or above its ``other`` column)."""
        ours, theirs = self.study(study).values(first, column), self.study(study).values(second, other or column)
        gaps = {seed: 100 * (ours[seed] - theirs[seed]) for seed in set(ours) & set(theirs)}
        mean, deviation = mean_and_deviation(gaps)
        if not gaps:
            return PLAIN
        return f"{mean:+.1f}" + (f" ±{deviation:.1f}" if len(gaps) > 1 else "")

    def seeds(self, study: str) -> str:
        """Say how many seeds there are of each variant."""
        counts = Counter(variant for variant, _ in self.study(study).rows)
        few, many = min(counts.values()), max(counts.values())
        words = "one seed" if many == 1 else f"{many} seeds"
        return words if few == many else f"{few} to {words}"

    def commits(self, study: str) -> str:
        """Name the commits that made a study's runs."""
        return ", ".join(self.study(study).commits)

    def table(
        self, study: str, *columns: str, only: Sequence[str] = (), printed: Mapping[str, str] | None = None
    ) -> str:
        """Return a study's table as Markdown, a line a variant; ``printed`` is what the paper has for some of them."""
        told, lines = self.study(study), []
        for variant in only or told.variants:
            line = {"variant": variant, "seeds": str(len([1 for name, _ in told.rows if name == variant]))}
            line |= {described(name).title: self.value(study, variant, name) for name in columns}
            lines.append(line | ({"paper": printed.get(variant, "")} if printed else {}))
        return markdown(Grid("", lines, empty=("", PLAIN)))

    def claims(self, paper: str) -> str:
        """Return a paper's claims as Markdown, and below them why some do not hold."""
        told = self.papers()
        if paper not in told:
            raise UserError(f"{self.folder / CLAIMS} has no claims of {paper!r}: it has {', '.join(told)}")
        return claims_text(told[paper])

    def counts(self) -> str:
        """Return how many claims hold, a line a paper."""
        return markdown(counts_grid(self.papers()))


def claims_grid(found: Sequence[Judged]) -> Grid:
    """Return claims as a table."""
    rows = []
    for at, each in enumerate(found, start=1):
        claim = each.claim
        rows.append(
            {
                "#": str(at),
                "claim": claim.says,
                "in the paper": claim.source,
                "tried on": claim.setting,
                "paper": claim.paper,
                "ours": each.ours,
                "verdict": each.found.text,
                "seeds": str(each.found.seeds or ""),
                "study": claim.study if each.found.seeds else "",
            }
        )
    return Grid("", rows)


def claims_text(found: Sequence[Judged]) -> str:
    """Return claims as Markdown with reasons and costs below."""
    notes = []
    for at, each in enumerate(found, start=1):
        if each.found.verdict in ("does not hold", "not settled", "seen against"):
            notes.append(f"- {at}, {each.found.text}: {each.claim.why or 'reason unknown.'}")
        if each.found.verdict == "not tried":
            notes.append(f"- {at}, not tried: {each.claim.cost or f'its runs are not in {each.claim.study}.csv yet.'}")
    return "\n\n".join([markdown(claims_grid(found)), *(["\n".join(notes)] if notes else [])])


def counts_grid(papers: Mapping[str, Sequence[Judged]]) -> Grid:
    """Return how many claims of each paper hold."""
    kinds: dict[str, tuple[str, ...]] = {
        "holds": ("holds",),
        "seen once or twice": ("seen",),
        "not settled": ("not settled",),
        "does not hold": ("does not hold", "seen against"),
        "not tried": ("not tried",),
    }
    rows = []
    for paper, found in papers.items():
        counts = Counter[str](each.found.verdict for each in found)
        told = {name: str(sum(counts[verdict] for verdict in verdicts)) for name, verdicts in kinds.items()}
        rows.append({"paper": paper, "claims": str(len(found)), **told})
    return Grid("", rows)


def render(results: Results, name: str, pictures: Path | None = None) -> str:
    """Return a page, made from the template ``NAME.in``; draw its pictures where a folder for them is given."""
    environment = Environment(
        loader=FileSystemLoader(results.folder), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    given: dict[str, Callable[..., Any]] = {
        name: getattr(results, name) for name in ("value", "gap", "seeds", "commits", "table", "claims", "counts")
    }
    environment.globals |= given | {"picture": lambda *args, **kwargs: _picture(results, pictures, *args, **kwargs)}
    template = results.folder / f"{name}.in"
    if not template.exists():
        raise UserError(f"{template} is missing: a page is made from a template of its name")
    try:
        return environment.get_template(template.name).render()
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise UserError(f"{template}{where}: {error}") from error


def _picture(results: Results, folder: Path | None, study: str, y: str, title: str, **how: Any) -> str:
    """Return the link to a picture of curves, with what it was made from, and draw it if there is a folder for it."""
    told = results.study(study)
    source = path_beside(told.path)
    if not source.exists():
        raise UserError(f"{source} is missing: flcluster gather RUNS --output {told.path} writes it")
    name = f"{study}_{y}.png"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        save(curves_picture(told, y, title, **how), folder / name)
    made = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    return f"![{title}](images/results/{name})\n<!-- drawn from {source.name}, sha256 {made} -->"


def write_page(results: Results, path: Path) -> None:
    """Write the page and its pictures beside it."""
    folder = path.parent / "images" / "results"
    text = render(results, path.name, folder)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
