"""Cells of a study's table: whole numbers stay whole, whatever the number of seeds."""

from pathlib import Path

import numpy as np

from flcluster.records.reader import Run
from flcluster.report.study.file import Study
from flcluster.report.study.values import table_rows


def make_run(seed, **columns):
    metrics = {name: np.array(column, float) for name, column in {"update": [0, 1], **columns}.items()}
    return Run(Path("unused"), {"algorithm": "DFCA-GI", "seed": seed}, metrics, {}, "a run")


def test_a_gossip_methods_columns():
    columns = ("purity", "messages", "isolated", "upload_bytes", "ifca_style_acc")
    study = Study(Path("s.yaml"), "A study", (), {}, {"GI": {}, "LI": {}}, None, (), columns, ())
    first = make_run(0, purity=[0.5, 0.9], messages=[0, 100], isolated=[3, 2], upload_bytes=[0, 4000])
    second = make_run(1, purity=[0.5, 1.0], messages=[0, 120], isolated=[3, 3], upload_bytes=[0, 4800])
    assert table_rows(study, {"GI": {0: first, 1: second}, "LI": {0: first}}) == [
        ["Variant", "Seeds", "Purity", "Models sent", "Isolated", "Bytes sent"],
        ["GI", "2", "0.950 ±0.071", "110 ±14", "2.5 ±0.7", "4400 ±566"],
        ["LI", "1", "0.900", "100", "2", "4000"],
    ]
