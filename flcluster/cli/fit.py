"""``flcluster fit``: one run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flcluster.cli.arguments import answered
from flcluster.engine.process import is_main_process

if TYPE_CHECKING:
    from flcluster.data import FederatedDataModule


def fit(argv: list[str]) -> int:
    """Run one method, draw its pictures and print its table."""
    if answered("fit", argv):
        return 0
    from flcluster.engine.config import plan_fit
    from flcluster.engine.fit import build, elsewhere
    from flcluster.engine.fit import fit as run_to_end
    from flcluster.engine.process import exit_code
    from flcluster.engine.resume import claimed, is_whole, tidy
    from flcluster.records.reader import Run
    from flcluster.report.report import summary_table
    from flcluster.report.tables import wide_console

    plan = plan_fit(argv)
    with tidy(plan.run_dir), claimed(plan.run_dir, new=plan.checkpoint is None):
        if plan.settings.ckpt_path == "auto" and is_whole(plan.run_dir, plan.config):
            print(f"{plan.run_dir} is finished", file=sys.stderr)
            return 0
        exp = build(plan)
        summary = run_to_end(exp)
    if not is_main_process():
        return 0
    if summary["updates"] and exp.engine.pictures:
        pictures = draw_run(exp.run_dir, exp.data)
        if not elsewhere(exp.fabric):
            exp.loggers.keep_pictures(pictures, lambda told: print(told, file=sys.stderr))
    if summary["updates"] and exp.engine.table:
        wide_console().print(summary_table([Run.load(exp.run_dir)]))
    return exit_code(summary["status"])


def draw_run(run_dir: Path, data: "FederatedDataModule") -> list[Path]:
    """Draw a run's pictures into its directory: here, not in the engine, so that no other process loads matplotlib."""
    from flcluster.datamodules.pictures.data import draw_data
    from flcluster.records.reader import Run
    from flcluster.report.figures.of_run import run_pictures

    drawn = draw_data(data, run_dir / "data.png")
    pictures = [*run_pictures(Run.load(run_dir)), *([drawn] if drawn else [])]
    for path in pictures:
        print(f"drew {path}", file=sys.stderr)
    return pictures
