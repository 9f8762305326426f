"""Client-Driven Federated Learning for Dynamic Mixtures of Distributions (CDFL; Zhu & Li).

And CCFL, the same algorithm in its earlier form: another staleness rule and a global adjustment filter.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from flcluster.errors import UserError, probability
from flcluster.federation.federation import Federation
from flcluster.federation.worker import Worker
from flcluster.protocol.uploads import Reply, Upload

from .ageing import ClusterUploads
from .estimation import Bar, estimate_distribution, passes_filter, update_ratios
from .history import History


@dataclass(frozen=True, eq=False)
class CDFLState:
    """The server: K cluster models and what it remembers of clients and uploads."""

    epoch: int
    clusters: Tensor
    """w_k, ``[K, P]``."""
    losses: Tensor
    """F(w_k; D_k), ``[K]``."""
    changed: Tensor
    """e_k: the epoch each cluster last changed, ``[K]``."""
    weights: Tensor
    """Last estimate of every client, ``[M, K]``; NaN before the first."""
    history: History
    """Raw (l, d1, d2) of past uploads, ``[K, 3]`` each; empty without global adjustment."""
    initial: Tensor
    """u⁰, what a new client starts from."""


@dataclass(frozen=True, kw_only=True)
class CDFL(ClusterUploads[CDFLState]):
    """Client-driven clustered FL: one upload in, one personalised model out (CDFL Algorithm 1)."""

    paper: ClassVar[str] = "Zhu & Li, CDFL"

    c1: float = 0.5
    """Weight of the losses l in the estimate."""
    c2: float = 0.25
    """Weight of the loss gaps d1; the model distances d2 get 1 − c1 − c2."""
    amplifier: list[float] | float = 7.0
    """A: sharpness of the softmax; several values mean several passes."""
    loss_bar: Bar = 8.0
    """Subtracted from l; 'min' is the smallest value of the upload."""
    gap_bar: Bar = 0.0
    """Subtracted from d1."""
    distance_bar: Bar = 0.0
    """Subtracted from d2."""
    loss_scale: Literal["mean_equiv", "batch_sum", "mean"] = "mean_equiv"
    """Unit of l against its bar. batch_sum: mean loss times the number of batches in a proxy set, the only reading of
    the papers' bars that works; mean_equiv: 16 × mean loss, the same for 2,000 proxies in batches of 128, but it does
    not grow with the proxy set; mean: mean loss."""
    clamp: bool = True
    """Clamp values below their bar to zero (false: the formula as printed, which then inverts the order)."""
    threshold: float | Literal["ave"] = "ave"
    """β1 bar: clusters with a smaller weight are not updated; 'ave' is 1/K."""
    adjust_start: float | None = None
    """Global adjustment filter from this share of the run on; off if not given."""
    adjust_quantile: float = 0.7
    """The filter refuses values above this quantile of their history."""

    extra_names: ClassVar[tuple[str, ...]] = ("clamped", "filtered")

    def __post_init__(self) -> None:
        super().__post_init__()
        probability("adjust_quantile", self.adjust_quantile)
        if min(self.c1, self.c2, 1 - self.c1 - self.c2) < -1e-9:
            raise UserError(
                f"algorithm.c1 and algorithm.c2 must be >= 0 and sum to at most 1, got {self.c1} and {self.c2}"
            )

    def init(self, fed: Federation) -> CDFLState:
        """Pre-train the cluster models; clients begin with their mean."""
        clusters = self.pretrained(fed)
        K = len(clusters)
        losses = [fed.loss(clusters[k], fed.proxies[k]) for k in range(K)]
        return CDFLState(
            epoch=0,
            clusters=clusters,
            losses=torch.tensor(losses, dtype=torch.float64),
            changed=torch.zeros(K, dtype=torch.int64),
            weights=torch.full((fed.data.num_clients, K), torch.nan, dtype=torch.float64),
            history=History.of(torch.zeros(0, K, 3)),
            initial=clusters.mean(0),
        )

    def clusters(self, state: CDFLState) -> Tensor:
        """w_1 … w_K."""
        return state.clusters

    def pack(self, state: CDFLState) -> dict[str, Any]:
        """Keep the history as it came, ``[n, K, 3]``."""
        return {**super().pack(state), "history": state.history.values()}

    def unpack(self, saved: dict[str, Any], row: Tensor) -> CDFLState:
        """Put the history in order again."""
        return replace(super().unpack(saved, row), history=History.of(saved["history"]))

    def join(self, state: CDFLState, client: int, fed: Federation) -> Reply:
        """u⁰ for everyone."""
        return Reply(state.initial)

    def observe(self, worker: Worker, row: Tensor, fed: Federation) -> Tensor:
        """F(v; D_k) for every k."""
        return worker.mean_losses(row, fed.proxies)

    def upload(self, state: CDFLState, up: Upload, fed: Federation) -> tuple[CDFLState, Reply]:
        """ServerUpdate(v, τ, t)."""
        t, K = state.epoch + 1, len(state.clusters)
        if self.is_deprecated(up, t, fed):
            last = state.weights[up.client]
            weights = torch.full_like(last, 1 / K) if last.isnan().any() else last
            return replace(state, epoch=t), Reply(mixed(weights, state.clusters), deprecated=True)

        measured = self._measure(state, up, fed)
        weights, clamped = self._estimate(measured, fed)
        staleness = self.staleness_of(up, t, state.changed, fed)
        ratios = update_ratios(weights, staleness, beta0=self.beta0, a=self.a, b=self.b, threshold=self.threshold)
        fresh = bool((staleness[ratios > 0] < self.b).any())
        passes = self._filter(state, measured, up.progress)
        filtered = int(((ratios > 0) & ~passes).sum())
        ratios = torch.where(passes, ratios, 0.0)

        moved = ratios > 0
        clusters, losses = state.clusters.clone(), state.losses.clone()
        for k in moved.nonzero().flatten().tolist():
            clusters[k].lerp_(up.row, float(ratios[k]))  # Eq. 5
            losses[k] = fed.loss(clusters[k], fed.proxies[k])
        forwards = sum(map(len, fed.proxies)) + sum(len(fed.proxies[k]) for k in moved.nonzero().flatten().tolist())
        known = state.weights.clone()
        known[up.client] = weights
        keep = self.adjust_start is not None
        new = replace(
            state,
            epoch=t,
            clusters=clusters,
            losses=losses,
            changed=torch.where(moved, t, state.changed),
            weights=known,
            history=state.history.added(measured) if keep else state.history,
        )
        return new, Reply(
            mixed(weights, clusters),
            estimate=weights,
            fresh=fresh,
            server_forwards=forwards,
            extra={"clamped": clamped, "filtered": filtered},
        )

    def _measure(self, state: CDFLState, up: Upload, fed: Federation) -> Tensor:
        """Raw (l_k, d1_k, d2_k), ``[K, 3]``; distances over parameters only."""
        losses = up.seen
        assert losses is not None
        p = fed.layout.num_parameters
        distances = [torch.linalg.vector_norm(w[:p] - up.row[:p]) for w in state.clusters]
        return torch.stack([losses, (state.losses - losses).abs(), torch.stack(distances).double().cpu()], dim=1)

    def _estimate(self, measured: Tensor, fed: Federation) -> tuple[Tensor, int]:
        batches = -(-len(fed.proxies[0]) // self.batch_size)
        unit = {"mean_equiv": 16, "batch_sum": batches, "mean": 1}[self.loss_scale]
        return estimate_distribution(
            unit * measured[:, 0],
            unit * measured[:, 1],
            measured[:, 2],
            c1=self.c1,
            c2=self.c2,
            amplifiers=self.amplifier if isinstance(self.amplifier, list) else [self.amplifier],
            bars=(self.loss_bar, self.gap_bar, self.distance_bar),
            clamp=self.clamp,
        )

    def _filter(self, state: CDFLState, measured: Tensor, progress: float) -> Tensor:
        if self.adjust_start is None or progress < self.adjust_start:
            return torch.ones(len(measured), dtype=torch.bool)
        return passes_filter(state.history, measured, self.adjust_quantile)


@dataclass(frozen=True, kw_only=True)
class CCFL(CDFL):
    """CDFL as first published: staleness since the cluster's last change, and the global adjustment filter."""

    paper: ClassVar[str] = "Zhu & Li, CCFL"

    staleness: Literal["cdfl", "ccfl"] = "ccfl"
    """s_k = t − τ (cdfl), or from τ to the cluster's previous change (ccfl)."""
    adjust_start: float | None = 0.5
    """Global adjustment filter from this share of the run on; off if not given."""


def mixed(weights: Tensor, clusters: Tensor) -> Tensor:
    """Σ_k α̂_k·w_k."""
    return weights.to(clusters) @ clusters
