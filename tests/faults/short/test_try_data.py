"""A few of the bad data folders that ``python3 dev.py faults`` tries by the hundred."""

import bad_data
import good_data
import pytest
import try_data

from flcluster.cli import main

KNOWN = [
    ("TraceDataModule", "a bomb"),
    ("numbered trace", "label is '1000000000000'"),
    ("TraceDataModule", "image is '../../../etc/hostname'"),
    ("DigitRecognition", "a label is 11"),
    ("RotatedMNIST", "a label is 200"),
    ("RotatedCIFAR10", "a pickle"),
    ("RotatedFEMNIST", "a number is nan"),
    ("cache of FEMNIST", "a label is -1"),
    ("SkewedMNIST", "an item less"),
    ("CSVDataModule", "age is 'soon'"),
    ("ArrayDataModule", "NaN"),
    ("ImageFolderDataModule", "emptied"),
    ("devices", "a pickle"),
    ("links", "target is '8'"),
    ("vectors", "objects"),
]


def test_every_datamodule_has_a_folder_to_be_harmed():
    """A new reader is not covered before it has a recipe in good_data.py."""
    assert good_data.without_recipe() == []


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The known cases, each in a folder of its own that is harmed already."""
    found = {}
    for recipe in good_data.recipes():
        if wanted := [harm for name, harm in KNOWN if name == recipe.name]:
            good = tmp_path_factory.mktemp("good")
            told = recipe.write(good)
            every = bad_data.cases_of(recipe, good)
            for harm in wanted:
                found[recipe.name, harm] = (
                    next(c for c in every if c.harm == harm and (harm != "a label is 200" or "labels" in c.file)),
                    good,
                    told,
                )
    return found


@pytest.mark.parametrize(("name", "harm"), KNOWN)
def test_a_harm_is_refused_by_the_files_name(name, harm, cases, tmp_path):
    case, good, told = cases[name, harm]
    what, said = try_data.outcome(case, good, told, "", tmp_path / "bad")
    assert what == "refused", said


def test_a_run_ends_with_the_message_alone(tmp_path, capsys):
    """The words of who found it arrive whole: nothing is wrapped around them that hides the line."""
    good_data._trace(tmp_path, numbered=True)
    path = tmp_path / "trace.csv"
    path.write_text(path.read_text().replace(",1.5,", ",soon,", 1))
    settings = ["--data", "TraceDataModule", "--data.manifest", "trace.csv", "--data.root", str(tmp_path)]
    code = main(["fit", *settings, "--model", "MLP", "--algorithm", "FedAvg", "--run_dir", "run"])
    said = capsys.readouterr().err
    assert code == 2 and f"{path}, line 3: the time 'soon' is no number" in said and "Traceback" not in said
