"""What ran: each run with what made it, what sets configurations apart, and the numbers beside the papers'."""

import json
from collections.abc import Sequence
from dataclasses import replace

import yaml

from flcluster.records.configuration import counted, differing, short_names
from flcluster.records.provenance import read_provenance
from flcluster.records.reader import Run, number
from flcluster.report.html.blocks import Block, choice, details, section, table
from flcluster.report.html.group import Group
from flcluster.report.report import beside_papers, significance
from flcluster.report.tables import Grid


def ran_section(groups: Sequence[Group]) -> Block | None:
    """Return a line for every run, what sets groups apart, and the configurations in full."""
    runs = [run for group in groups for run in group.runs]
    lines = [_line(group, run) for group in groups for run in group.runs]
    blocks = [table(Grid("Runs", lines)), table(made_by(groups)), table(apart(groups))]
    texts = {group.name: [details("The whole configuration", configuration(group.first))] for group in groups}
    again = f"flcluster fit --config {runs[0].path}/config.yaml repeats the first of them."
    return section("ran", "What ran", [*blocks, choice("configuration of", texts)], again)


def _line(group: Group, run: Run) -> dict[str, str]:
    summary = run.summary
    seconds = number(summary, "wall_seconds")
    return {
        "Method": group.name,
        "Dataset": group.key[0],
        "K": str(group.key[1]),
        "Seed": str(summary.get("seed", "")),
        "Clients": str(summary.get("num_clients", "")),
        "Updates": str(summary.get("updates", "")),
        "Status": run.status,
        "Commit": str(summary.get("commit", "")),
        "Seconds": f"{seconds:.1f}" if seconds == seconds else "",
        "Directory": str(run.path),
    }


def made_by(groups: Sequence[Group]) -> Grid:
    """Return what made each group's first run, once for each time that it began or went on, where runs tell it."""
    rows = []
    for group in groups:
        for entry in read_provenance(group.first.path):
            versions, machine = (entry.get(part) or {} for part in ("versions", "machine"))
            rows.append(
                {
                    "Method": group.name,
                    "Started": str(entry.get("started") or ""),
                    "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
                    "Machine": ", ".join(f"{name} {text(value)}" for name, value in machine.items() if value),
                    "Command": str(entry.get("command") or ""),
                }
            )
    return Grid("Made by", rows)


def apart(groups: Sequence[Group]) -> Grid:
    """Return the settings that are not the same in all groups, one a line."""
    settings = [counted(group.first.settings or {}) for group in groups]
    keys = differing(settings)
    names = short_names(keys)
    rows = [
        {
            "Setting": names[key],
            **{g.name: text(each[key]) if key in each else "" for g, each in zip(groups, settings, strict=True)},
        }
        for key in keys
    ]
    return Grid("What sets configurations apart", rows, "Seeds and places apart; an empty cell: no such setting.")


def text(value: object) -> str:
    """Return a setting in one line.

    >>> text(None), text("min"), text([1, 2])
    ('null', 'min', '[1, 2]')
    """
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def configuration(run: Run) -> str:
    """Return a run's configuration as YAML."""
    if run.settings is None:
        return "config.yaml cannot be read."
    return str(yaml.safe_dump(dict(run.settings), sort_keys=False, allow_unicode=True))


def results_section(groups: Sequence[Group]) -> Block | None:
    """Return our numbers, beside what papers print for the same, and tests of what sets methods apart."""
    runs = [run for group in groups for run in group.runs]
    grid = beside_papers(runs)
    printed = any("(" in head for head in grid.heads)
    tests = significance([run for run in runs if run.status != "running" and "seed" in run.summary])
    tables = [replace(grid, title=""), *tests]
    return section("results", "Results beside the papers" if printed else "Results", [table(each) for each in tables])
