"""What a run's models are scored by: what the score is called, and whether higher is better. Known once, for all."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flcluster.errors import UserError

Mode = Literal["auto", "min", "max"]
"""Which way a score is better; auto goes by its name."""

LOWER = {
    *("loss", "error", "err", "mse", "rmse", "mae", "mape", "smape", "rmsle", "nll", "bce", "ce", "kl", "kld", "kldiv"),
    *("ppl", "perplexity", "bpc", "wer", "cer", "fid", "ece", "crps", "quantile", "distance", "dist", "deviance"),
    *("entropy", "hamming", "brier", "residual", "disagreement"),
}
"""Words in names of metrics of which less is better."""


def words(name: str) -> list[str]:
    """Return the words of a metric's name.

    >>> words("val/RMSE_epoch"), words("valLoss")
    (['val', 'rmse', 'epoch'], ['val', 'loss'])
    """
    return re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def higher_is_better(name: str, mode: Mode = "auto") -> bool:
    """Say which way a metric is better: as told, else by its name; where that tells nothing, higher is better.

    >>> higher_is_better("val_acc"), higher_is_better("val_rmse"), higher_is_better("val_rmse", "max")
    (True, False, True)
    """
    if mode != "auto":
        return mode == "max"
    return not any(word in LOWER or word.endswith(("loss", "error")) for word in words(name))


def is_score(column: str) -> bool:
    """Say whether a column of a run's files holds its score: those are called ``…acc…``, whatever the score is.

    >>> is_score("client_acc_after_last"), is_score("client_acc_std"), is_score("kl")
    (True, False, False)
    """
    parts = column.split("_")
    return "acc" in parts and "std" not in parts


@dataclass(frozen=True)
class Score:
    """What ``accuracy`` in the names of columns stands for in a run."""

    name: str = "accuracy"
    """What tables and axes call it."""
    higher: bool = True
    """Whether higher is better."""

    @classmethod
    def named(cls, name: str, mode: Mode = "auto") -> "Score":
        """Return the score that a metric is."""
        return cls(name, higher_is_better(name, mode))

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "Score":
        """Return the score of a run from its summary; runs made before there was a choice have accuracy."""
        return cls(str(summary.get("score") or "accuracy"), summary.get("score_mode") != "min")

    @property
    def entries(self) -> dict[str, str]:
        """What a summary says of it."""
        return {"score": self.name, "score_mode": "max" if self.higher else "min"}

    @property
    def plain(self) -> bool:
        """Whether it is plain accuracy, of which nothing need be said."""
        return self == Score()

    @property
    def is_accuracy(self) -> bool:
        """Whether it is an accuracy under some name: a share of right answers, which papers print too."""
        return self.higher and bool({"acc", "accuracy"} & set(words(self.name)))

    @property
    def text(self) -> str:
        """Its name, and the direction where it is not that of accuracy."""
        return self.name if self.higher else f"{self.name} (lower is better)"

    @property
    def told(self) -> str:
        """Its name and its direction, and what changes that."""
        way, other = ("higher", "min") if self.higher else ("lower", "max")
        return f"{self.name}, {way} is better (engine.metric_mode={other} if not)"

    def better(self, column: str) -> bool:
        """Say whether higher is better in a column: in the score's as in the score, in others by their names."""
        return self.higher if is_score(column) else higher_is_better(column)

    def goodness(self, value: float) -> float:
        """Return a value of the score so that larger is better."""
        return value if self.higher else -value


MIXED = "score"
"""What scores of several kinds are called in one table."""


def common_score(scores: Iterable[Score]) -> Score:
    """Return the score that several runs share; those of several kinds have only a direction in common, if that.

    >>> rmse = Score("val_rmse", False)
    >>> common_score([rmse, rmse]).name, common_score([Score(), Score("f1")]).name
    ('val_rmse', 'score')
    """
    kinds = list(dict.fromkeys(scores))
    if len(kinds) < 2:
        return kinds[0] if kinds else Score()
    return Score(MIXED, not all(not kind.higher for kind in kinds))


def same_direction(scores: Iterable[Score], what: str) -> Score:
    """Return the score that runs share which are measured against each other; better must be the same way in all."""
    kinds = list(dict.fromkeys(scores))
    if len({kind.higher for kind in kinds}) > 1:
        told = ", ".join(kind.text for kind in kinds)
        raise UserError(f"{what}: the runs are scored by {told}, and what is better in one is worse in another")
    return common_score(kinds)
