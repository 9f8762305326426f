"""The moving parts of one run, how they advance together and how they are saved together. Runs on every rank."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from lightning import LightningModule
from lightning.fabric import Fabric
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.data.handed import checked
from flcluster.engine.arguments import EngineConfig, FabricConfig, seconds
from flcluster.engine.loggers import Loggers
from flcluster.engine.loops.base import Loop
from flcluster.engine.loops.rounds import RoundLoop
from flcluster.engine.loops.uploads import UploadLoop
from flcluster.engine.measures import newcomers_accuracies
from flcluster.engine.process import Interrupt, peak_gb
from flcluster.engine.progress import RunProgress
from flcluster.engine.restored import Restored
from flcluster.engine.start import START, write_weights
from flcluster.errors import UserError
from flcluster.federation.bank import Bank
from flcluster.federation.extras import Extras
from flcluster.federation.federation import Federation
from flcluster.federation.scores.scoring import Scoring
from flcluster.federation.together.rule import Wish
from flcluster.files import LAST, last_checkpoint, replacing, write_config, write_json
from flcluster.protocol.base import Algorithm
from flcluster.protocol.needs import check_needs
from flcluster.protocol.rounds import RoundAlgorithm
from flcluster.protocol.uploads import UploadAlgorithm
from flcluster.records.checkpoint import save_checkpoint
from flcluster.records.log import RunLog
from flcluster.records.provenance import add_provenance, code_version, provenance
from flcluster.records.recorder import RECENT, Recorder

"""Where a run's checkpoint lies in its directory."""


@dataclass(eq=False)
class Experiment:
    """Everything a run is made of, instantiated."""

    seed: int
    fabric: FabricConfig
    engine: EngineConfig
    data: FederatedDataModule
    model: LightningModule
    algorithm: Algorithm[Any]
    config: dict[str, Any]
    run_dir: Path
    loggers: Loggers = field(default_factory=Loggers)
    callbacks: Sequence[Any] = ()
    restored: Restored | None = None
    logger_ids: dict[str, str] = field(default_factory=dict)
    start: dict[str, Tensor] | None = None
    """Weights of the first models that no file has yet; the run's directory will."""
    extras: Extras = field(default_factory=Extras)
    """What the Trainer of each local training is given besides."""
    go_on: str = "flcluster fit --run_dir {quoted} --ckpt_path last{unlimited}"
    """How to go on with the run once it has stopped."""
    command: str = ""
    """What started it."""
    secrets: Sequence[str] = ()
    """What no file of the run may have in it."""
    unlimited: str = " --engine.max_updates null"
    """What that needs besides where ``engine.max_updates`` has stopped it: it would do so again at once."""

    def how_to_go_on(self, why: str) -> str:
        """Return the command that goes on with a run that stopped for some reason."""
        unlimited = self.unlimited if why.startswith("engine.max_updates") else ""
        return self.go_on.format(run_dir=self.run_dir, quoted=quote(str(self.run_dir)), unlimited=unlimited)


