"""Methods, one file each; a ``class_path`` (or the bare class name) in a config picks one."""

from .ca2fl import CA2FL
from .cdfl import CCFL, CDFL
from .fedavg import FedAvg
from .fedbuff import FedBuff
from .fedsoft import FedSoftAsync
from .ifca import IFCA
from .local import Local

__all__ = ["CA2FL", "CCFL", "CDFL", "IFCA", "FedAvg", "FedBuff", "FedSoftAsync", "Local"]
