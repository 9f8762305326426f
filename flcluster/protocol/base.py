"""What a method is: hyper-parameters in a frozen object, a state that goes in and comes out anew.

A method's state is a frozen dataclass of tensors and small values: exactly what a checkpoint holds. Rows per client
live in the federation's tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, get_args

from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.errors import UserError
from flcluster.errors import at_least as at_least
from flcluster.federation.federation import Federation

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC, Generic[S]):
    """What every method has: a local budget, a way to begin, and models to show."""

    local_epochs: int = 5
    """Epochs of local training per cycle or round."""
    batch_size: int = 128
    """Batch size of local training."""

    state_type: ClassVar[type]
    """What the state is: the type in brackets where a method says what it is, ``RoundAlgorithm[MyState]``."""
    extra_names: ClassVar[tuple[str, ...]] = ()
    """Names of what the method logs beside the common metrics: in replies and rounds, or as ``gauges``."""

    paper: ClassVar[str] = ""
    """Who published it and when, as ``flcluster methods`` lists it; empty for what is no paper's."""
    printed: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    """Names in tables that stand for this class with some settings: both are accepted where a method is named."""
    needs: ClassVar[tuple[str, ...]] = ()
    """What the method must be told that not all data and modules tell: constants of ``flcluster.protocol.needs``. A run
    without it is refused before anything is trained; parts of a method (a selection, a representation) say theirs."""

    named_clusters: ClassVar[bool] = True
    """Whether model k stands for the data's cluster k (false: the indices have no common meaning)."""

    def __init_subclass__(cls) -> None:
        for base in getattr(cls, "__orig_bases__", ()):
            for given in get_args(base):
                if isinstance(given, type) and "state_type" not in vars(cls):
                    cls.state_type = given

    def __post_init__(self) -> None:
        at_least("local_epochs", self.local_epochs, 1)
        at_least("batch_size", self.batch_size, 1)

    @abstractmethod
    def init(self, fed: Federation) -> S:
        """Return the state before the first step."""

    def clusters(self, state: S) -> Tensor | None:
        """Return the cluster models ``[K, P]``, or None for a method that has none."""
        return None

    def server_models(self, state: S) -> Tensor | None:
        """Return the models that the server holds, ``[K, P]``; None where all models are with the clients."""
        return self.clusters(state)

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

    def cluster_of(self, state: S, client: int) -> int | None:
        """Return which of the server's models a client uses that has none of its own; None if it uses none of them."""
        return None

    def own_row(self, state: S, client: int) -> tuple[str, int]:
        """Return the table and the row of it that hold a client's model, where clients have models of their own."""
        return "start", client

    def samples_planned(self, data: FederatedDataModule, seed: int) -> float:
        """Return how many samples clients will go through in local training, a sample counted each time it is used.

        It is told before anything runs, of data that are set up: where clients are drawn, their mean counts. What a
        server computes is not in it.
        """
        raise UserError(f"{type(self).__name__} does not say how much it will train: give it a samples_planned")

    def newcomers(self, state: S, clients: Sequence[int], t: int, fed: Federation) -> Iterator[Tensor]:
        """Yield what each of some clients gets that joins at the end, with the data of cycle ``t``, and is scored with.

        Of the models that the server has, the one that fits its training data best.
        """
        models = self.server_models(state)
        if models is None:
            raise UserError(f"data.unseen: {type(self).__name__} does not say what newcomers get: write newcomers")
        for client in clients:
            view = fed.shard(client, t).train
            losses = [fed.loss(model, view) for model in models] if len(models) > 1 and len(view) else [0.0]
            yield models[losses.index(min(losses))]

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
