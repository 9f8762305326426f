"""What papers print relative to a method of theirs: how far estimated mixtures are off, and what updates cost."""

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from flcluster.records.columns import column
from flcluster.records.reader import Key, number
from flcluster.report.figures.bars import Bars, Values, bars_figure
from flcluster.report.printed import units
from flcluster.report.summaries import Groups, mean_std, ratios, unit_of

QUANTITIES = {"download_bytes": "Download per update", "client_compute": "Client computation per update"}


def kl_figure(groups: Groups, inks: Mapping[str, str]) -> Figure | None:
    """Draw mean KL over seeds as bars, one a method, also relative to the papers' unit where that ran."""
    values = {key: mean_std(number(run.summary, "kl") for run in group) for key, group in groups.items()}

    def relative(key: Key) -> tuple[float, float]:
        base = unit_of(groups, key, units("kl"))
        unit = values[base][0] if base else math.nan
        return (values[key][0] / unit, values[key][1] / unit) if unit > 0 else (math.nan, math.nan)

    said = _unit(groups, units("kl"))
    absolute = Bars("KL(true ‖ estimated mixture)", column("kl").label, _by_setting(groups, values.__getitem__))
    ratio = Bars(f"KL relative to {said}", f"ratio ({said} = 1)", _by_setting(groups, relative))
    return bars_figure([absolute, ratio], inks)


def overheads_figure(groups: Groups, inks: Mapping[str, str]) -> Figure | None:
    """Draw both overheads for each dataset and K that has a run of the papers' unit."""

    def panel(name: str, title: str) -> Bars:
        methods = units(name)
        label = f"ratio ({_unit(groups, methods)} = 1)"
        return Bars(title, label, _by_setting(groups, lambda key: mean_std(ratios(groups, key, name, methods))))

    return bars_figure([panel(name, title) for name, title in QUANTITIES.items()], inks)


def _unit(groups: Groups, methods: Sequence[str]) -> str:
    """Name what is 1 in some setting."""
    bases = [unit_of(groups, key, methods) for key in groups]
    return " or ".join(dict.fromkeys(base[2] for base in bases if base is not None))


def _by_setting(groups: Groups, value: Callable[[Key], tuple[float, float]]) -> Mapping[str, Values]:
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for key in groups:
        mean, std = value(key)
        if math.isfinite(mean):
            found.setdefault(f"{key[0]}\nK = {key[1]}", {})[key[2]] = mean, std
    return found
