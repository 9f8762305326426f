"""What a reader must be warned of: what was refused, clamped, lost or came too late, and what runs are no repeats."""

import re
from collections.abc import Sequence

import numpy as np

from flcluster.records.reader import Run, number
from flcluster.report.html.blocks import Block, notes, section
from flcluster.report.html.group import Group
from flcluster.report.summaries import cautions


def warnings_section(groups: Sequence[Group]) -> Block | None:
    """Return all that is worth a warning, run by run; a sentence that there is nothing, if so."""
    lines = cautions({group.key: group.runs for group in groups})
    for group in groups:
        for run in group.runs:
            seed = f", seed {run.summary.get('seed', '?')}" if len(group.runs) > 1 else ""
            lines += [f"{group.name}{seed}: {said}." for said in said_of(run)]
    return section("warnings", "Warnings", [notes(lines or ["Nothing was refused, clamped, lost or too late."])])


def said_of(run: Run) -> list[str]:
    """Return what a run's files warn of."""
    said = [] if run.status == "finished" else [f"{run.status}, so its numbers are not final"]
    if run.settings is None:
        said.append("config.yaml cannot be read, so it is not known what it repeats")
    said += _refused(run)
    uploads = max(len(run.clients["status"]), 1)
    if late := int((run.clients["status"] == "deprecated").sum()):
        said.append(f"{late} of {uploads} uploads were deprecated: too old to be used ({late / uploads:.1%})")
    for name, what in COUNTED.items():
        if (count := number(run.summary, name)) > 0:
            said.append(what.format(count=count))
    said += logged(run)
    return said + [what.format(share=mean) for name, what in SHARES.items() if (mean := _mean(run, name)) > 0]


COUNTED = {
    "lost": "{count:.0f} times a client went offline before it was done",
    "lost_messages": "{count:.0f} models never arrived",
    "isolated": "{count:.0f} clients had no neighbour at the end",
}
"""Totals of the summary."""


SHARES = {
    "clamped": "terms of estimates that came out negative were clamped to zero ({share:.2g} an upload on average)",
    "filtered": "uploads were kept from clusters by the filter ({share:.2g} clusters an upload on average)",
}
"""Means of columns of the metrics."""


LOGGED = 8
"""Most lines of a run's log that are repeated."""


def logged(run: Run) -> list[str]:
    """Return what a run's log has of warnings and mistakes, each once, without the time."""
    try:
        lines = (run.path / "run.log").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = [
        match[1].rstrip(".")
        for line in lines
        if (match := re.match(r"[\d-]+ [\d:]+ (\w*Warning: .*|ended by .*)", line))
    ]
    return [f"the log says: {each}" for each in list(dict.fromkeys(found))[:LOGGED]]


def _refused(run: Run) -> list[str]:
    who = run.clients["client"][run.clients["status"] == "refused"]
    if not len(who):
        return []
    clients, counts = np.unique(who, return_counts=True)
    worst = ", ".join(f"{clients[i]:.0f} ({counts[i]})" for i in np.argsort(-counts, kind="stable")[:8])
    more = ", …" if len(clients) > 8 else ""
    return [f"{len(who)} uploads were refused (not finite or of the wrong shape), by clients {worst}{more}"]


def _mean(run: Run, name: str) -> float:
    values = run.metrics.get(name, np.empty(0))
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0
