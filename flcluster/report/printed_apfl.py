"""AP-FL's printed numbers for a run: found by dataset, who holds which labels, number of clients and semantics."""

import math
import re
from collections.abc import Collection, Mapping

from flcluster.records.reader import Key, Summary, family
from flcluster.report.paper_tables import read_table
from flcluster.report.summaries import Row

PAPER = "AP-FL paper"


TABLES = ("apfl_table2", "apfl_table3", "apfl_table4")


NOTE = (
    f"{PAPER}: its text says local tests, but its numbers fit tests on all classes alike, so they stand beside ours on "
    "the global test set. AP-FL has CLIP's vectors there. It does not state what its ± counts, how FashionMNIST is "
    "divided in its Table 2, nor how many classes a client has in its Tables 3 and 4 (two in its example)"
)
"""What a reader of the comparison must know."""


EMBEDDINGS = {"clip": "CLIP", "bert": "BERT", "w2v": "W2V", "word2vec": "W2V", "googlenews": "W2V"}
"""Words in the name of a run's semantics, and the paper's name for them."""


Line = Mapping[str, str]


def apfl_rows(key: Key, summary: Summary, names: Collection[str] = TABLES) -> list[Row]:
    """Return what some of the paper's tables print for the setting of a run; nothing for controls and fallbacks."""
    if re.search(r"\((control|fallback)\)", key[2]):
        return []
    lines = [(name, line) for name in TABLES if name in names for line in read_table(name)]
    here = str(summary["dataset"]).replace("-", "")
    found = [_numbers(name, line) for name, line in lines if line["dataset"] == here and _same(name, line, summary)]
    return [Row(*key, metric, round(mean / 100, 6), round(std / 100, 6), PAPER) for metric, mean, std in found]


def _same(name: str, line: Line, summary: Summary) -> bool:
    """Say whether a line of a table is about a run's setting."""
    partition, method = str(summary.get("partition")), family(summary["algorithm"])
    if name == "apfl_table4":
        return (
            method == "AP-FL"
            and any(is_dropout_setting(partition, missing) for missing in ("10", "20"))
            and _embedding(summary) == line["embedding"]
        )
    if line["method"] != method:
        return False
    if name == "apfl_table3":
        return is_dropout_setting(partition, line["missing_class_pct"])
    return line["clients"] == str(summary.get("num_clients")) and _is_dirichlet(partition, line["dirichlet_alpha"])


def is_dropout_setting(partition: str, missing: str) -> bool:
    """Say whether a partition is the paper's dropout setting: its printed one, or one of any κ, which is unstated."""
    return re.fullmatch(rf"AP-FL (Table 1 \(|dropout \(κ = \d+, ){missing} % missing\)", partition) is not None


def _is_dirichlet(partition: str, alpha: str) -> bool:
    """Say whether a partition is Dirichlet's with the printed alpha; any alpha where none is printed."""
    found = re.fullmatch(r"Dirichlet\((.+?)\)", partition)
    return found is not None and (not alpha or float(found[1]) == float(alpha))


def _embedding(summary: Summary) -> str:
    """Return the paper's name for a run's semantics, which is a word in the name of a model or a file."""
    words = re.split(r"[\W_]+", str(summary.get("semantics")).lower().rpartition("/")[2])
    return next((name for word, name in EMBEDDINGS.items() if word in words), "")


def _numbers(name: str, line: Line) -> tuple[str, float, float]:
    """Return what a line compares with, and its mean and deviation in per cent."""
    if name == "apfl_table4":
        group = "_dropouts" if line["client_group"] == "dropout" else ""
        return f"friend_acc_global{group}", float(line["friend_model_acc_pct"]), math.nan
    metric = {"apfl_table2": "acc_global", "apfl_table3": "acc_global_dropouts"}[name]
    return metric, float(line["mean_pct"]), float(line["std_pct"])
