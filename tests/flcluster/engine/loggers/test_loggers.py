"""Loggers that fail are named once and switched off; secrets among their arguments are used and kept nowhere."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from flcluster.cli import main
from flcluster.records.masked import hiding, in_environment, masked, secrets_in

TINY = str(Path(__file__).parents[3] / "tiny.yaml")
SECRET = "k3y-of-mine-0123"
FRAIL = """
from lightning.pytorch.loggers import CSVLogger

USED = []


class Frail(CSVLogger):
    def __init__(self, save_dir: str = ".", fails: str = "", api_key: str | None = None, options: dict | None = None):
        super().__init__(save_dir, name="frail")
        self.fails = fails
        USED.append((api_key, options))
        self.at("init")

    def at(self, moment):
        if self.fails == moment:
            raise ConnectionError("no network for k3y-of-mine-0123\\nmore")

    def log_hyperparams(self, params=None):
        self.at("start")

    def log_metrics(self, metrics, step=None):
        self.at("metrics")

    def finalize(self, status):
        self.at("end")
"""


@pytest.fixture(autouse=True)
def frail(tmp_path, monkeypatch):
    """A module with a logger that fails where it is told to, and tells what it was given."""
    (tmp_path / "frail.py").write_text(FRAIL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "frail", raising=False)
    yield import_module("frail")
    sys.modules.pop("frail")


def fit(folder, *flags):
    return main(["fit", "--config", TINY, "--run_dir", folder, "--algorithm.cycles", "2", *flags])


@pytest.mark.parametrize("moment", ["init", "start", "metrics", "end"])
def test_a_logger_that_fails_is_named_once_and_the_run_goes_on(moment, capsys):
    entry = (
        f"[{{class_path: frail.Frail, init_args: {{fails: {moment}, api_key: {SECRET}}}}}, {{class_path: CSVLogger, "
    )
    flags = ["--logger", entry + "init_args: {save_dir: ., name: log}}]", "--engine.progress", "true"]
    assert fit("a", *flags) == 0
    said = capsys.readouterr().err
    assert said.count("the logger Frail failed") == 1 and "(ConnectionError: no network for ***)" in said
    assert SECRET not in Path("a/run.log").read_text() and "Frail failed" in Path("a/run.log").read_text()
    assert json.loads(Path("a/summary.json").read_text())["status"] == "finished"
    (rows,) = Path("a/log").glob("*/metrics.csv")
    assert rows.read_text().count("\n") == 4, "the other logger has all"


def test_secrets_reach_the_logger_and_no_file(frail):
    entry = (
        f"[{{class_path: frail.Frail, init_args: {{api_key: {SECRET}, options: {{auth: {{token: {SECRET}}}, "
        f"url: 'https://me:{SECRET}@host/x'}}}}}}, {{class_path: CSVLogger, init_args: {{save_dir: ., name: log}}}}]"
    )
    assert fit("a", "--logger", entry, "--engine.max_updates", "6") == 0
    assert frail.USED[0][0] == SECRET and frail.USED[0][1]["auth"]["token"] == SECRET
    keeping = [path for path in Path("a").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not keeping
    told = yaml.safe_load(Path("a/config.yaml").read_text())["logger"][0]["init_args"]
    assert told["api_key"] == told["options"]["auth"]["token"] == "***"
    assert told["options"]["url"] == "https://***@host/x"
    assert "***" in json.loads(Path("a/provenance.json").read_text())[0]["command"]


def test_a_run_that_goes_on_asks_for_its_secrets_again(frail, monkeypatch, capsys):
    flags = ["--logger", "frail.Frail", "--logger.api_key", SECRET]
    assert fit("a", *flags, "--engine.max_updates", "6") == 0
    go_on = ["fit", "--run_dir", "a", "--ckpt_path", "last", "--engine.max_updates", "9"]
    assert main(go_on) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "logger.api_key is a secret" in told and "FRAIL_API_KEY" in told
    monkeypatch.setenv("FRAIL_API_KEY", SECRET)
    assert main(go_on) == 0 and frail.USED[-1][0] == SECRET
    monkeypatch.delenv("FRAIL_API_KEY")
    assert main([*go_on[:-1], "12", "--logger.api_key", "another-one"]) == 0 and frail.USED[-1][0] == "another-one"
    assert main([*go_on[:-1], "12", "--logger", "null"]) == 0
    text = "".join(path.read_text(errors="replace") for path in Path("a").rglob("*") if path.is_file())
    assert SECRET not in text and "another-one" not in text


def test_wandb_does_not_keep_the_command_line_with_a_secret(frail, monkeypatch):
    """W&B writes down what was typed."""
    seen = []
    monkeypatch.setattr("sys.argv", ["flcluster", "fit", "--logger.api_key", SECRET, f"--logger.password={SECRET}"])
    monkeypatch.setattr(frail.Frail, "log_hyperparams", lambda self, params=None: seen.extend(sys.argv))
    assert fit("a", "--logger", "frail.Frail", "--logger.api_key", SECRET) == 0
    assert seen == ["flcluster", "fit", "--logger.api_key", "***", "--logger.password=***"]
    assert sys.argv[3] == SECRET


def test_what_is_a_secret():
    tree = {
        "data": {"init_args": {"label_key": "y", "token": "abc", "pad_token": "[PAD]"}},
        "logger": [{"init_args": {"workspace_key": "abc", "name": "x", "api_key": None}}],
    }
    assert masked(tree)["data"]["init_args"] == {"label_key": "y", "token": "***", "pad_token": "[PAD]"}
    assert masked(tree)["logger"][0]["init_args"] == {"workspace_key": "***", "name": "x", "api_key": None}
    assert [value for _, value in secrets_in(tree)] == ["abc", "abc"]
    hide = hiding(["abcd", "abcdef", "x"])
    assert (
        hide("x abcdef, abcd; --logger.token=q --data.pad_token [PAD]")
        == "x ***, ***; --logger.token=*** --data.pad_token [PAD]"
    )


def test_secrets_of_the_environment_are_known(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "network")
    assert hiding(in_environment())("no network") == "no network", "too short to be one"
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")
    assert hiding(in_environment())("no from-the-environment") == "no ***"
