"""Which loop a method runs in: upload by upload, or round by round."""

import math
from typing import Any, ClassVar, TypeVar

from flcluster.algorithm import Algorithm, RoundAlgorithm, UploadAlgorithm
from flcluster.errors import UserError
from flcluster.federation import Federation
from flcluster.loop import Exchange, Loop
from flcluster.upload_loop import UploadLoop

S = TypeVar("S")


class RoundLoop(Loop[S]):
    """Runs the method's rounds one after the other."""

    algorithm: RoundAlgorithm[S]
    unit: ClassVar[str] = "rounds"

    def __init__(self, algorithm: RoundAlgorithm[S], fed: Federation, session: int | None) -> None:
        super().__init__(algorithm, fed, algorithm.rounds, session or 1)

    def advance(self) -> list[Exchange]:
        """Run one round; every participant's new model is measured on its test set."""
        t = self.position
        self.state, done = self.algorithm.step(self.state, t, self.fed)
        self.position = self.epoch = t + 1
        wire = self.fed.layout.row_bytes
        out = []
        for i, trained in enumerate(done.trained):
            shard = self.fed.data.shard(trained.client, t)
            out.append(
                Exchange(
                    time=float(t + 1),
                    client=trained.client,
                    cycle=t,
                    samples=trained.size,
                    staleness=1,
                    status="accepted" if trained.seen["finite"] else "refused",
                    acc_before=trained.seen["accuracy"] if trained.seen["finite"] else math.nan,
                    acc_after=self.fed.accuracy(done.row_of(i), shard.test),
                    loss=trained.loss,
                    true=shard.mixture,
                    uploaded=wire * done.upload_models,
                    downloaded=wire * done.download_models,
                    client_compute=3 * trained.size * self.algorithm.local_epochs + done.forwards_of(i),
                    extra=done.extra,
                )
            )
        return out


def make_loop(algorithm: Algorithm[Any], fed: Federation, look_ahead: int | None, session: int | None) -> Loop[Any]:
    """Return the loop a method runs in."""
    if isinstance(algorithm, UploadAlgorithm):
        return UploadLoop(algorithm, fed, look_ahead, session)
    if isinstance(algorithm, RoundAlgorithm):
        return RoundLoop(algorithm, fed, session)
    raise UserError(f"{type(algorithm).__name__} is neither an UploadAlgorithm nor a RoundAlgorithm")
