"""A folder of results with one study and five claims."""

import pytest

CLAIMS = """
paper: P
claims:
  - {says: A is ahead, source: Table 1, setting: digits, study: s, first: A, second: B, paper: .9 / .8}
  - {says: A is at .8, source: Table 1, setting: digits, study: s, first: A, number: 0.8, rule: near, margin: 0.01}
  - {says: later is better, source: text, setting: digits, study: s, first: {of: A}, second: {of: A, column: before}}
  - {says: C is ahead, source: text, setting: digits, study: s, first: C, second: B}
  - {says: large, source: text, setting: CIFAR, cost: a week}
"""
ROWS = """run,method,dataset,K,clients,seed,commit,config,seconds,client_acc,before
A-seed0,M,D,1,4,0,abcdefghi,c,1,0.80,0.7
A-seed1,M,D,1,4,1,abcdefghi,c,1,0.81,0.7
A-seed2,M,D,1,4,2,abcdefghi,c,1,0.79,0.7
B-seed0,M,D,1,4,0,abcdefghi,c,1,0.70,
B-seed1,M,D,1,4,1,abcdefghi,c,1,0.75,
B-seed2,M,D,1,4,2,abcdefghi,c,1,0.72,
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "r" / "claims").mkdir(parents=True)
    (tmp_path / "r" / "claims" / "p.yaml").write_text(CLAIMS)
    (tmp_path / "r" / "s.csv").write_text(ROWS)
    return tmp_path / "r"
