"""A shell that has read the script completes commands, keys, names and files: asked of a real bash."""

import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from flcluster.algorithms import CDFL
from flcluster.cli import COMMANDS, main
from flcluster.cli.completion import SHELLS, options_of

ASK = """
source script
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_shtab_flcluster flcluster "${@: -1}" "${@: -2:1}"
echo "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    pytest.importorskip("shtab")
    import shtab

    from flcluster.cli.completion import everything

    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(shtab.complete(everything(), "bash"))
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("f", {"fit"}),
        ("fit --algorithm.rh", {"--algorithm.rho"}),
        ("fit --algorithm.alph", {"--algorithm.alpha"}),
        ("compare --data.num_cl", {"--data.num_classes", "--data.num_clients", "--data.num_clusters"}),
        ("study --draw", {"--draw_only"}),
        ("fit --algorithm FedS", {"FedSPD", "FedSoftAsync"}),
        ("fit --algorithm.help FedB", {"FedBuff"}),
        ("data --data RotatedD", {"RotatedDataModule", "RotatedDigits"}),
        ("fit --model Shuf", {"ShuffleNetV2"}),
        ("fit --engine.max", {"--engine.max_time", "--engine.max_updates"}),
        ("fit --config con", {"conf.yaml"}),
    ],
)
def test_what_bash_offers(words, expected, script):
    Path("conf.yaml").touch()
    asked = ["bash", "-c", ASK.replace("source script", f"source {script}"), "ask", "flcluster", *words.split()]
    assert set(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()) == expected


def test_every_command_has_its_options():
    assert {"--cluster", "--client", "--output"} <= set(options_of("export"))
    assert {"--methods", "--seeds", "--engine.session", "--config"} <= set(options_of("compare"))
    assert all(options_of(name) for name in COMMANDS)


def test_every_key_of_a_method_is_there(script):
    keys = {f"--algorithm.{name}" for name in (field.name for field in fields(CDFL))}
    assert keys <= set(script.read_text().replace("(", " ").replace(")", " ").split())


def test_other_shells_and_none(capsys, monkeypatch):
    assert main(["completion", "fish"]) == 2
    assert f"choose one of {', '.join(SHELLS)}" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    assert main(["completion", "zsh"]) == 2
    assert "pip install 'flcluster[completion]'" in capsys.readouterr().err
