"""From a script's arguments to what the engine runs, and to what ``config.yaml`` says of it."""

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning import LightningModule
from torch import Tensor

from flcluster.data import FederatedDataModule
from flcluster.engine.config import Plan, ask_for_secrets, dumped, fit_parser
from flcluster.engine.messages.given import given_by
from flcluster.engine.messages.linked import refuse_linked
from flcluster.engine.resume import config_of, free_directory, refuse_changes, resumed
from flcluster.engine.start import START, start_from, weights_of
from flcluster.errors import UserError
from flcluster.protocol.base import Algorithm
from flcluster.records.masked import masked
from flcluster.script.objects import UntoldError, class_path, sketched, told

Given = Mapping[str, Any]
"""Arguments of ``fit`` by name; those left out are not in it."""


@dataclass(frozen=True)
class Recipe:
    """What is to be run."""

    plan: Plan
    start: dict[str, Tensor] | None
    """Weights of the first models that are in no file."""


def recipe(given: Given, place: Path | None = None) -> Recipe:
    """Read the arguments of ``fit``; with a ``place`` only to see whether they are right, wherever the run will be."""
    config, run_dir, ckpt = (given.get(name) for name in ("config", "run_dir", "ckpt"))
    if ckpt == "last" and run_dir is None:
        raise UserError('ckpt="last" needs run_dir=…, the run to go on with')
    named = [*(["--run_dir", str(run_dir)] if run_dir else []), *(["--ckpt_path", str(ckpt)] if ckpt else [])]
    home, checkpoint = resumed(named)
    parser = fit_parser("fl.fit")
    if checkpoint is not None and "start" in given:
        raise UserError("start= is for a new run: one that goes on has its weights already")
    if checkpoint is not None and not any(name in given for name in ("config", "data", "model", "algorithm")):
        config = config_of(home)
    base = _parsed(parser, ["--config", str(config)]) if config else None
    refuse_linked(given_by(given))
    tree, start = _tree(given, base)
    settings = _parsed(parser, tree, base)
    if base is not None:
        ask_for_secrets(parser, settings)
    settings.run_dir = None if run_dir is None else str(run_dir)
    if place is not None:
        home = place
    elif checkpoint is None:
        home = free_directory(settings, ["--config", str(config)] if config else [])
    assert home is not None
    then = yaml.safe_load(config_of(home).read_text(encoding="utf-8")) if checkpoint else {}
    if then.get("model_start"):
        settings.model_start, start = then["model_start"], None
    config_yaml = _told(parser, tree, base)
    config_yaml["model_start"] = str(home / START) if start is not None else settings.model_start
    if checkpoint is not None:
        refuse_changes(masked(config_yaml), then, config_of(home))
    return Recipe(Plan(parser, settings, home, checkpoint, config_yaml), start)


def _parsed(parser: ArgumentParser, given: Any, base: Namespace | None = None) -> Namespace:
    """Parse a command line or a tree of settings and objects; what is wrong is an error, and nothing is printed."""
    try:
        if isinstance(given, list):
            settings: Namespace = parser.parse_args(given)
        else:
            settings = parser.parse_object(given, base)
    except UserError as error:
        raise UserError(f"fl.fit: {error}") from error
    return settings


