"""A function of tensors that is called again and again: its operations are recorded, and played back."""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

PAYS = 150
"""Calls after which recording pays: it takes as long as some hundreds of the calls that it makes cheaper
(tests/benchmarks/together.py). A count and no clock, though numbers are the same either way."""

aten = torch.ops.aten
NOTHING = {aten.alias.default, aten.detach.default, aten.view.default, aten._unsafe_view.default, aten.expand.default}
"""Operations that do nothing if what comes out has the shape and the strides of what went in."""

ONCE: dict[Any, tuple[Any, ...]] = {aten.mul.Scalar: (1,)}
"""Operations that do nothing with these arguments."""


class Recorded:
    """A function that always does the same to tensors of the same shapes, and the recordings of it.

    Autograd and ``vmap`` cost several times what the operations of a small model cost; a recording has the operations
    alone, so that it gives the same numbers to the last bit. It takes no compiler, and no time worth mentioning.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self.calls: Counter[Hashable] = Counter()
        self.recordings: dict[Hashable, Callable[..., tuple[Tensor, ...]]] = {}

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Call the function; tensors of one shape of the first must all have one shape and one layout."""
        key = (tensors[0].shape, tensors[0].stride(), tensors[0].dtype)
        found = self.recordings.get(key)
        if found is None:
            self.calls[key] += 1
            if self.calls[key] <= PAYS:
                return self.function(*tensors)
            found = self.recordings[key] = tidied(make_fx(self.function)(*tensors)).forward
        with torch.no_grad():
            return found(*tensors)


def tidied(recording: GraphModule) -> GraphModule:
    """Leave out operations that do nothing, that were done before with the same tensors, or that nobody looks at."""
    nodes = [node for node in recording.graph.nodes if node.op == "call_function"]
    if any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in nodes):
        return recording  # what is written into counts in the order in which it is
    done: dict[Hashable, Node] = {}
    for node in nodes:
        told = (node.target, str(node.args), str(node.kwargs))
        same = node.args[0] if does_nothing(node) else done.setdefault(told, node)
        if isinstance(same, Node) and same is not node:
            node.replace_all_uses_with(same)
            recording.graph.erase_node(node)
    recording.graph.eliminate_dead_code()
    recording.recompile()
    return recording


def does_nothing(node: Node) -> bool:
    """Say whether a recorded operation gives back what it was given."""
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or (node.target not in NOTHING and node.args[1:] != ONCE.get(node.target)):
        return False
    before, after = source.meta.get("val"), node.meta.get("val")
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)):
        return False
    return before.shape == after.shape and before.stride() == after.stride() and before.dtype == after.dtype
