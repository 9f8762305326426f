"""Pictures of gathered curves."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flcluster.errors import UserError
from flcluster.records.columns import column
from flcluster.report.curves import common
from flcluster.report.gathered.studies import Gathered
from flcluster.report.style import band, legend, panels, shade, tidy


def curves_picture(study: Gathered, y: str, title: str, x: str = "epoch", only: Sequence[str] = ()) -> Figure:
    """Draw one column of some variants: the mean over seeds, with a band of one standard deviation."""
    figure, (axes,) = panels(1)
    tidy(axes, title, column(x).label, column(y).label)
    handles = []
    for at, variant in enumerate(only or study.variants):
        curves = study.curve(variant, x, y)
        if not curves:
            continue
        places, values = common(curves)
        axes.plot(places, values.mean(0), color=shade(at), linewidth=1.5)
        band(axes, places, values, shade(at))
        handles.append(Line2D([], [], color=shade(at), linewidth=2, label=variant))
    if not handles:
        raise UserError(f"{study.path}: no variant has both {x} and {y}, nothing to draw")
    legend(figure, handles)
    return figure
