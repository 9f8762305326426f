"""flcluster: clustered, personalised, asynchronous and decentralised federated learning.

The engine in this package imports no model, dataset or method; those live in
``flcluster.modules``, ``flcluster.datamodules`` and ``flcluster.algorithms``.

In a script or a notebook: ``import flcluster as fl``, then ``fl.fit``, ``fl.load`` and ``fl.compare``. What is named
here is loaded on first use, so that the import itself costs nothing.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flcluster import algorithms, clustering, datamodules, devices, modules, protocol, topology
    from flcluster.data import FederatedDataModule
    from flcluster.engine.callbacks import Callback, EarlyStopping
    from flcluster.errors import UserError
    from flcluster.script import Run, Runs, compare, fit, load

try:
    __version__ = version("flcluster")
except PackageNotFoundError:  # a wheel unpacked with --target has its metadata beside it; a bare checkout has none
    __version__ = "0+unknown"

__all__ = [
    "Callback",
    "EarlyStopping",
    "FederatedDataModule",
    "Run",
    "Runs",
    "UserError",
    "__version__",
    "algorithms",
    "clustering",
    "compare",
    "datamodules",
    "devices",
    "fit",
    "load",
    "modules",
    "protocol",
    "topology",
]

_HOMES = {
    "Callback": "flcluster.engine.callbacks",
    "EarlyStopping": "flcluster.engine.callbacks",
    "FederatedDataModule": "flcluster.data",
    "UserError": "flcluster.errors",
    **dict.fromkeys(("Run", "Runs", "compare", "fit", "load"), "flcluster.script"),
}
"""Where what is no folder of this package comes from."""


def __getattr__(name: str) -> Any:
    """Load a name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name) if name in _HOMES else import_module(f"{__name__}.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List what can be used, loaded or not."""
    return sorted({*globals(), *__all__})
