"""All that a page says of some runs, as plain data: what ``assets/*.js`` draws and what a live page asks for again."""

import time
from collections.abc import Sequence
from typing import Any

from flcluster import __version__
from flcluster.records.reader import Run
from flcluster.report.html.cautions import warnings_section
from flcluster.report.html.clusters import clusters_section
from flcluster.report.html.costs import costs_section
from flcluster.report.html.group import grouped
from flcluster.report.html.lines import curves_section
from flcluster.report.html.mixtures import mixtures_section
from flcluster.report.html.network import network_section
from flcluster.report.html.people import clients_section
from flcluster.report.html.pictures import pictures_section
from flcluster.report.html.ran import ran_section, results_section
from flcluster.score import common_score


def content(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the sections of a page about some runs, one or more; those without anything to say are left out."""
    groups = grouped(runs)
    sections = [
        results_section(groups),
        curves_section(groups),
        clients_section(groups, common_score(run.score for run in runs)),
        clusters_section(groups),
        mixtures_section(groups),
        network_section(groups),
        costs_section(groups),
        pictures_section(groups),
        warnings_section(groups),
        ran_section(groups),
    ]
    return {
        "title": title(groups[0].setting if len({g.setting for g in groups}) == 1 else "", [g.name for g in groups]),
        "said": f"flcluster {__version__}, {time.strftime('%Y-%m-%d %H:%M')}",
        "state": state(runs),
        "sections": [each for each in sections if each],
    }


def state(runs: Sequence[Run]) -> str:
    """Say what a live page shows."""
    going = sum(run.status == "running" for run in runs)
    if not going:
        return "finished" if all(run.status == "finished" for run in runs) else "nothing goes on"
    return "a run goes on" if len(runs) == 1 else f"{going} of {len(runs)} runs go on"


def title(setting: str, names: Sequence[str]) -> str:
    """Return what a page is about.

    >>> title("Digits, K = 4", ["CDFL", "Local", "FedBuff", "IFCA"])
    'CDFL, Local, FedBuff and 1 more: Digits, K = 4'
    """
    told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{told}: {setting}" if setting else told
