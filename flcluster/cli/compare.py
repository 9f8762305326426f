"""Several methods on the same data, arrivals and budget: a study whose variants are methods."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from flcluster.cli.jobs.processes import refuse_places
from flcluster.cli.jobs.variants import Variants
from flcluster.cli.study import add_options, carry_out, refuse_unused
from flcluster.engine.arguments import option, with_dashes
from flcluster.engine.resume import named_after
from flcluster.errors import UserError
from flcluster.files import refuse_alike, slug
from flcluster.report.study.file import Study
from flcluster.report.study.matrix import Layer


def compare(argv: list[str]) -> int:
    """Run ``flcluster fit`` once per method and seed; what is there already goes on where it stopped."""
    given, rest = _parser().parse_known_args(dashed(argv))
    plan = study_of(given.methods)
    rest, own = divided(rest, list(plan.variants))
    stems = [named_after(Path(config)) for config in option(rest, "config")]
    if given.draw_only == "true":
        refuse_unused(given, [])
        _show(plan, given.output)
        return 0
    refuse_places("compare", rest)
    base = Path("runs") / (stems[-1] if stems else "compare")
    variants = Variants(plan, list(plan.variants), before=rest, own=own)
    return carry_out(variants, given, base, "--{name}.{unit} {length}", lambda output: _show(plan, output))


def dashed(argv: list[str]) -> list[str]:
    """Accept ``key=value`` beside ``--key=value``, but for what names a method: ``--methods CDFL gentle=CDFL``.

    >>> dashed(["--methods", "CDFL", "gentle=CDFL", "engine.threads=1", "output=out"])
    ['--methods', 'CDFL', 'gentle=CDFL', '--engine.threads=1', '--output=out']
    """
    at = argv.index("--methods") + 1 if "--methods" in argv else 0
    ends = (i for i in range(at, len(argv)) if re.match(r"--|\w+\.[\w.]*=", argv[i]))
    end = next(ends, len(argv)) if at else 0
    return [*with_dashes(argv[:at]), *argv[at:end], *with_dashes(argv[end:])]


def study_of(methods: Sequence[str]) -> Study:
    """Return the study whose variants are some methods, ``CLASS`` or ``NAME=CLASS``, that are not called alike."""
    pairs = [(name or kind.rpartition(".")[2], kind) for name, _, kind in (each.rpartition("=") for each in methods)]
    names = [name for name, _ in pairs]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise UserError(f"--methods: two are called {twice[0]}: name one, e.g. gentle={twice[0]}")
    refuse_alike(names, "--methods")
    settings = {name: {"algorithm": kind} for name, kind in pairs}
    layers: dict[str, tuple[Layer, ...]] = {name: (Layer(name, dict(own)),) for name, own in settings.items()}
    return Study(Path("methods"), title="Comparison", variants=dict(settings), layers=layers)


def divided(rest: Sequence[str], names: Sequence[str]) -> tuple[list[str], Mapping[str, list[str]]]:
    """Divide arguments into those of all methods and, by its name, those of one: ``--FedAvg.rounds 10``."""
    common, own, at = list[str](), dict[str, list[str]](), 0
    whose = re.compile(rf"--({'|'.join(map(re.escape, names))})\.([^=]+)(=.*)?", re.DOTALL)
    while at < len(rest):
        found = whose.fullmatch(rest[at])
        if found is None:
            common.append(rest[at])
        else:
            values = [] if found[3] else list(rest[at + 1 : at + 2])
            own.setdefault(found[1], []).extend([f"--algorithm.{found[2]}{found[3] or ''}", *values])
            at += len(values)
        at += 1
    return common, own


def _show(plan: Study, output: Path) -> None:
    from flcluster.cli.watch import write_and_tell
    from flcluster.records.reader import load_runs
    from flcluster.report.report import print_tables, write_report

    found = [path.parent for name in plan.variants for path in _summaries(output, slug(name))]
    if not found:
        raise UserError(f"{output} holds no run of {', '.join(plan.variants)}")
    runs = load_runs(dict.fromkeys([*found, output]))
    print_tables(runs)
    for path in write_report(runs, output):
        print(f"wrote {path}")
    write_and_tell(runs, output / "report.html")


def _summaries(output: Path, name: str) -> list[Path]:
    """Return the summaries of a method's runs, by seed."""
    found = {path: re.fullmatch(rf"{re.escape(name)}(?:-seed(\d+))?", path.parent.name) for path in output.glob("*/*")}
    mine = {path: int(match[1] or -1) for path, match in found.items() if match and path.name == "summary.json"}
    return sorted(mine, key=mine.__getitem__)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flcluster compare",
        description="Run several methods on the same data and arrivals, with the same budget. Everything else is "
        "handed to flcluster fit; --METHOD.KEY VALUE goes to one method alone.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--methods", nargs="+", required=True, help="Algorithm classes, e.g. CDFL Local; NAME=CLASS gives one a name."
    )
    add_options(parser)
    return parser
