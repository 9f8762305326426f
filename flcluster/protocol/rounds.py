"""What a method in rounds is: who takes part, what each trains, and a step from one state to the next."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.devices.profiles import Devices
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, samples_processed
from flcluster.protocol.base import Algorithm, at_least
from flcluster.protocol.budget import OnlyData, WithData, total_of
from flcluster.protocol.outcome import Round, Served
from flcluster.protocol.participation import AWAY, Cohort, Load, profile_of
from flcluster.records.columns import POPULATION
from flcluster.seeds import rng

S = TypeVar("S")


@dataclass(frozen=True)
class Phase(Generic[S]):
    """Some steps of a run that are alike: its rounds, or what a method does after them."""

    name: str
    """What the steps are called in progress and metrics."""
    steps: int
    step: "Callable[[S, int, Federation], tuple[S, Round]]"
    """Takes one step, counted from 0 in this phase."""
    data_round: int | None = None
    """The round whose data the steps use; each its own if not given. Only such steps are rounds: clients may be waited
    for in them, and a run may stop early."""


@dataclass(frozen=True, kw_only=True)
class RoundAlgorithm(Algorithm[S]):
    """A method that proceeds in rounds: select, assign, train, aggregate."""

    rounds: int = 100
    """Number of rounds."""
    participation: float = 1.0
    """Share of clients that take part in a round."""
    participants: int | None = None
    """Number of clients that take part in a round, instead of a share."""
    local_steps: int | None = None
    """Batches of local training per round, instead of epochs."""
    prox: float = 0.0
    """μ: weight of the proximal term (μ/2)·‖w − w_received‖² of local training (FedProx)."""
    fedprox_sign: Literal["towards", "away"] = "towards"
    """Where the proximal term pushes: towards the received model, or away from it, as FedScale's code does by a wrong
    sign (on which FIELDING was built): for replication only."""
    lr_decay: float = 1.0
    """Factor on the learning rate from one round to the next."""
    devices: Devices | None = None
    """Simulated devices: how long clients take and when they are online. Without them a round takes one unit."""
    overcommit: float = 1.3
    """Clients asked per client needed where devices are simulated; the fastest are kept."""
    measure: Literal["participants", "all"] = "participants"
    """Whose accuracy is measured: a round's participants (before and after), or at each session all clients."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("rounds", self.rounds, 1)
        at_least("overcommit", self.overcommit, 1)
        at_least("prox", self.prox, 0)
        if self.fedprox_sign == "away":
            self.check_away()
        if not 0 < self.lr_decay < math.inf:
            raise UserError(f"algorithm.lr_decay must be above 0, got {self.lr_decay}")
        if not 0 < self.participation <= 1:
            raise UserError(f"algorithm.participation must be in (0, 1], got {self.participation}")
        for name in ("participants", "local_steps"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 1)

    def check_away(self) -> None:
        """Refuse a sign without a term, and methods whose name in tables would not show it."""
        if not self.prox:
            raise UserError("algorithm.fedprox_sign: away turns the proximal term round: give algorithm.prox too")
        if AWAY not in self.title:
            raise UserError(f"algorithm.fedprox_sign: away is for FIELDING's comparison, {self.title} has no such runs")

    @property
    def unusual(self) -> tuple[str, ...]:
        """What sets runs apart from the method's usual ones; part of its title."""
        return (AWAY,) if self.fedprox_sign == "away" else ()

    @property
    def title(self) -> str:
        """Add what is not as usual: such runs are no repeats of others."""
        return super().title + (f" ({', '.join(self.unusual)})" if self.unusual else "")

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """Add what is measured of all clients, if that is asked for."""
        return (*self.extra_names, *(POPULATION if self.measure == "all" else ()))

    # who takes part ---------------------------------------------------------------------------------------------

    def wanted(self, fed: WithData) -> int:
        """Return how many clients a round should train."""
        return self.participants or max(1, round(self.participation * len(fed.data.participants)))

    def available(self, t: int, fed: Federation) -> NDArray[np.int64]:
        """Return the clients that take part, hold training data and are online now, ascending."""
        return self.online(fed.data.holding(t), fed)

    def online(self, clients: NDArray[np.int64], fed: Federation) -> NDArray[np.int64]:
        """Return those of some clients that are online now."""
        if self.devices is None:
            return clients
        return clients[profile_of(self.devices, fed.data.num_clients, fed.seed).online(clients, fed.now)]

    def select(
        self, t: int, fed: Federation, downloads: float = 1.0, uploads: float = 1.0, forwards: float = 0.0
    ) -> Cohort:
        """Draw this round's clients uniformly without replacement.

        Args:
            t: The round.
            fed: The federation.
            downloads: Models that each receives.
            uploads: Models that each sends.
            forwards: Passes of each over its training samples besides training.
        """
        return self.race(self.drawn(t, fed), self.wanted(fed), t, fed, Load(downloads, uploads, forwards))

    def drawn(self, t: int, fed: Federation) -> NDArray[np.int64]:
        """Draw the clients that are asked."""
        pool = self.available(t, fed)
        size = min(self.asked(self.wanted(fed)), len(pool))
        return rng(fed.seed, "select", t).choice(pool, size=size, replace=False)

    def asked(self, wanted: int) -> int:
        """Return how many clients to ask so that enough are done in time."""
        return wanted if self.devices is None else math.ceil(self.overcommit * wanted)

    def race(self, asked: NDArray[np.int64], wanted: int, t: int, fed: Federation, load: Load) -> Cohort:
        """Keep the ``wanted`` fastest of the clients that were asked, in ascending order."""
        if self.devices is None:
            return Cohort(sorted(asked.tolist()), load=load)
        profile = profile_of(self.devices, fed.data.num_clients, fed.seed)
        kept, seconds, lost = profile.keep(asked, self.durations(asked, t, fed, load), fed.now, wanted)
        return Cohort(sorted(kept.tolist()), seconds, lost, load=load)

    def durations(self, clients: NDArray[np.int64], t: int, fed: Federation, load: Load) -> NDArray[np.float64]:
        """Return how long each client needs to download, train and upload."""
        if self.devices is None:
            return np.ones(len(clients))
        sizes, wire = fed.data.sizes_of(clients, t), fed.layout.row_bytes
        trained = np.array([self.processed(size, fed) for size in sizes.tolist()], dtype=np.float64)
        down, up, forwards = load.of(clients)
        passes = 3 * trained + forwards * sizes
        profile = profile_of(self.devices, fed.data.num_clients, fed.seed)
        return profile.seconds(clients, passes, down * wire, up * wire, passes=1.0)

    def processed(self, size: int, fed: Federation) -> int:
        """Return how many samples a client with ``size`` samples goes through in a round."""
        norm = fed.layout.has_batch_norm
        return samples_processed(size, self.local_epochs, self.batch_size, self.local_steps, norm)

    def samples_planned(self, data: FederatedDataModule, seed: int) -> float:
        """As many clients a round as are wanted and hold data, each with the mean of what they would go through."""

        def samples(t: int) -> float:
            sizes = data.sizes(t)[data.holding(t)].tolist()
            each = [samples_processed(size, self.local_epochs, self.batch_size, self.local_steps) for size in sizes]
            return min(self.wanted(OnlyData(data)), len(each)) * sum(each) / max(len(each), 1)

        return total_of(self.rounds, samples)

    def opening_seconds(self, state: S, fed: Federation) -> float:
        """Return how much virtual time passes before the first round."""
        return 0.0

    # training and measuring -------------------------------------------------------------------------------------

    def job(self, client: int, start: Tensor, t: int, fed: Federation) -> Job:
        """Plan a client's local training in round ``t``."""
        shard = fed.shard(client, t)
        return Job(
            client,
            start,
            shard.train,
            self.local_epochs,
            self.batch_size,
            cycle=t,
            prox=-self.prox if self.fedprox_sign == "away" else self.prox,
            lr_factor=self.lr_decay**t,
            steps=self.local_steps,
            test=None if self.measure == "all" else shard.test,
        )

    def served(self, state: S, t: int, fed: Federation) -> Served:
        """Say which model each client uses on the data of round ``t``."""
        raise UserError(f"{type(self).__name__} cannot measure all clients: use algorithm.measure=participants")

    @property
    def takes_newcomers(self) -> bool:
        """Whether the method says anywhere which model a client gets that has not taken part."""
        of_rounds, of_all = ("newcomers", "served"), ("server_models", "clusters")
        return any(
            getattr(type(self), name) is not getattr(base, name)
            for base, names in ((RoundAlgorithm, of_rounds), (Algorithm, of_all))
            for name in names
        )

    def newcomers(self, state: S, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Yield the best fitting of the server's models; without one, what each client is served anyway."""
        if self.server_models(state) is not None or type(self).served is RoundAlgorithm.served:
            yield from super().newcomers(state, clients, t, fed)
            return
        served = self.served(state, t, fed)
        yield from (served.models[int(served.which[client])] for client in clients)

    def measures(self, state: S, t: int, fed: Federation) -> dict[str, float]:
        """Return what a session's row shows besides, where it takes the data or the clients' models to know it."""
        return {}

    @abstractmethod
    def step(self, state: S, t: int, fed: Federation) -> tuple[S, Round]:
        """Run round ``t`` (from 0): select, assign, train, aggregate."""

    def phases(self, fed: Federation) -> list[Phase[S]]:
        """Return what a run consists of: its rounds, and whatever a method does after them."""
        return [Phase("rounds", self.rounds, self.step)]
