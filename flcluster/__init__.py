"""flcluster: clustered, personalised, asynchronous and decentralised federated learning.

The engine in this package imports no model, dataset or method; those live in
:mod:`flcluster.modules`, :mod:`flcluster.datamodules` and :mod:`flcluster.algorithms`.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("flcluster")
except PackageNotFoundError:  # a wheel unpacked with --target has its metadata beside it; a bare checkout has none
    __version__ = "0+unknown"

__all__ = ["__version__"]
