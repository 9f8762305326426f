"""Cells of a study's table: whole numbers stay whole, whatever the number of seeds."""

from runs import make_run, make_study

from flcluster.report.study.values import grid


def test_a_gossip_methods_columns():
    columns = ("purity", "messages", "isolated", "upload_bytes", "ifca_style_acc")
    study = make_study("GI", "LI", table=columns)
    first = {"purity": [0.5, 0.9], "messages": [0, 100], "isolated": [3, 2], "upload_bytes": [0, 4000]}
    second = {"purity": [0.5, 1.0], "messages": [0, 120], "isolated": [3, 3], "upload_bytes": [0, 4800]}
    runs = {"GI": {0: make_run(metrics=first), 1: make_run(seed=1, metrics=second)}, "LI": {0: make_run(metrics=first)}}
    table = grid(study, runs)
    assert [table.heads, *([row[head] for head in table.heads] for row in table.rows)] == [
        ["Variant", "Seeds", "Purity", "Models sent", "Isolated", "Bytes sent"],
        ["GI", "2", "0.950 ±0.071", "110 ±14", "2.5 ±0.7", "4400 ±566"],
        ["LI", "1", "0.900", "100", "2", "4000"],
    ]
