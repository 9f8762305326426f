"""FedSoft-Async: the CDFL papers' asynchronous form of FedSoft (Ruan & Joe-Wong, 2022).

Clients receive all K cluster models and estimate their own mixture, which costs K downloads and K forward passes.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from flcluster.federation.federation import Federation
from flcluster.protocol.needs import LOSSES
from flcluster.protocol.uploads import Reply, Upload

from .ageing import ClusterUploads
from .cdfl import mixed
from .estimation import sample_shares, soft_ratios


@dataclass(frozen=True, eq=False)
class FedSoftState:
    """The server's cluster models, and the first ones, which new clients receive."""

    epoch: int
    clusters: Tensor
    changed: Tensor
    """The epoch each cluster last changed, ``[K]``."""
    initial: Tensor


@dataclass(frozen=True, kw_only=True)
class FedSoftAsync(ClusterUploads[FedSoftState]):
    """Each client measures its mixture μ with the K models it received, and uploads it with its own model.

    Deprecated uploads count as without an estimate, as CDFL's do, so that the KL of both is over the same uploads.
    A client whose upload was refused has received nothing new: it keeps the μ it measured last.
    """

    needs: ClassVar[tuple[str, ...]] = (LOSSES,)
    paper: ClassVar[str] = "Ruan & Joe-Wong, 2022"

    rho: float = 0.1
    """Weight of the pull towards the cluster models, Σ_k μ_k·‖v − w_k‖²·ρ/2."""
    pull: Literal["clusters", "reply"] = "clusters"
    """Pull towards the clusters weighted by the new data's μ (FedSoft's objective), or towards the model last used."""
    sigma: float = 1e-4
    """Share of samples an empty cluster is counted with."""

    @property
    def title(self) -> str:
        """The papers' name."""
        return super().title.replace("FedSoftAsync", "FedSoft-Async")

    def init(self, fed: Federation) -> FedSoftState:
        """Pre-train the cluster models."""
        clusters = self.pretrained(fed)
        return FedSoftState(0, clusters, torch.zeros(len(clusters), dtype=torch.int64), clusters.clone())

    def clusters(self, state: FedSoftState) -> Tensor:
        """w_1 … w_K."""
        return state.clusters

    def join(self, state: FedSoftState, client: int, fed: Federation) -> Reply:
        """Everyone begins with the mean of the first models."""
        return self._received(state.initial, state.initial.mean(0), client, 0, fed)

    def upload(self, state: FedSoftState, up: Upload, fed: Federation) -> tuple[FedSoftState, Reply]:
        """β_k = β0·μ_k·β2_k; the client forms Σ_k μ_k·w_k itself."""
        assert up.carry is not None
        t, shares, clusters, changed = state.epoch + 1, up.carry, state.clusters, state.changed
        deprecated, fresh = self.is_deprecated(up, t, fed), False
        if not deprecated:
            staleness = self.staleness_of(up, t, changed, fed)
            ratios = soft_ratios(shares, staleness, beta0=self.beta0, a=self.a, b=self.b)
            clusters = torch.lerp(clusters, up.row, ratios.to(clusters)[:, None])
            changed = torch.where(ratios > 0, t, changed)
            fresh = bool((staleness < self.b).any())
        reply = self._received(clusters, mixed(shares, clusters), up.client, up.cycle + 1, fed)
        estimate = None if deprecated else shares
        return replace(state, epoch=t, clusters=clusters, changed=changed), replace(
            reply, estimate=estimate, deprecated=deprecated, fresh=fresh
        )

    def _received(self, clusters: Tensor, row: Tensor, client: int, cycle: int, fed: Federation) -> Reply:
        """What a client does with K models: measure its next data's mixture, and what to be pulled towards."""
        view = fed.shard(client, cycle).train
        shares = sample_shares(fed.per_sample(clusters, view)[:, 0].cpu(), self.sigma)
        K = len(clusters)
        return Reply(
            row,
            anchor=mixed(shares, clusters) if self.pull == "clusters" else None,
            carry=shares,
            download_models=K,
            client_forwards=K * len(view),
        )
