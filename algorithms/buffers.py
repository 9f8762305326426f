"""The arithmetic of buffered asynchronous aggregation."""

from torch import Tensor


def update_of(row: Tensor, start: Tensor, model: Tensor, parameters: int) -> Tensor:
    """What an upload adds: Δ = v − start for parameters; for BatchNorm statistics, behind them, v − current model.

    Summed differences of statistics could make a variance negative; this way a step moves them towards a mean.
    """
    delta = row - start
    delta[parameters:] = row[parameters:] - model[parameters:]
    return delta


def fedbuff_weight(staleness: int, exponent: float = 0.5) -> float:
    """Weight (1 + staleness)^−exponent of a stale update, staleness counted in server versions."""
    return float((1 + staleness) ** -exponent)


def buffer_step(model: Tensor, total: Tensor, size: int, lr: float) -> Tensor:
    """FedBuff: move by the mean of the buffered (weighted) updates."""
    return model + lr * total / size


def ca2fl_step(model: Tensor, mean_cache: Tensor, total: Tensor, size: int, lr: float) -> Tensor:
    """CA2FL: move by the mean cached update plus the mean correction of the buffer."""
    return model + lr * (mean_cache + total / size)
