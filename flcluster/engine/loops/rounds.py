"""Round by round, and phase by phase where a method does something else after its rounds."""

import math
from typing import Any, ClassVar, TypeVar

from flcluster.engine.loops.base import Loop
from flcluster.engine.loops.guard import broken
from flcluster.engine.loops.returned import check_extra, check_kept, check_round, check_served, pair_of, row_of
from flcluster.engine.measures import both_accuracies, local_accuracies, measured
from flcluster.errors import UserError
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Trained
from flcluster.protocol.outcome import Round
from flcluster.protocol.rounds import Phase, RoundAlgorithm
from flcluster.records.exchange import Exchange
from flcluster.records.population import Population

S = TypeVar("S")


IDLE = 60.0
"""Virtual seconds until the next try of a round that found nobody online."""


class RoundLoop(Loop[S]):
    """Runs a method's phases one after the other, step by step."""

    algorithm: RoundAlgorithm[S]
    unit: ClassVar[str] = "rounds"

    def __init__(self, algorithm: RoundAlgorithm[S], fed: Federation, session: int | None) -> None:
        self.phases = algorithm.phases(fed)
        super().__init__(algorithm, fed, sum(phase.steps for phase in self.phases), session or 1)
        self.undone = False
        """Whether the last step was taken back."""
        self.lost = 0
        """Clients so far that were asked and went offline before they were done."""
        self.owed = 0
        """Forward passes of the server that no client's update has been told of yet."""

    def begin(self) -> None:
        """Make the first state, which may take virtual time."""
        super().begin()
        self.time = self.algorithm.opening_seconds(self.state, self.fed)

    def where(self, position: int) -> tuple[Phase[S], int]:
        """Return the phase that a step of the run belongs to, and its number there."""
        for phase in self.phases[:-1]:
            if position < phase.steps:
                return phase, position
            position -= phase.steps
        return self.phases[-1], position

    @property
    def last(self) -> tuple[Phase[S], int]:
        """The phase and number of the step that was taken last (the first one, before it)."""
        return self.where(max(self.position - 1, 0))

    @property
    def phase(self) -> str:
        """What the steps under way are called."""
        return self.last[0].name

    @property
    def steady(self) -> bool:
        """Whether nothing follows the rounds."""
        return len(self.phases) == 1

    @property
    def closing(self) -> bool:
        """Whether the rounds are over, and what follows them is under way."""
        return self.last[0].data_round is not None

    def advance(self) -> list[Exchange]:
        """Take one step: run a round."""
        phase, t = self.where(self.position)
        self.fed.now = self.time
        self.undone = False
        self.fed.largest = 0.0 if self.position == 0 else None
        with self.fed.bank.tracked() as bank:
            state, done = self._taken(phase, t)
            if why := broken(self.state, state, self.gaps):
                self.check_arithmetic(why, self.fed.largest or 0.0, "step")
                bank.undo()
                self.undone = True
                self.troubles.append(self._told(why, done))
        self.state = self.state if self.undone else state
        for result in done.results:
            self.heard(result.finite)
            if not result.finite:
                self.troubles.append(f"refused the upload of client {result.client}, which has NaN or infinite values")
        self.position = self.epoch = self.position + 1
        waits = self.algorithm.devices is not None and not done.results and phase.data_round is None
        self.time += max(done.cohort.seconds, IDLE) if waits else done.cohort.seconds
        self.lost += done.cohort.lost
        self.owed += done.server_compute
        after = self._accuracies_after(done)
        return [self._exchange(i, result, done, after[i]) for i, result in enumerate(done.results)]

    def _taken(self, phase: Phase[S], t: int) -> tuple[S, Round]:
        """Let the method take a step, and look at what it returns."""
        algorithm, row = self.algorithm, self.fed.layout.row
        method = getattr(phase.step, "__name__", "step")
        with self.looking(method):
            state, done = pair_of(phase.step(self.state, t, self.fed), Round, algorithm, method)
        check_round(done, row, self.extra_metrics, algorithm, method)
        if self.early:
            check_kept(algorithm, state, row, method)
        return state, done

    def _told(self, why: str, done: Round) -> str:
        clients = [str(result.client) for result in done.results]
        shown = ", ".join(clients[:10]) + (f" and {len(clients) - 10} more" if len(clients) > 10 else "")
        return f"undid {self.phase} {self.position + 1} (clients {shown}): {why} would not be finite"

    def _exchange(self, i: int, result: Trained[Any], done: Round, after: float) -> Exchange:
        """Tell of one participant."""
        shard, wire = self.fed.shard(result.client, self.data_cycle), self.fed.layout.row_bytes
        sent, received, passes = done.cost(i)
        return Exchange(
            time=self.time,
            client=result.client,
            cycle=self.position - 1,
            samples=result.size,
            staleness=result.staleness,
            status="refused" if not result.finite else "undone" if self.undone else "accepted",
            acc_before=result.accuracy,
            acc_after=after,
            loss=result.loss,
            true=shard.mixture,
            label=None if done.cohort.labels is None else done.cohort.labels[i],
            uploaded=round(wire * sent) + done.upload_bytes,
            downloaded=round(wire * received) + done.download_bytes,
            client_compute=3 * result.processed + round(passes * len(shard.train)),
            server_compute=self._owed(),
            extra=done.extra,
        )

    def _accuracies_after(self, done: Round) -> list[float]:
        """Return how good each participant's new model is on its test set, unless all clients are measured."""
        if self.algorithm.measure == "all" or self.undone:
            return [math.nan] * len(done.results)
        after = [result.accuracy_after for result in done.results]
        asked = [i for i, found in enumerate(after) if found is None]
        for i in asked if self.early else ():
            row_of(done.row(i), self.fed.layout.row, "each of its Round's models", self.algorithm, "step")
        tests = [self.fed.shard(done.results[i].client, self.data_cycle).test for i in asked]
        found = dict(zip(asked, self.fed.accuracies(done.models, [done.used[i] for i in asked], tests), strict=True))
        return [float(found[i]) if known is None else known for i, known in enumerate(after)]

    def _owed(self) -> int:
        owed, self.owed = self.owed, 0
        return owed

    def gauges(self) -> dict[str, float]:
        """Add what is measured of all clients, on the data of the round that was last run."""
        t, data = self.data_cycle, self.fed.data
        measures = self.algorithm.measures(self.state, t, self.fed)
        check_extra(measures, self.extra_metrics, self.algorithm, "measures")
        own = {**super().gauges(), **measures, **self._changed()}
        everyone = self.algorithm.measure == "all"
        if not everyone and data.global_test() is None:
            return own
        served = check_served(self.algorithm.served(self.state, t, self.fed), data.num_clients, self.algorithm)
        served = served.without(data.newcomers)
        local = local_accuracies(served, t, self.fed)
        self.everyone = Population(served.labels, local)
        own |= both_accuracies(served, local, self.fed)
        return {**own, **measured(served, local, t, self.fed), "lost": float(self.lost)} if everyone else own

    def _changed(self) -> dict[str, float]:
        """Count the clients whose data changed in the rounds since the last session, for data that drift."""
        if not self.fed.data.rounds_only:
            return {}
        last = self.data_cycle
        first = last + 1 if self.position == 0 else max(0, last - (self.position - 1) % self.session)
        return {"changed": float(sum(len(self.fed.data.drifted(t)) for t in range(first, last + 1)))}

    @property
    def data_cycle(self) -> int:
        """Return the round of the data that the last step used."""
        phase, t = self.last
        return t if phase.data_round is None else phase.data_round

    def save(self) -> dict[str, Any]:
        """Add where the run is, the lost clients, and what the server has computed since the last client's update."""
        phase, t = self.last
        return {**super().save(), "phase": phase.name, "step": t, "lost": self.lost, "owed": self.owed}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped; phases that have ended must be as long as they were."""
        super().restore(saved)
        self.lost, self.owed = saved["lost"], saved["owed"]
        if not self.steady and (self.phase, self.last[1]) != (saved["phase"], saved["step"]):
            raise UserError(
                f"algorithm.rounds is {self.algorithm.rounds}, but this run has gone on to step {saved['step'] + 1} of "
                f"its {saved['phase']}: what follows the rounds cannot be made again, start a new run"
            )
