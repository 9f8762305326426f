"""What a method of uploads is: a client's model in, a reply out."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from flcluster.data import FederatedDataModule, joined
from flcluster.devices.schedule import Arrivals, UniformArrivals, Workload, scheduled
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.federation.layout import all_finite
from flcluster.federation.worker import Worker
from flcluster.protocol.base import Algorithm, S, at_least
from flcluster.protocol.budget import total_of


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
    epoch: int
    """How many uploads the server has taken in before this one."""
    size: int
    carry: Tensor | None
    """What the client kept from its last reply to send now."""
    seen: Tensor | None
    """What ``observe`` found."""
    progress: float
    """How far the run is, in [0, 1)."""

    @property
    def staleness(self) -> int:
        """Uploads that the server takes in from the client's last reply to this one, which is counted too."""
        return self.epoch + 1 - self.last_sync


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

    def samples_planned(self, data: FederatedDataModule, seed: int) -> float:
        """What the clients on the schedule hold when their turn comes; not the server's pre-training."""
        total = round(self.cycles * len(data.participants))
        schedule = scheduled(self.arrivals, data.participants, total, seed, Workload(data.size, self.local_epochs, 0))
        clients, cycles = schedule.clients.tolist(), schedule.cycles().tolist()
        return self.local_epochs * total_of(total, lambda n: data.size(clients[n], cycles[n]))

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

    def observe(self, worker: Worker, row: Tensor, fed: Federation) -> Tensor | None:
        """Compute some numbers that depend on the uploaded row alone; runs in parallel, where the row was trained.

        An upload whose numbers are not finite is refused.
        """
        return None

    def newcomers(self, state: S, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Let each join, train and upload once, and yield the model of the reply; no upload changes another's state."""

        def seen(worker: Worker, job: Job, trained: Trained[Tensor]) -> Tensor | None:
            return self.observe(worker, trained.row, fed)

        for client in clients:
            first, view = self.join(state, client, fed), fed.shard(client, t).train
            start = self.trains_from(state, first.row)
            job = Job(client, start, view, self.local_epochs, self.batch_size, cycle=t, prox=self.prox)
            (trained,) = fed.train([replace(job, anchor=first.anchor if self.prox else None)], seen)
            if not trained.usable:
                yield first.row
                continue
            epoch = int(getattr(state, "epoch", 0))
            up = Upload(
                client, t, trained.row, start.to(fed.device), epoch, epoch, trained.size, first.carry, trained.seen, 1.0
            )
            yield self.upload(state, up, fed)[1].row

    @abstractmethod
    def upload(self, state: S, up: Upload, fed: Federation) -> tuple[S, Reply]:
        """Take one upload in and give one reply out."""