def _tree(given: Given, base: Namespace | None) -> tuple[dict[str, Any], dict[str, Tensor] | None]:
    """Return the settings that are given, objects among them, and weights that are in no file."""
    parts = {name: _part(given[name]) for name in ("data", "model", "algorithm", "logger") if name in given}
    tree: dict[str, Any] = {
        **parts,
        **{name: dict(given[name]) for name in ("engine", "fabric", "trainer") if name in given},
    }
    for name in ("callbacks", "trainer_callbacks"):
        if name in given:
            tree[name] = [_part(each) for each in given[name]]
    for length in ("rounds", "cycles"):
        if length in given:
            tree["algorithm"] = _lasting(tree.get("algorithm", base and base.algorithm.clone()), length, given[length])
    seed, data = given.get("seed"), tree.get("data")
    if isinstance(data, FederatedDataModule):
        tree["data"] = data = data if seed is None else _drawn_with(data, seed)
        seed = data.seed if seed is None else seed
    tree |= {} if seed is None else {"seed_everything": seed}
    start, weights = given.get("start"), None
    if isinstance(tree.get("model"), LightningModule):
        tree["model"] = deepcopy(tree["model"])  # the author's own is not trained
        weights = {name: value.detach().cpu().clone() for name, value in tree["model"].state_dict().items()}
    if isinstance(start, str | Path):
        tree["model_start"], weights = str(start), None
    elif start is not None:
        content = start.state_dict() if isinstance(start, LightningModule) else start
        weights = {name: value.detach().cpu().clone() for name, value in weights_of(content, "start").items()}
        if isinstance(tree.get("model"), LightningModule):
            start_from(tree["model"], weights, "start")
    return tree, weights


def _part(value: Any) -> Any:
    """Return a part of a run as the parser takes it: settings, or the object itself."""
    if isinstance(value, list | tuple):
        return [_part(each) for each in value]
    if isinstance(value, str):
        return {"class_path": value}
    if isinstance(value, type):
        try:
            return {"class_path": class_path(value)}
        except UntoldError as why:
            raise UserError(f"{why}: give an object of it, {value.__name__}(…)") from None
    return deepcopy(dict(value)) if isinstance(value, Mapping) else value


def _lasting(algorithm: Any, length: str, value: float) -> Any:
    """Return a method that takes so many rounds or cycles."""
    if algorithm is None:
        raise UserError(f"{length}= needs algorithm=…")
    if isinstance(algorithm, Algorithm):
        if length not in [field.name for field in fields(algorithm)]:
            other = "cycles" if length == "rounds" else "rounds"
            raise UserError(f"{type(algorithm).__name__} has no {length}: give {other}=…")
        change: dict[str, Any] = {length: value}
        return replace(algorithm, **change)
    return {**algorithm, "init_args": {**(algorithm.get("init_args") or {}), length: value}}


def _drawn_with(data: FederatedDataModule, seed: int) -> FederatedDataModule:
    """Return data whose draws come from the run's seed, as those of a configuration do."""
    if data.seed == seed:
        return data
    if "seed" in data.made_with:
        raise UserError(f"data was made with seed={data.seed}, and fit has seed={seed}: leave one of them out")
    known = inspect.signature(type(data).__init__).parameters.values()
    if not any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in known):
        return data  # its draws need no seed
    return type(data)(**data.made_with, seed=seed)


def _told(parser: ArgumentParser, tree: Mapping[str, Any], base: Namespace | None) -> dict[str, Any]:
    """Return what config.yaml says; what no file can tell stands under ``objects`` with the reason."""
    told_tree, why = dict(tree), {}
    for name in ("data", "model", "algorithm", "callbacks", "trainer_callbacks"):
        if name not in tree or isinstance(tree[name], Mapping):
            continue
        try:
            said = told(tree[name])
            _parsed(parser, {**tree, name: said}, base)
            told_tree[name] = said
        except (UntoldError, UserError) as reason:
            why[name] = " ".join(str(reason).split())[:200]
    loggers = told_tree.get("logger")
    if not all(isinstance(each, Mapping) for each in (loggers if isinstance(loggers, list) else [loggers])):
        told_tree["logger"] = None  # it may be another one when the run goes on
    settings = _parsed(parser, told_tree, base)
    for name in why:
        settings.pop(name)
    config: dict[str, Any] = yaml.safe_load(dumped(parser, settings, checked=not why))
    for name in why:
        given = tree[name]
        config[name] = [sketched(each) for each in given] if isinstance(given, list) else sketched(given)
    return {**config, **({"objects": why} if why else {})}
