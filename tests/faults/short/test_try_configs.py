"""A few of the bad configurations that ``python3 dev.py faults`` tries by the thousand."""

from dataclasses import fields
from pathlib import Path

import good_configs as good
import pytest
from bad_configs import every
from forked import Ended
from try_configs import case, told

from flcluster.cli import main

KNOWN = [
    ("algorithm.distance_bar", "null", ["--algorithm", "CDFL"]),
    ("algorithm.prox", "1e308", ["--algorithm", "FedAvgFT"]),
    ("algorithm.selection", "null", ["--algorithm", "FedGen"]),
    ("algorithm.adjust_quantile", "1.5", ["--algorithm", "CCFL"]),
    ("algorithm.server.tau", "-1", ["--algorithm", "FedYogi"]),
    ("algorithm.trigger.sample", "0", ["--algorithm", "Fielding"]),
    ("algorithm.rho", ".inf", []),
    ("algorithm.batch_size", "1", ["--model", "CNN", "--model.padding", "2", "--model.batch_norm", "true"]),
    ("model.lr", ".nan", []),
    ("model.hidden", "[1000000000]", []),
    ("engine.memory_gb", ".inf", []),
    ("data.test_size", "-1", []),
    ("data.num_clients", "1000000000000", []),
    ("data.num_clusters", "999999999", []),
    ("trainer.accumulate_grad_batches", "soon", []),
]


def ended(bad, capfd):
    """How a configuration ends in this process, and what it says."""
    flags = bad.flags()
    code = case(bad.command, [*flags[: len(bad.base)], "--", *flags[len(bad.base) :]])
    out, err = capfd.readouterr()
    return Ended(code, out + err)


@pytest.mark.parametrize(("key", "value", "flags"), KNOWN, ids=lambda value: str(value)[-40:])
def test_a_bad_setting_is_refused_by_its_key(key, value, flags, capfd):
    from bad_configs import Bad

    bad = Bad(key, value, (*good.TINY, *flags), ("", key), "", wrap=(f"--{key}={{}}",))
    end = ended(bad, capfd)
    assert end.code == 2 and told(bad, end.said) and len(end.said) < 1000, end.said


@pytest.mark.parametrize("name", sorted(good.DATA.keys() - {*good.NOT_HERE}))
def test_what_bad_settings_are_laid_over_is_good(name):
    good.files(Path())
    assert main(["fit", *good.DATA[name], *good.QUIET, "--run_dir", "run"]) == 0


def test_every_setting_of_every_class_is_tried():
    """Made from signatures: a new class and a new setting are in it unasked."""
    import flcluster.algorithms as algorithms
    import flcluster.datamodules as data
    import flcluster.modules as modules

    cases = every()
    tried = {(bad.kind, bad.key) for bad in cases}
    for kind in (algorithms.CDFL, algorithms.Fielding):
        assert {(kind.__name__, f"algorithm.{field.name}") for field in fields(kind)} <= tried
    kinds = {kind for kind, _ in tried}
    bases = {"Classifier", "Representation", "Partition", "SampleArrivals", "ArrivalPlan"}
    records = {"Samples", "Images", "ImageSource", "Known", "Brought", "StreamSetting"}  # made in Python only
    networks = {"LatentGenerator", "SemanticGenerator"}  # made by their methods
    for library in (algorithms, data, modules):
        named = {name: getattr(library, name) for name in library.__all__}
        ours = {name for name, kind in named.items() if isinstance(kind, type) and has_settings(kind)}
        assert ours - kinds <= bases | records | networks
    assert {"CSVLogger", "Trainer", "Study", "Picture", "compare", "SyntheticDevices", "ErdosRenyi"} <= kinds
    assert len(cases) > 10_000


def has_settings(kind):
    """Whether a configuration can say something of a class."""
    import inspect

    from flcluster.engine.messages.classes import parameters

    return not inspect.isabstract(kind) and hasattr(kind, "__init__") and bool(parameters(kind))
