"""Which loop a method runs in: upload by upload, or round by round."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from flcluster.data import Shard
from flcluster.engine.loop import Loop
from flcluster.engine.measures import both_accuracies, local_accuracies, measured
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.protocol.rounds import Round, RoundAlgorithm
from flcluster.records.exchange import Exchange

S = TypeVar("S")


IDLE = 60.0
"""Virtual seconds until the next try of a round that found nobody online."""


class RoundLoop(Loop[S]):
    """Runs the method's rounds one after the other."""

    algorithm: RoundAlgorithm[S]
    unit: ClassVar[str] = "rounds"

    def __init__(self, algorithm: RoundAlgorithm[S], fed: Federation, session: int | None) -> None:
        super().__init__(algorithm, fed, algorithm.length(fed), session or 1)
        self.lost = 0
        """Clients so far that were asked and went offline before they were done."""
        self.owed = 0
        """Forward passes of the server that no client's update has been told of yet."""

    def begin(self) -> None:
        """Make the first state, which may take virtual time."""
        super().begin()
        self.time = self.algorithm.opening_seconds(self.state, self.fed)

    @property
    def steady(self) -> bool:
        """Whether nothing follows the rounds."""
        return self.total == self.algorithm.rounds

    @property
    def closing(self) -> bool:
        """Whether the rounds are over, and what follows them is under way."""
        return self.position > self.algorithm.rounds

    def advance(self) -> list[Exchange]:
        """Run one round."""
        t = self.position
        self.fed.now = self.time
        self.state, done = self.algorithm.step(self.state, t, self.fed)
        self.position = self.epoch = t + 1
        waits = self.algorithm.devices is not None and not done.trained and t < self.algorithm.rounds
        self.time += max(done.seconds, IDLE) if waits else done.seconds
        self.lost += done.lost
        self.owed += done.server_compute
        return [self._exchange(t, i, trained, done) for i, trained in enumerate(done.trained)]

    def _exchange(self, t: int, i: int, trained: Trained, done: Round) -> Exchange:
        """Tell of one participant; its new model is measured on its test set unless all clients are measured."""
        shard, wire = self.fed.data.shard(trained.client, self._cycle(t)), self.fed.layout.row_bytes
        everyone = self.algorithm.measure == "all"
        own = done.processed_of
        processed = self.algorithm.processed(trained.size, self.fed) if own is None else own(i)
        return Exchange(
            time=self.time,
            client=trained.client,
            cycle=t,
            samples=trained.size,
            staleness=trained.seen.get("staleness", 1),
            status="accepted" if trained.seen["finite"] else "refused",
            acc_before=trained.seen["accuracy"],
            acc_after=math.nan if everyone else self._accuracy_after(i, trained, done, shard),
            loss=trained.loss,
            true=shard.mixture,
            label=done.labels[i] if done.labels else None,
            uploaded=wire * _of(done.upload_models, i) + done.upload_bytes,
            downloaded=wire * _of(done.download_models, i) + done.download_bytes,
            client_compute=3 * processed + done.forwards_of(i),
            server_compute=self._owed(),
            extra=done.extra,
        )

    def _accuracy_after(self, i: int, trained: Trained, done: Round, shard: Shard) -> float:
        if "after" in trained.seen:
            return float(trained.seen["after"])
        return self.fed.accuracy(done.row_of(i).to(self.fed.device), shard.test)

    def _owed(self) -> int:
        owed, self.owed = self.owed, 0
        return owed

    def gauges(self) -> dict[str, float]:
        """Add what is measured of all clients, on the data of the round that was last run."""
        t = self._cycle(max(self.position - 1, 0))
        own = {**super().gauges(), **self.algorithm.measures(self.state, t, self.fed)}
        everyone = self.algorithm.measure == "all"
        if not everyone and self.fed.data.global_test() is None:
            return own
        served = self.algorithm.served(self.state, t, self.fed)
        local = local_accuracies(served, t, self.fed)
        own |= both_accuracies(served, local, self.fed)
        return {**own, **measured(served, local, t, self.fed), "lost": float(self.lost)} if everyone else own

    def _cycle(self, t: int) -> int:
        """Return the data's round in step ``t``: what a method does after its rounds, it does on the last one's."""
        return min(t, self.algorithm.rounds - 1)

    def save(self) -> dict[str, Any]:
        """Add the number of lost clients, and what the server has computed since the last client's update."""
        return {**super().save(), "lost": self.lost, "owed": self.owed}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped."""
        super().restore(saved)
        self.lost, self.owed = saved["lost"], saved.get("owed", 0)


def _of(models: int | Sequence[int], i: int) -> int:
    return models if isinstance(models, int) else models[i]
