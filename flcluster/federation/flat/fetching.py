"""What a device has computed comes to the host in one copy: waiting for it once is all a client's update costs."""

from collections.abc import Sequence

import torch
from torch import Tensor


def fetched(found: Sequence[Tensor]) -> list[Tensor]:
    """Bring floating-point tensors of one device to the host, in one copy; those on the host come back as they are.

    Numbers are as before: the widest type among them carries all.

    >>> [tensor.tolist() for tensor in fetched([torch.ones(2, 1), torch.tensor(3.0)])]
    [[[1.0], [1.0]], 3.0]
    """
    if not found or found[0].device.type == "cpu":
        return [tensor.detach() for tensor in found]
    return unpacked(packed(found).cpu(), found)


def packed(found: Sequence[Tensor]) -> Tensor:
    """Lay tensors one after the other, in the widest type among them."""
    widest = max((tensor.dtype for tensor in found), key=lambda kind: kind.itemsize)
    return torch.cat([tensor.detach().reshape(-1).to(widest) for tensor in found])


def unpacked(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Take apart what ``packed`` laid together."""
    pieces = flat.split([tensor.numel() for tensor in like])
    return [piece.view(tensor.shape).to(tensor.dtype) for piece, tensor in zip(pieces, like, strict=True)]


def number(value: Tensor) -> float:
    """Return a single number that is on the host, without asking a device for it."""
    return float(value.numpy())
