"""Claims as tables: what was found of each, how many hold, and why some do not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from flcluster.report.claims.claim import Judged
from flcluster.report.claims.verdict import Verdict
from flcluster.report.tables import Grid, markdown

KINDS: dict[Verdict, str] = {
    "holds": "holds",
    "seen": "seen once or twice",
    "not settled": "not settled",
    "seen against": "seen once or twice, against it",
    "does not hold": "does not hold",
    "not tried": "not tried",
}
"""Verdicts, and what they are called where claims are counted."""


def claims_grid(found: Sequence[Judged]) -> Grid:
    """Return claims as a table."""
    rows = [
        {
            "#": str(at),
            "claim": each.claim.sentence,
            "in the paper": each.claim.source,
            "tried on": each.claim.setting,
            "paper": each.claim.paper,
            "ours": each.ours,
            "verdict": each.found.text,
            "seeds": str(each.found.seeds or ""),
            "study": each.claim.study if each.found.seeds else "",
        }
        for at, each in enumerate(found, start=1)
    ]
    return Grid("", rows)


def claims_text(found: Sequence[Judged]) -> str:
    """Return claims as Markdown, and below them why some do not hold and what others would cost, each reason once."""
    notes: dict[str, list[int]] = {}
    for at, each in enumerate(found, start=1):
        if each.found.verdict in ("does not hold", "not settled", "seen against"):
            notes.setdefault(f"{each.found.text}: {each.claim.why or 'reason unknown.'}", []).append(at)
        elif each.found.verdict == "not tried":
            notes.setdefault(f"not tried: {each.claim.cost}" if each.claim.cost else "not run yet.", []).append(at)
    lines = [f"- {', '.join(ranges(at))}: {text}" for text, at in notes.items()]
    return "\n\n".join([markdown(claims_grid(found)), *(["\n".join(lines)] if lines else [])])


def ranges(numbers: Sequence[int]) -> list[str]:
    """Return increasing numbers with those that follow each other as one.

    >>> ranges([1, 2, 3, 5, 7, 8])
    ['1 to 3', '5', '7', '8']
    """
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]


def counts_grid(papers: Mapping[str, Sequence[Judged]], examples: bool = False) -> Grid:
    """Return how many claims of each paper hold; as an example the first that was tried."""
    rows = []
    for paper, found in papers.items():
        counts = Counter(each.found.verdict for each in found)
        row = {"paper": paper, "claims": str(len(found))}
        row |= {name: str(counts[verdict]) for verdict, name in KINDS.items()}
        tried = [each for each in found if each.ours] if examples else []
        told = [f"{each.claim.says}: {each.ours} (paper: {each.claim.paper})" for each in tried[:1]]
        rows.append(row | {"for example": "".join(told)})
    return Grid("", rows)
