"""What a method is: hyper-parameters in a frozen object, a state that goes in and comes out anew.

A method's state is a frozen dataclass of tensors and small values: exactly what a checkpoint holds. Rows per client
live in the federation's tables.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from flcluster.clock import Arrivals, UniformArrivals
from flcluster.data import joined
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.layout import all_finite
from flcluster.worker import Job, Worker

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC, Generic[S]):
    """What every method has: a local budget, a way to begin, and models to show."""

    local_epochs: int = 5
    """Epochs of local training per cycle or round."""
    batch_size: int = 128
    """Batch size of local training."""

    state_type: ClassVar[type]
    extra_names: ClassVar[tuple[str, ...]] = ()
    """Names of what the method logs beside the common metrics: in replies and rounds, or as ``gauges``."""

    named_clusters: ClassVar[bool] = True
    """Whether model k stands for the data's cluster k (false: the indices have no common meaning)."""

    def __post_init__(self) -> None:
        at_least("local_epochs", self.local_epochs, 1)
        at_least("batch_size", self.batch_size, 1)

    @abstractmethod
    def init(self, fed: Federation) -> S:
        """Return the state before the first step."""

    def clusters(self, state: S) -> Tensor | None:
        """Return the cluster models ``[K, P]``, or None for a method that has none."""
        return None

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Names of all columns that this method, as it is configured, adds to the metrics."""
        return self.extra_names

    @property
    def title(self) -> str:
        """How the method is called in tables and pictures: the papers' name where they have one."""
        return type(self).__name__

    @property
    def described(self) -> dict[str, str]:
        """Return what a result must name besides the method, for the run's summary: what it learnt from, say."""
        return {}

    def files(self, state: S, position: int, fed: Federation) -> dict[str, str | bytes]:
        """Return small files that the run's directory should hold after ``position`` steps, by name."""
        return {}

    def own_row(self, state: S, client: int) -> tuple[str, int]:
        """Return the table and the row of it that hold a client's model, where clients have models of their own."""
        return "start", client

    def gauges(self, state: S) -> dict[str, float]:
        """Return what a session's row shows of the state as it is then."""
        return {}

    def pack(self, state: S) -> dict[str, Any]:
        """Turn the state into what a checkpoint can hold."""
        return {f.name: getattr(state, f.name) for f in fields(state)}  # type: ignore[arg-type]

    def unpack(self, saved: dict[str, Any], row: Tensor) -> S:
        """Bring a state back: models (rows like ``row``) to the device, small tensors to the host."""

        def placed(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: placed(part) for name, part in value.items()}
            is_model = isinstance(value, Tensor) and value.shape[-1:] == row.shape
            return value.to(row.device) if is_model else value

        state: S = self.state_type(**placed(saved))
        return state


@dataclass(eq=False)
class Upload:
    """A client's model on its way to the server."""

    client: int
    cycle: int
    row: Tensor
    start: Tensor
    """The row its training began from."""
    last_sync: int
    """τ: the epoch of the client's last reply."""
    size: int
    carry: Tensor | None
    """What the client kept from its last reply to send now."""
    seen: dict[str, Any]
    """What ``observe`` found."""
    progress: float
    """How far the run is, in [0, 1)."""


@dataclass(frozen=True, eq=False)
class Reply:
    """What a client gets back, and what the exchange cost."""

    row: Tensor
    """The model the client uses from now on and (see ``trains_from``) trains from next."""
    anchor: Tensor | None = None
    """What its next training is pulled towards; ``row`` if not given."""
    carry: Tensor | None = None
    """A few numbers to send along with the next upload."""
    estimate: Tensor | None = None
    """The client's mixture as this exchange estimated it."""
    deprecated: bool = False
    fresh: bool = False
    upload_models: int = 1
    download_models: int = 1
    client_forwards: int = 0
    """Forward passes (samples) of the client besides training."""
    server_forwards: int = 0
    """Forward passes (samples) of the server."""
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UploadAlgorithm(Algorithm[S]):
    """A method in which clients decide when to upload, and get an answer at once."""

    cycles: float = 25.0
    """Upload-download cycles per client, on average."""
    pretrain_epochs: int = 20
    """Epochs of pre-training of each cluster model on its proxy set, from one common initialisation."""
    shared_epochs: int = 0
    """Epochs on the union of all proxy sets before the cluster models part ways (networks that share their early
    training can be averaged); the papers do not say."""
    arrivals: Arrivals = field(default_factory=UniformArrivals)
    """Which client uploads when."""

    sends: ClassVar[bool] = True
    """Whether models travel at all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("pretrain_epochs", self.pretrain_epochs, 0)
        at_least("shared_epochs", self.shared_epochs, 0)
        if not self.cycles > 0:
            raise UserError(f"algorithm.cycles must be positive, got {self.cycles}")

    @property
    def prox(self) -> float:
        """Weight of the proximal term in local training."""
        return 0.0

    def pretrained(self, fed: Federation) -> Tensor:
        """Pre-train every cluster model on its proxy set from one common initialisation, ``[K, P]``."""
        start = fed.init_rows(1)[0]
        if self.shared_epochs:
            union = joined(fed.proxies)
            (together,) = fed.train([Job(0, start, union, self.shared_epochs, self.batch_size, purpose="shared")])
            start = together.row
        if self.pretrain_epochs == 0:
            return start.expand(fed.data.num_clusters, -1).clone()
        jobs = [
            Job(k, start, view, self.pretrain_epochs, self.batch_size, purpose="pretrain")
            for k, view in enumerate(fed.proxies)
        ]
        rows: list[Tensor] = []
        for trained in fed.train(jobs):
            rows.append(trained.row)
            fed.note(f"pre-trained cluster model {len(rows)} of {len(jobs)}")
        if not all(all_finite(row) for row in rows):
            raise UserError("pre-training gave a model with NaN or infinite weights: lower --model.lr")
        return torch.stack(rows)

    @abstractmethod
    def join(self, state: S, client: int, fed: Federation) -> Reply:
        """Return what a client starts from; may depend on what ``init`` made, never on later uploads."""

    def trains_from(self, state: S, held: Tensor) -> Tensor:
        """Return what a client that holds a model trains from; may depend on what ``init`` made, never on uploads."""
        return held

    def observe(self, worker: Worker, row: Tensor, fed: Federation) -> dict[str, Any]:
        """Compute what depends on the uploaded row alone; runs in parallel, where the row was trained."""
        return {}

    @abstractmethod
    def upload(self, state: S, up: Upload, fed: Federation) -> tuple[S, Reply]:
        """Take one upload in and give one reply out."""


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a hyper-parameter below its smallest value."""
    if value < least:
        raise UserError(f"algorithm.{name} must be at least {least}, got {value}")
