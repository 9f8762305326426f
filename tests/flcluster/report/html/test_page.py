"""The page: one file that asks nobody for anything, runs nothing but its own scripts, and is small."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from pages import cdfl_run, data_of, section_of

from flcluster.cli import main
from flcluster.errors import UserError
from flcluster.records.reader import load_runs
from flcluster.report.html.content import content
from flcluster.report.html.page import SCRIPTS, asset, page, write_page

NASTY = '</script><img src=x onerror="alert(1)"> & <b>'
ASSETS = Path(__file__).parents[4] / "flcluster" / "report" / "html" / "assets"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.scripts, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, text):
        if self.inside:
            self.scripts[-1] += text


@pytest.fixture
def run(tmp_path):
    return cdfl_run(tmp_path / "run")


def test_the_command_writes_the_page_and_says_how_to_open_it(run, capsys):
    assert main(["report", str(run), "--html", "report.html"]) == 0
    assert Path("report.html").resolve().as_uri() in capsys.readouterr().out
    told = data_of(Path("report.html").read_text())
    assert told["title"] == "CDFL: Digits, K = 2" and told["live"] is False
    ids = ["results", "curves", "clients", "clusters", "mixtures", "costs", "warnings", "ran"]
    assert [section["id"] for section in told["sections"]] == ids


def test_several_methods_and_seeds_are_tested_against_each_other(tmp_path):
    places = [
        cdfl_run(tmp_path / f"{name}{seed}", seed=seed, algorithm=name, client_acc_after=accuracy + seed**2 / 100)
        for name, accuracy in (("CDFL", 0.7), ("Local", 0.5))
        for seed in range(3)
    ]
    text = json.dumps(section_of(content(load_runs(places)), "results"), ensure_ascii=False)
    assert "Differences in client accuracy after the reply" in text and "CDFL − Local" in text
    alone = json.dumps(section_of(content(load_runs(places[:3])), "results"), ensure_ascii=False)
    assert "Differences" not in alone


def test_nothing_is_fetched_and_only_its_own_scripts_may_run(run):
    elements = Elements(page(content(load_runs([run]))))
    addresses = [a[name] for _, a in elements.found for name in ("src", "href", "action", "data") if name in a]
    assert addresses == ["data:,"]  # the icon: without it a browser asks a server for one
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]
    (policy,) = [a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and "connect-src" not in rules and "unsafe-eval" not in policy
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in elements.scripts[1:]]
    assert rules["script-src"].split() == [f"'sha256-{each}'" for each in hashes] and len(hashes) == len(SCRIPTS)


def test_names_are_text_wherever_they_stand(tmp_path):
    path = cdfl_run(tmp_path / "run", algorithm=NASTY, dataset=NASTY, status=NASTY, commit=NASTY)
    text = page(content(load_runs([path])))
    elements = Elements(text)
    assert [tag for tag, _ in elements.found].count("script") == 1 + len(SCRIPTS)
    assert "img" not in [tag for tag, _ in elements.found]
    told = data_of(text)
    assert NASTY in told["title"] and section_of(told, "ran")["blocks"][0]["rows"][0][0] == NASTY
    drawn = json.dumps(section_of(told, "curves")["blocks"][0]["groups"])
    assert "<" not in drawn.replace("<br>", "")  # Plotly would read mark-up; lines it may break


def test_nothing_of_plotly_is_changed_and_its_licence_is_beside_it():
    told = re.search(r"SHA-256 of `plotly-basic.min.js`: (\w+)", (ASSETS / "README.md").read_text())[1]
    assert hashlib.sha256((ASSETS / "plotly-basic.min.js").read_bytes()).hexdigest() == told
    assert (ASSETS / "plotly-basic.min.js").stat().st_size < 1.2e6
    assert "MIT License" in (ASSETS / "plotly-LICENSE.txt").read_text()
    version = re.search(r"v([\d.]+)", asset("plotly-basic.min.js")[:200])[1]
    assert f"version {version}" in (ASSETS / "README.md").read_text().replace("\n", " ")


def test_a_run_of_a_thousand_clients_is_small(tmp_path):
    clients, cycles, K = 1000, 30, 10
    path = cdfl_run(tmp_path / "run", clients, cycles, K)
    generator = np.random.default_rng(0)
    links = generator.integers(0, clients, (50_000, 2))
    lines = [f"{t},{i},{j}" for t in (0, 9) for i, j in links.tolist() if i != j]
    (path / "edges.csv").write_text("\n".join(["round,source,target", *lines]))
    labels = generator.integers(0, K, clients * cycles).tolist()
    rows = (path / "clients.csv").read_text().splitlines()
    rows = [f"{row},{label}" for row, label in zip(rows, ["label", *labels], strict=True)]
    (path / "clients.csv").write_text("\n".join(rows))
    page = write_page(load_runs([path]), "report.html")
    ids = [section["id"] for section in data_of(page.read_text())["sections"]]
    assert {"clients", "clusters", "mixtures", "network"} <= set(ids)
    assert page.stat().st_size - len(asset("plotly-basic.min.js")) < 3_000_000


def test_what_made_a_run_is_shown_where_it_is_told(run):
    entry = {"started": "2026-01-01", "command": "flcluster fit", "versions": {"torch": "2.4"}, "machine": {"cores": 2}}
    (run / "provenance.json").write_text(json.dumps([entry, {**entry, "started": "2026-01-02"}]))
    table = next(b for b in section_of(content(load_runs([run])), "ran")["blocks"] if b.get("title") == "Made by")
    assert [row[1:] for row in table["rows"]] == [
        ["2026-01-01", "torch 2.4", "cores 2", "flcluster fit"],
        ["2026-01-02", "torch 2.4", "cores 2", "flcluster fit"],
    ]
    (run / "provenance.json").write_text("[{")
    assert "Made by" not in [b.get("title") for b in section_of(content(load_runs([run])), "ran")["blocks"]]


def test_what_sets_configurations_apart_is_a_table(tmp_path):
    for rho in (0.1, 0.2):
        settings = {"algorithm": {"class_path": "a.CDFL", "init_args": {"rho": rho, "mu": None}}}
        cdfl_run(tmp_path / "runs" / str(rho), settings=settings)
    blocks = section_of(content(load_runs([tmp_path / "runs"])), "ran")["blocks"]
    apart = next(b for b in blocks if b.get("title") == "What sets configurations apart")
    assert apart["heads"] == ["Setting", "CDFL (rho=0.1)", "CDFL (rho=0.2)"] and apart["rows"] == [
        ["rho", "0.1", "0.2"]
    ]


def test_no_run_and_no_file_are_refused(run, tmp_path):
    with pytest.raises(UserError, match="no run to report on"):
        write_page([], "report.html")
    with pytest.raises(UserError, match="is a folder: give the name of the file"):
        write_page(load_runs([run]), tmp_path)


def test_numbers_that_are_none_are_no_javascript(run):
    """NaN is not JSON: a browser would refuse the whole page."""
    text = page(content(load_runs([run])))
    assert not re.search(r"\bNaN\b|\bInfinity\b", re.search(r'id="data">(.*?)</script>', text, re.S)[1])
