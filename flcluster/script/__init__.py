"""The engine from a script or a notebook: ``fl.fit``, ``fl.load``, ``fl.compare`` of ``import flcluster as fl``."""

from flcluster.script.comparing import compare
from flcluster.script.fitting import fit
from flcluster.script.runs import Run, Runs, load

__all__ = ["Run", "Runs", "compare", "fit", "load"]
