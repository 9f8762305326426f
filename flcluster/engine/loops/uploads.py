"""Upload by upload along the clock, with clients trained ahead of their turn."""

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from flcluster.data import Shard
from flcluster.devices.schedule import Workload, scheduled
from flcluster.engine.loops.base import Loop
from flcluster.engine.loops.guard import broken
from flcluster.engine.loops.returned import check_kept, check_reply, pair_of
from flcluster.engine.measures import both_accuracies, local_accuracies
from flcluster.federation.federation import Federation
from flcluster.federation.jobs import Job, Trained
from flcluster.federation.layout import all_finite, square_norm
from flcluster.federation.together.look_ahead import LookAhead
from flcluster.federation.worker import Worker
from flcluster.protocol.outcome import Served
from flcluster.protocol.uploads import Reply, Upload, UploadAlgorithm
from flcluster.records.exchange import Exchange

S = TypeVar("S")


class UploadLoop(Loop[S]):
    """Walks along the schedule of uploads in virtual-time order, with clients trained ahead of their turn."""

    algorithm: UploadAlgorithm[S]
    unit: ClassVar[str] = "updates"

    def __init__(
        self, algorithm: UploadAlgorithm[S], fed: Federation, look_ahead: int | None, session: int | None
    ) -> None:
        data, participants = fed.data, fed.data.participants
        total = round(algorithm.cycles * len(participants))
        super().__init__(algorithm, fed, total, session or len(participants))
        work = Workload(data.size, algorithm.local_epochs, fed.layout.row_bytes)
        self.schedule = scheduled(algorithm.arrivals, participants, total, fed.seed, work)
        self.clients, self.cycles = self.schedule.clients.tolist(), self.schedule.cycles().tolist()
        self.look_ahead = look_ahead
        self.ahead: LookAhead[tuple[Trained[Tensor], Shard]] = LookAhead(self.clients, look_ahead or fed.at_once)
        self.starts = fed.table("start")
        self.synced = torch.zeros(data.num_clients, dtype=torch.int64)
        self.carries: dict[int, Tensor] = {}
        self.anchored: set[int] = set()

    @property
    def apart(self) -> bool:
        """While uploads trained ahead are applied, but at the start of a session, where callbacks stop runs."""
        return self.position in self.ahead.ready and self.position % self.session != 0

    def advance(self) -> list[Exchange]:
        """Apply the next upload."""
        n = self.position
        trained, shard = self.ahead.take(n, self._trained)
        client = self.clients[n]
        up = Upload(
            client=client,
            cycle=self.cycles[n],
            row=trained.row,
            start=self.algorithm.trains_from(self.state, self.starts[client]).to(self.fed.device),
            last_sync=int(self.synced[client]),
            epoch=self.epoch,
            size=trained.size,
            carry=self.carries.get(client),
            seen=trained.seen,
            progress=n / self.total,
        )
        self.fed.fabric.call("on_upload", loop=self, upload=up)
        reply = self._serve(up)
        self.position, self.time = n + 1, float(self.schedule.times[n])
        return [self._exchange(n, up, reply, trained, shard)]

    def _serve(self, up: Upload) -> Reply | str:
        """Let the method answer; a bad upload leaves everything as it was: return ``refused`` or ``undone``."""
        why = self._refusal(up)
        self.heard(why is None)
        if why:
            self.fed.fabric.call("on_refused", loop=self, upload=up, why=why)
            self.troubles.append(f"refused the upload of client {up.client}, which {why}")
            return "refused"
        with self.fed.bank.tracked() as bank:
            state, reply = self._answer(up)
            why = broken(self.state, state, self.gaps) or broken(None, (reply.row, reply.anchor), name="reply")
            if why:
                self.check_arithmetic(why, float(square_norm(up.row)), "upload")
                bank.undo()
                self.troubles.append(f"undid the upload of client {up.client}: {why} would not be finite")
                return "undone"
        self.state = state
        self.epoch += 1
        self._hand_out(up.client, reply)
        return reply

    def _answer(self, up: Upload) -> tuple[S, Reply]:
        """Let the method answer, and look at what it returns."""
        algorithm, row = self.algorithm, self.fed.layout.row
        with self.looking("upload"):
            state, reply = pair_of(algorithm.upload(self.state, up, self.fed), Reply, algorithm, "upload")
        check_reply(reply, row, self.extra_metrics, algorithm, "upload")
        if self.early:
            check_kept(algorithm, state, row, "upload")
        return state, reply

    def _refusal(self, up: Upload) -> str | None:
        row = up.row
        if row.shape != self.fed.layout.row.shape:
            return f"has shape {tuple(row.shape)} instead of {tuple(self.fed.layout.row.shape)}"
        if not all_finite(row):
            return "has NaN or infinite values"
        return None if up.seen is None or bool(up.seen.isfinite().all()) else "has NaN or infinite losses"

    def _hand_out(self, client: int, reply: Reply) -> None:
        self.starts[client] = reply.row
        self.synced[client] = self.epoch
        if reply.carry is not None:
            self.carries[client] = reply.carry
        self.anchored.discard(client)
        if reply.anchor is not None:
            self.fed.table("anchor")[client] = reply.anchor
            self.anchored.add(client)

    def _trained(self, turns: list[int]) -> Iterator[tuple[Trained[Tensor], Shard]]:
        """Train the clients of some turns."""
        for n in turns:
            if self.clients[n] not in self.starts:
                self._hand_out_first(self.clients[n])
        shards = [self.fed.shard(self.clients[n], self.cycles[n]) for n in turns]
        jobs = [self._job(n, shard) for n, shard in zip(turns, shards, strict=True)]

        def observe(worker: Worker, job: Job, trained: Trained[Tensor]) -> Tensor | None:
            return self.algorithm.observe(worker, trained.row, self.fed)

        return zip(self.fed.train(jobs, observe), shards, strict=True)

    def _hand_out_first(self, client: int) -> None:
        epoch = self.synced[client].clone()
        joined = self.algorithm.join(self.state, client, self.fed)
        self._hand_out(client, check_reply(joined, self.fed.layout.row, self.extra_metrics, self.algorithm, "join"))
        self.synced[client] = epoch

    def _job(self, n: int, shard: Shard) -> Job:
        client, algorithm = self.clients[n], self.algorithm
        anchor = self.fed.table("anchor")[client] if algorithm.prox and client in self.anchored else None
        return Job(
            client,
            algorithm.trains_from(self.state, self.starts[client]),
            shard.train,
            algorithm.local_epochs,
            algorithm.batch_size,
            cycle=self.cycles[n],
            prox=algorithm.prox,
            anchor=anchor,
            test=shard.test,
        )

    def _exchange(self, n: int, up: Upload, reply: Reply | str, trained: Trained[Tensor], shard: Shard) -> Exchange:
        before, size, wire = trained.accuracy, trained.size, self.fed.layout.row_bytes
        train_cost = 3 * size * self.algorithm.local_epochs
        common: dict[str, Any] = dict(
            time=self.time,
            client=up.client,
            cycle=up.cycle,
            samples=size,
            staleness=up.staleness,
            acc_before=before,
            loss=trained.loss,
            true=shard.mixture,
        )
        if isinstance(reply, str):  # the client keeps its last model
            after = self.fed.accuracy(self.starts[up.client].to(self.fed.device), shard.test)
            cost = wire if self.algorithm.sends else 0
            return Exchange(
                **common, status=reply, acc_after=after, uploaded=cost, downloaded=cost, client_compute=train_cost
            )
        after = before if reply.row is up.row else self.fed.accuracy(reply.row, shard.test)
        return Exchange(
            **common,
            status="deprecated" if reply.deprecated else "accepted",
            acc_after=after,
            estimate=reply.estimate,
            fresh=reply.fresh,
            uploaded=reply.upload_models * wire,
            downloaded=reply.download_models * wire,
            client_compute=train_cost + reply.client_forwards,
            server_compute=reply.server_forwards,
            extra=reply.extra,
        )

    def gauges(self) -> dict[str, float]:
        """Add both accuracies of the clients that have uploaded, where the data have a global test set."""
        own, data = super().gauges(), self.fed.data
        if data.global_test() is None:
            return own
        held = np.isin(np.arange(data.num_clients), self.clients[: self.position])
        served = Served(self.starts, np.zeros(len(held), dtype=np.int64), np.where(held, np.arange(len(held)), -1))
        return own | both_accuracies(served, local_accuracies(served, 0, self.fed), self.fed)

    def save(self) -> dict[str, Any]:
        """Add what the clients hold; rows are in the bank.

        Models that were trained ahead one by one are trained again. Those of several clients in one pass are kept: the
        last bits may depend on who is trained beside whom.
        """
        ready = self.ahead.ready.items() if self.fed.together > 1 else ()
        return {
            **super().save(),
            "ready": {turn: vars(trained) for turn, (trained, _) in ready},
            "synced": self.synced,
            "carries": dict(self.carries),
            "anchored": sorted(self.anchored),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on where a checkpoint stopped."""
        super().restore(saved)
        self.synced, self.carries = saved["synced"], dict(saved["carries"])
        self.anchored = set(saved["anchored"])
        self.starts = self.fed.table("start")
        self.ahead = LookAhead(self.clients, self.look_ahead or self.fed.at_once)
        for turn, kept in saved.get("ready", {}).items():
            trained = Trained(**{**kept, "row": kept["row"].to(self.fed.device)})
            self.ahead.ready[turn] = trained, self.fed.shard(self.clients[turn], self.cycles[turn])
