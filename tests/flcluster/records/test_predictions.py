"""Predictions as a table: a row for each sample, or a refusal that says why there is none."""

from pathlib import Path

import pytest
import torch

from flcluster.errors import UserError
from flcluster.records.predictions import write_csv


def test_a_row_for_each_sample():
    write_csv(
        {"label": torch.tensor([3, 4]), "p": (torch.tensor([[0.5, 0.25], [1.0, 0.0]]), ["a", "b"])}, Path("p.csv")
    )
    assert Path("p.csv").read_text() == "sample,label,p_0_0,p_0_1,p_1\n0,3,0.5,0.25,a\n1,4,1.0,0.0,b\n"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a": torch.ones(3), "b": torch.ones(2)}, r"differ \(a 3, b 2\): write --output FILE\.pt"),
        ({"a": object()}, "gives objects, which are no columns"),
    ],
)
def test_what_is_no_table(found, said):
    with pytest.raises(UserError, match=said):
        write_csv(found, Path("p.csv"))
    assert not Path("p.csv").exists()