class ActiveRun:
    """The moving parts of a run and how they are saved together."""

    def __init__(self, exp: Experiment, fabric: Fabric, interrupt: Interrupt) -> None:
        self.exp, self.fabric, self.interrupt = exp, fabric, interrupt
        self.main = fabric.is_global_zero
        self._load_data()
        if self.main:
            write_config(exp.run_dir / "config.yaml", exp.config)
            if exp.start is not None:
                write_weights(exp.run_dir / START, exp.start)
        fabric.barrier()
        budget = int(exp.engine.memory_gb * 2**30)
        shared = fabric.world_size > 1
        self.fed = Federation(
            fabric,
            exp.model,
            exp.data,
            lambda width: Bank(exp.run_dir / "bank", width, budget, shared),
            exp.seed,
            Scoring(exp.engine.metric, exp.engine.metric_mode),
            given=bool(exp.start is not None or exp.config.get("model_start")),
            extras=exp.extras,
            together=Wish(exp.engine.clients_together, exp.algorithm.batch_size),
        )
        check_needs(exp.algorithm, self.fed)
        self.loop: Loop[Any] = make_loop(exp.algorithm, self.fed, exp.engine.look_ahead, exp.engine.session)
        self.loop.run_dir = exp.run_dir
        self.recorder = Recorder(
            exp.data.num_clients,
            exp.data.num_clusters,
            self.loop.extra_metrics,
            last=RECENT if self.loop.steady else 1,
            phased=not self.loop.steady,
        )
        self.elapsed = 0.0
        self.code = [code_version()] if self.main else []
        """The code that made this run, one entry each time it went on with another."""
        self.begun = exp.restored is not None
        """Whether there is a checkpoint to go on from."""
        self.fed.note = self._note
        if self.main:
            add_provenance(exp.run_dir, provenance(exp.command, self.code[0], fabric.world_size))
        self.log = RunLog(exp.run_dir / "run.log" if self.main else None, exp.secrets)
        shown = self.main and exp.engine.progress
        self.progress = RunProgress(exp.algorithm.title, self.loop.total, 0, enabled=shown, log=self.log.write)
        self.progress.score = self.fed.score
        self.recorder.higher = self.fed.score.higher

    def _note(self, text: str) -> None:
        """Show what takes long before the first step; being told to stop then leaves nothing to go on from."""
        if self.interrupt.reason is not None and not self.begun:
            raise UserError(f"{self.interrupt.reason} before the first checkpoint: start the run anew")
        self.progress.note(text)

    def _start_loggers(self) -> None:
        if self.main:
            self.exp.loggers.start(self.exp.config, self.progress.note)

    def _load_data(self) -> None:
        if self.fabric.local_rank == 0:
            self.exp.data.prepare_data()
        self.fabric.barrier()
        self.exp.data.setup("fit")
        self.odd = checked(self.exp.data)
        """What of the data may be meant so, but is odd."""

    def _set_aside(self, restored: Restored) -> None:
        """Where a run goes on from another checkpoint than the last, take that away: its rows will be overwritten."""
        if restored.note:
            self.progress.note(restored.note)
        last = restored.path.with_name(LAST)
        if self.main and restored.path != last and last.exists():
            last.replace(last.with_name("set_aside.ckpt"))

    def begin(self) -> None:
        """Make the first state, or take up a checkpoint."""
        self.started = self.saved = time.monotonic()
        self.stop_at = seconds(self.exp.engine.max_time)
        folder = self.exp.run_dir if self.main else None
        if self.exp.restored is None:
            self.recorder.open(folder, None)
            path = f"by lightning.Trainer ({self.fed.by_trainer})" if self.fed.by_trainer else "by flcluster's own loop"
            path += f", {self.fed.pace}"
            scored = "" if self.fed.score.plain else f"; scored by {self.fed.score.told}"
            self.progress.note(
                f"writing to {self.exp.run_dir}; local training {path}{scored}; preparing the first models"
            )
            for text in self.odd:
                self.progress.note(text)
            self.loop.begin()
            self._start_loggers()
            self._session()
            self.save()
            self.begun = True
        else:
            self.restore(self.exp.restored.content)
            self.recorder.open(folder, self.exp.restored.content["recorder"]["positions"])
            self._set_aside(self.exp.restored)
            self._start_loggers()
            self.exp.restored = None  # its rows have been copied
            self.progress.note(f"going on in {self.exp.run_dir} at {self.loop.position} of {self.loop.total}")
        self.progress.start_from(self.loop.position)
        self.fabric.call("on_fit_start", loop=self.loop)

    def drive(self) -> str | None:
        """Step until the end; return why it stopped early, if it did."""
        loop = self.loop
        while loop.position < loop.total:
            why = self._reason_to_stop()
            if why:
                return why
            exchanges = loop.advance()
            for exchange in exchanges:
                self.recorder.add(exchange, loop.epoch)
            for trouble in loop.troubles:
                self.progress.note(trouble)
            loop.troubles.clear()
            if loop.position % loop.session == 0 or loop.position == loop.total:
                self._session()
            self.progress.update(loop.position, self.recorder.shown, loop.phase)
        return None

    def _session(self) -> None:
        loop = self.loop
        row = self.recorder.end_session(loop.epoch, loop.time, loop.cluster_accuracies(), loop.gauges(), loop.phase)
        if loop.everyone is not None:
            self.recorder.meet(loop.epoch, loop.everyone, loop.tenth_done)
        if self.main:
            self.exp.loggers.log(row, self.recorder.updates, self.progress.note)
        self.fabric.call("on_session_end", loop=self.loop, metrics=row)

    def _reason_to_stop(self) -> str | None:
        """Return why the run should stop, if it should; write a checkpoint when one is due."""
        engine = self.exp.engine
        meet = self.fed.ranks.size == 1 or not self.loop.apart
        if meet and (why := self._agreed()):
            return why
        if engine.max_updates is not None and self.loop.position >= engine.max_updates:
            return f"engine.max_updates={engine.max_updates}"
        return None

    def _agreed(self) -> str | None:
        """Agree over all ranks whether to stop, and whether a checkpoint is due."""
        engine, now = self.exp.engine, time.monotonic()
        why = self.interrupt.reason or self.loop.stop
        if self.stop_at is not None and now - self.started >= self.stop_at:
            why = f"time limit engine.max_time={engine.max_time}"
        due = now - self.saved >= 60 * engine.checkpoint_minutes
        stop, save = self.fed.ranks.either(why is not None, due and self.main)
        self.fed.bank.next_step()  # the ranks have just met
        if save and not stop:
            self.save()
        return self.fed.ranks.agree(why or "another process was told to stop") if stop else None

    def finish(self, why: str | None) -> dict[str, Any]:
        """Write the checkpoint and the summary."""
        self.save()
        self.fabric.call("on_fit_end", loop=self.loop)
        t, loop = self.loop.data_cycle, self.loop
        joined = newcomers_accuracies(loop.algorithm, loop.state, t, self.fed) if loop.position else {}
        summary = {**self.summary(why), **joined}
        if self.main:
            for name, content in self.exp.algorithm.files(self.loop.state, self.loop.position, self.fed).items():
                with replacing(self.exp.run_dir / name) as temporary:
                    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
            write_json(self.exp.run_dir / "summary.json", summary)
            self.exp.loggers.finish(summary, self.exp.run_dir, self.progress.note)
        self.fabric.barrier()
        if lesson := self.recorder.nothing_learnt():
            self.progress.note(lesson)
        if why:
            self.progress.note(f"stopped at {self.loop.position} of {self.loop.total}: {why}")
            self.progress.note(f"go on with: {self.exp.how_to_go_on(why)}")
        return summary

    def close(self) -> None:
        """Close what is open."""
        self.recorder.close()

    def summary(self, why: str | None) -> dict[str, Any]:
        """Return the flat summary of the run so far (cluster accuracy as of the last session)."""
        exp, wall = self.exp, self.elapsed + time.monotonic() - self.started
        return {
            "algorithm": exp.algorithm.title,
            **exp.algorithm.described,
            "dataset": exp.data.name,
            **exp.data.described,
            "num_clusters": exp.data.num_clusters,
            "num_clients": exp.data.num_clients,
            "seed": exp.seed,
            **self.fed.score.entries,
            "commit": "+".join(self.code),
            "status": f"stopped: {why}" if why else "finished",
            **self.recorder.summary(),
            "wall_seconds": wall,
            "updates_per_second": self.recorder.updates / max(wall, 1e-9),
            "peak_memory_gb": peak_gb(),
        }

    def save(self) -> None:
        """Write one checkpoint of everything."""
        content = {
            "position": self.loop.position,
            "bank": self.fed.bank.save(),
            "travels": self.fed.travels,
            "loop": self.loop.save(),
            "recorder": self.recorder.save(),
            "callbacks": [c.state_dict() if hasattr(c, "state_dict") else {} for c in self.exp.callbacks],
            "logger_ids": self.exp.logger_ids,
            "code": self.code,
            "config": self.exp.config,
            "elapsed": self.elapsed + time.monotonic() - self.started,
        }
        if self.main:
            save_checkpoint(last_checkpoint(self.exp.run_dir), content)
        self.fed.ranks.barrier()
        self.fed.bank.committed()
        self.saved = time.monotonic()

    def restore(self, content: dict[str, Any]) -> None:
        """Bring everything back to a checkpoint's moment."""
        self.fed.bank.restore(content["bank"])
        self.loop.restore(content["loop"])
        self.recorder.restore(content["recorder"])
        self.elapsed = content["elapsed"]
        self.code = list(dict.fromkeys([*content.get("code", ["unknown"]), *self.code]))
        for callback, state in zip(self.exp.callbacks, content["callbacks"], strict=True):
            if hasattr(callback, "load_state_dict"):
                callback.load_state_dict(state)


def make_loop(algorithm: Algorithm[Any], fed: Federation, look_ahead: int | None, session: int | None) -> Loop[Any]:
    """Return the loop a method runs in."""
    if isinstance(algorithm, UploadAlgorithm) and fed.data.rounds_only:
        names = type(algorithm).__name__, type(fed.data).__name__
        raise UserError(f"{names[0]} has no rounds, but {names[1]} changes with them: use a method in rounds")
    if isinstance(algorithm, UploadAlgorithm):
        return UploadLoop(algorithm, fed, look_ahead, session)
    if isinstance(algorithm, RoundAlgorithm):
        if len(fed.data.newcomers) and not algorithm.takes_newcomers:
            raise UserError(f"data.unseen: {type(algorithm).__name__} does not say what newcomers get: write newcomers")
        return RoundLoop(algorithm, fed, session)
    raise UserError(f"{type(algorithm).__name__} is neither an UploadAlgorithm nor a RoundAlgorithm")
