"""What a DataLoader of a user's reads, as a dataset whose samples have numbers and can be divided."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from torch.utils.data import (
    BatchSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)

from flcluster.errors import UserError


def dividable(loader: Any, where: str, limit: int, training: bool) -> tuple[Any, int]:
    """Return what a loader reads, as a map-style dataset of just the samples that it gives, and its batch size.

    A stream is read once and kept. What the loader never gives (beyond a sampler's subset, or in a last batch that it
    drops without shuffling) is left out.

    Args:
        loader: A DataLoader.
        where: What an error calls it.
        limit: Most samples of a stream that are kept.
        training: Whether it matters how the loader draws; otherwise only what it gives.
    """
    dataset, batches = loader.dataset, loader.batch_sampler
    stream = is_stream(dataset)
    if batches is None and (loader.batch_size is None or not stream):
        raise UserError(f"{where} has no batch size: its dataset must give samples, not whole batches, to be divided")
    if stream:
        kept, size = keep(dataset, where, limit), int(loader.batch_size)
        return (kept[: len(kept) - len(kept) % size] if loader.drop_last else kept), size
    given = _subset(batches, len(dataset)) if training else _given(batches, len(dataset))
    if given is None:
        sampler = batches.sampler if type(batches) is BatchSampler else batches
        again = " with replacement" if getattr(sampler, "replacement", False) else ""
        raise UserError(
            f"{where} draws by a {type(sampler).__name__}{again}, which cannot be kept when the samples are divided: "
            "use shuffle=True"
        )
    return (dataset if len(given) == len(dataset) else Subset(dataset, given)), getattr(batches, "batch_size", 1)


def _subset(batches: Any, size: int) -> Sequence[int] | None:
    """Return the samples that batches are drawn from without preference; None if they are drawn in another way."""
    if type(batches) is not BatchSampler:
        return None
    sampler: Any = batches.sampler
    if type(sampler) is SubsetRandomSampler:
        return [int(i) for i in sampler.indices]
    if type(sampler) is SequentialSampler:
        return range(size - size % batches.batch_size if batches.drop_last else size)
    plain = type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == size
    return range(size) if plain else None


def _given(batches: Any, size: int) -> Sequence[int]:
    """Return the samples of one pass, ascending."""
    if type(batches) is BatchSampler and type(batches.sampler) is SequentialSampler and not batches.drop_last:
        return range(size)
    return sorted({int(i) for batch in batches for i in batch})


def is_stream(dataset: Any) -> bool:
    """Whether a dataset can only be gone through: no sample has a number."""
    return isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))


def keep(stream: Iterable[Any], where: str, limit: int) -> Sequence[Any]:
    """Read a stream once, to its end."""
    kept = list(islice(iter(stream), limit + 1))
    if len(kept) > limit:
        raise UserError(
            f"{where} reads a stream ({type(stream).__name__}) of more than {limit:,} samples, which are kept in "
            "memory to be divided: raise data.stream_limit, or use a dataset with a length and samples by number"
        )
    if not kept:
        raise UserError(f"{where} reads a stream ({type(stream).__name__}) that is empty")
    return kept
