"""Scores of several models in one pass: on one view, or each on its own."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from flcluster.data import View
from flcluster.federation.flat.evaluating import EVAL_BATCH
from flcluster.federation.together.batches import batch_for
from flcluster.federation.together.stack import Stack
from flcluster.federation.worker import Worker


def on_one(stack: Stack, worker: Worker, rows: Sequence[Tensor], view: View) -> Tensor:
    """Score some models on one view, ``[C, 2, n]``."""
    tensors = seen(stack, rows)
    found = [torch.zeros(len(rows), 2, 0, device=worker.layout.row.device)]
    for part in worker.parts(view):
        x, y = worker.pinned.get(part) or worker.to_device(*part.tensors())
        room = stack.room(len(rows))
        scores = stack.scores(x.expand(room, *x.shape), y.expand(room, *y.shape), tensors)
        found.append(scores[: len(rows)])
    return torch.cat(found, dim=2)


def on_own(stack: Stack, worker: Worker, rows: Sequence[Tensor], views: Sequence[View]) -> list[Tensor]:
    """Score each of some models on its own view, ``[2, n]`` each."""
    sizes = [batch_for(len(view), EVAL_BATCH) for view in views]
    order = sorted(range(len(views)), key=sizes.__getitem__)
    found = [torch.zeros(2, 0, device=worker.layout.row.device)] * len(views)
    for size, group in groupby((i for i in order if len(views[i])), key=sizes.__getitem__):
        places = list(group)
        samples = [worker.to_device(*views[i].tensors()) for i in places]
        scores = torch.cat(list(_alike(stack, [rows[i] for i in places], samples, size)), dim=2)
        for i, own in zip(places, scores, strict=False):
            found[i] = own[:, : len(views[i])]
    return found


def _alike(
    stack: Stack, rows: Sequence[Tensor], samples: Sequence[tuple[Tensor, Tensor]], size: int
) -> Iterator[Tensor]:
    """Yield the scores of models whose samples come in pieces of one length; what is filled up is scored too."""
    count, longest, tensors = stack.room(len(rows)), max(len(y) for _, y in samples), seen(stack, rows)
    whole = -(-longest // size) * size
    x, y = (filled(torch.stack([filled(part, whole) for part in parts]), count) for parts in zip(*samples, strict=True))
    for at in range(0, whole, size):
        yield stack.scores(x[:, at : at + size], y[:, at : at + size], tensors)


def seen(stack: Stack, rows: Sequence[Tensor]) -> list[Tensor]:
    """View models' tensors for scoring them."""
    stack.learning(False)
    return stack.tensors(stack.laid(rows, stack.room(len(rows))))


def filled(tensor: Tensor, count: int) -> Tensor:
    """Fill a tensor up with zeros, to so many along its first dimension."""
    missing = count - len(tensor)
    return tensor if missing == 0 else torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])])
