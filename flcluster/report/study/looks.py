"""Which variants a study's figure shows, and in which colours and patterns."""

from typing import Literal

from flcluster.report.study.file import Picture, Runs, Study
from flcluster.report.style import hue

Style = tuple[str, Literal["-", "--"]]
"""A line's colour and pattern."""


def chosen(study: Study, picture: Picture, runs: Runs) -> list[str]:
    """Return the variants that a figure is of, as far as they have run."""
    return [name for name in picture.of or study.variants if name in runs]


def styles(study: Study) -> dict[str, Style]:
    """Give every variant its colour in all figures of a study.

    Pairs of a variant and a baseline of its own share a colour, the baseline dashed; one common target is black.
    """
    target, names = study.target, list(study.variants)
    pairs = target.baselines if target is not None else {}
    if len(set(pairs.values())) == len(pairs) and not set(pairs) & set(pairs.values()):
        names = [name for name in names if name not in pairs]
    black = target.variant if target is not None and not pairs else None
    inks = iter(hue(i) for i in range(len(names)))
    found: dict[str, Style] = {name: ("#000000" if name == black else next(inks), "-") for name in names}
    for variant, baseline in pairs.items():
        if variant not in found:
            ink = found[baseline][0]
            found |= {variant: (ink, "-"), baseline: (ink, "--")}
    return found
