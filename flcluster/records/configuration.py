"""Which runs are repeats of each other: those whose configurations are the same but for seed and places."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flcluster.records.reader import Run

COUNTED = (
    r"(data|model|algorithm|callbacks|trainer|trainer_callbacks)(\..*)?|model_start"
    r"|fabric\.precision|engine\.(session|metric|metric_mode)"
)


OPTIONAL = (
    r"callbacks|trainer|trainer_callbacks|model_start|engine\.(session|metric|metric_mode)|data\.init_args\.unseen"
)
"""Settings that count only where they say something."""


PLACES = r".*\.(root|download|cache)"
"""Settings that say where data lie, not what they are."""


FILES = r".*\.(manifest|path|file|folder)|model_start"
"""Settings that name a file, of which only the name counts."""


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts to dotted keys."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {k: v for key, value in tree.items() for k, v in flat(value, f"{prefix}.{key}" if prefix else key).items()}


def counted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration that may change a result, flat: data, model, method, precision, hooks."""
    return {
        key: _named(key, value)
        for key, value in flat(settings).items()
        if re.fullmatch(COUNTED, key)
        and not re.fullmatch(PLACES, key)
        and not (value in (None, "auto") and re.fullmatch(OPTIONAL, key))
    }


def _named(key: str, value: Any) -> Any:
    """Return a setting without where its file or class lies: both may move."""
    if isinstance(value, list):
        return [_named(key, part) for part in value]
    if isinstance(value, dict):  # an entry of a list
        return {name: _named(f"{key}.{name}", part) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    if re.fullmatch(FILES, key):
        return Path(value).name
    return value.rpartition(".")[2] if key.endswith("class_path") else value


def configuration_key(run: Run) -> str:
    """Return a short hash of a run's resolved configuration without seed and places; empty if that cannot be read.

    Runs with the same key are repeats: they differ in their seed, or in nothing that may change a result. Runs with
    another key are not, whatever they are called. It is the column ``config`` of gathered results.
    """
    return "" if run.settings is None else key_of_settings(run.settings)


def key_of_settings(settings: Mapping[str, Any]) -> str:
    """Return the short hash of a resolved configuration."""
    return hashlib.sha256(json.dumps(counted(settings), sort_keys=True, default=str).encode()).hexdigest()[:12]


def differences(runs: Sequence[Run]) -> list[str]:
    """Say of each of several runs, no two with the same key, what sets its configuration apart: ``lr=0.01``.

    Where they have different classes, only settings that those have in common are named, if that is enough.
    """
    settings = [None if run.settings is None else counted(run.settings) for run in runs]
    known = [each for each in settings if each is not None]
    unlike = differing(known)
    common = [key for key in unlike if len({_text(each[key]) for each in known if key in each}) > 1]
    told = [*(_told(settings, chosen) for chosen in (common, unlike)), [configuration_key(run) for run in runs]]
    return next(texts for texts in told if len(set(texts)) == len(runs))


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of flat settings that some lack or that have not the same value in all.

    >>> differing([{"lr": 0.1, "K": 2}, {"lr": 0.2, "K": 2, "mu": 1}])
    ['lr', 'mu']
    """
    keys = dict.fromkeys(key for each in settings for key in each)
    values = {key: [_text(each[key]) for each in settings if key in each] for key in keys}
    return [key for key in keys if len(set(values[key])) > 1 or len(values[key]) < len(settings)]


def _told(settings: Sequence[Mapping[str, Any] | None], keys: Sequence[str]) -> list[str]:
    names = short_names(keys)
    return [
        "settings unknown"
        if each is None
        else ", ".join(f"{names[key]}={_text(each[key])}" for key in keys if key in each)
        for each in settings
    ]


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Name keys by their ends, as far as that tells them apart; a class by what it is the class of."""
    paths = {key: [p for p in key.split(".") if p != "init_args"] for key in keys}
    paths = {key: path[:-1] if path[-1] == "class_path" and len(path) > 1 else path for key, path in paths.items()}
    ends = Counter(path[-1] for path in paths.values())
    return {key: path[-1] if ends[path[-1]] == 1 else ".".join(path) for key, path in paths.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
