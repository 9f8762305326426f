"""flcluster: clustered, personalised, asynchronous and decentralised federated learning.

The engine in this package imports no model, dataset or method; those live in
``flcluster.modules``, ``flcluster.datamodules`` and ``flcluster.algorithms``.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("flcluster")
except PackageNotFoundError:  # a wheel unpacked with --target has its metadata beside it; a bare checkout has none
    __version__ = "0+unknown"

__all__ = ["__version__"]
