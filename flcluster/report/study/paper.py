"""What the tables that a study names print for the settings of its runs."""

from flcluster.records.columns import METRICS
from flcluster.records.reader import key_of
from flcluster.report import printed as beside
from flcluster.report.study.file import Runs, Study
from flcluster.report.summaries import Row, plus_minus


def printed(study: Study, runs: Runs, column: str) -> dict[str, dict[str, Row]]:
    """Return what papers print beside a column of the study's table: paper -> variant -> its row."""
    found: dict[str, dict[str, Row]] = {}
    for variant, seeds in runs.items() if study.paper else ():
        summary = seeds[min(seeds)].summary
        for row in beside.paper_rows(*key_of(summary), summary, study.paper):
            if METRICS[row.metric] == column:
                found.setdefault(row.source, {})[variant] = row
    return found


def paper_columns(study: Study, runs: Runs, column: str) -> dict[str, dict[str, str]]:
    """Return the same as cells: paper -> variant -> mean ± deviation."""
    return {
        paper: {name: plus_minus(row.mean, row.std, finer=beside.finer_digits(paper)) for name, row in rows.items()}
        for paper, rows in printed(study, runs, column).items()
    }


def notes(study: Study, runs: Runs) -> str:
    """Return what must be known of the papers' columns, as a sentence to follow others."""
    return beside.notes(
        row for column in study.table for rows in printed(study, runs, column).values() for row in rows.values()
    )
