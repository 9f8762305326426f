"""Pages in a real browser: they draw, ask nobody, complain of nothing, fit the screen and go on with a run."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pages import cdfl_run

from flcluster.records.reader import load_runs
from flcluster.report.html.page import write_page

pytestmark = pytest.mark.browser

NASTY = '</script><img src=x onerror="window.hacked=1"><b>bold</b>'
DRAWN = "return document.querySelectorAll('.js-plotly-plot .main-svg').length"
OUTSIDE = """
const wide = document.documentElement.clientWidth;
return [...document.querySelectorAll('body *')].filter((node) => !node.closest('.scroll, pre, svg') &&
    node.getBoundingClientRect().right > wide + 1).map((node) => node.outerHTML.slice(0, 80));
"""
CONTRAST = """
const light = (colour) => {
  const linear = (c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const [r, g, b] = colour.match(/[\\d.]+/g).map((c) => linear(c / 255));
  return .2126 * r + .7152 * g + .0722 * b;
};
const ground = light(getComputedStyle(document.body).backgroundColor);
return ['h1', '.intro', 'nav a', 'td', 'th', '.caption', 'select', '.xtitle'].map((name) => {
  const style = getComputedStyle(document.querySelector(name));
  const ink = light(name === '.xtitle' ? style.fill : style.color);
  return [name, (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05)];
});
"""


def wait(browser, script, until=bool, seconds=30):
    """What a script returns, once it is as it should be."""
    end = time.monotonic() + seconds
    while not until(found := browser.execute_script(script)):
        assert time.monotonic() < end, f"{script} still returns {found!r}"
        time.sleep(0.1)
    return found


def screen(browser, width, scheme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def asked(browser):
    """Every address that the browser asked for."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


@pytest.fixture
def runs(tmp_path):
    """Two methods, two seeds each, one with a hostile name, a graph and labels."""
    for seed in (0, 1):
        cdfl_run(tmp_path / "runs" / f"a{seed}", clients=12, seed=seed)
        path = cdfl_run(tmp_path / "runs" / f"b{seed}", clients=12, seed=seed, algorithm=NASTY)
        links = np.random.default_rng(0).integers(0, 12, (30, 2))
        lines = [f"{t},{i},{j}" for t in (0, 9) for i, j in links.tolist() if i != j]
        (path / "edges.csv").write_text("\n".join(["round,source,target", *lines]))
        rows = (path / "clients.csv").read_text().splitlines()
        rows = [f"{row},{'label' if at == 0 else (at // 7) % 3}" for at, row in enumerate(rows)]
        (path / "clients.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "runs"


@pytest.fixture
def opened(browser, runs):
    screen(browser, 1280)
    page = write_page(load_runs([runs]), "report.html").resolve()
    browser.get(page.as_uri())
    wait(browser, DRAWN, lambda count: count >= 8)
    return browser


def test_a_file_draws_without_asking_anybody_or_complaining(opened):
    titles = opened.execute_script("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert titles[:6] == ["Results", "Curves", "Clients", "Clusters", "Mixtures", "Network"]
    assert {url.partition(":")[0] for url in asked(opened)} <= {"file", "data", "blob"}
    assert opened.get_log("browser") == []
    lines = (
        "return [...document.querySelectorAll('#curves .scatterlayer .js-line')].map((p) => p.getAttribute('d').length)"
    )
    assert min(wait(opened, lines)) > 10


def test_hostile_names_are_words(opened):
    assert opened.execute_script("return [window.hacked, document.querySelectorAll('img, b').length]") == [None, 0]
    assert NASTY in opened.execute_script("return document.querySelector('#results td').closest('table').innerText")
    legend = "return [...document.querySelectorAll('#curves .legendtext')].map((t) => t.textContent)"
    names = {"".join(text.split()) for text in opened.execute_script(legend)}  # long ones are in several lines
    assert names == {"CDFL", "".join(NASTY.split())}


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_and_can_be_read(opened, width, scheme):
    screen(opened, width, scheme)
    opened.refresh()
    wait(opened, DRAWN, lambda count: count >= 8)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    assert wait(opened, OUTSIDE, lambda found: not found, seconds=5) == []
    assert [(name, ratio) for name, ratio in opened.execute_script(CONTRAST) if ratio < 4.5] == []
    assert opened.get_log("browser") == []


def test_columns_axes_and_runs_are_chosen(opened):
    choose = """const [where, at, value] = arguments; const select = document.querySelectorAll(where + ' select')[at];
        select.value = value; select.dispatchEvent(new Event('change'));"""
    opened.execute_script(choose, "#curves", 0, "cluster_acc")
    opened.execute_script(choose, "#curves", 1, "traffic")
    title = "return ['y', 'x'].map((a) => document.querySelector(`#curves .${a}title`).textContent).join()"
    assert wait(opened, title, lambda text: "traffic" in text) == "mean cluster accuracy,traffic (MB)"
    opened.execute_script(choose, "#clusters", 0, NASTY)
    titles = "return [...document.querySelectorAll('#clusters h3')].map((h) => h.textContent)"
    assert opened.execute_script(titles) == ["Sizes", "Who moved", "Moves"]
    assert opened.get_log("browser") == []


def test_watch_goes_on_with_a_run_and_keeps_the_zoom(browser, runs):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    path = runs / "a0"
    (path / "summary.json").unlink()
    text = (path / "metrics.csv").read_text().splitlines(keepends=True)
    (path / "metrics.csv").write_text("".join(text[:-2]))
    command = [sys.executable, "-m", "flcluster", "watch", str(path), "--port", "0"]
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = next(word for word in watch.stdout.readline().split() if word.startswith("http://127.0.0.1:"))
        screen(browser, 1280)
        browser.get(address)
        wait(browser, DRAWN, lambda count: count >= 4)
        points = "return document.querySelector('#curves .plot').data[0].x.length"
        before = browser.execute_script(points)
        area = browser.find_element(By.CSS_SELECTOR, "#curves .nsewdrag")
        browser.execute_script("document.querySelector('#curves').scrollIntoView()")
        mouse = ActionChains(browser).move_to_element_with_offset(area, -200, 0).click_and_hold()
        mouse.move_by_offset(150, 5).move_by_offset(150, 5).release().perform()
        zoom = "return document.querySelector('#curves .plot').layout.xaxis.range"
        auto = "return document.querySelector('#curves .plot').layout.xaxis.autorange"
        wait(browser, auto, lambda found: found is not True)
        range_before = browser.execute_script(zoom)
        browser.execute_script("document.querySelector('details').open = true")
        (path / "metrics.csv").write_text("".join(text))
        assert wait(browser, points, lambda count: count > before) == before + 2
        assert browser.execute_script(zoom) == range_before
        assert browser.execute_script("return document.querySelector('details').open")
        assert "a run goes on" in browser.execute_script("return document.querySelector('#live').textContent")
        assert {url.partition(":")[0] for url in asked(browser) if not url.startswith(address)} <= {"data", "blob"}
        assert browser.get_log("browser") == []
    finally:
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 0
    wait(browser, "return document.querySelector('#live').className", lambda name: name == "lost")


def test_a_real_run_is_drawn(browser, tmp_path):
    """One of FIELDING on a drifting stream, made by the command itself: events on the axis, who holds what."""
    from flcluster.cli import main

    root = Path(__file__).parents[2]
    flags = ["--config", str(root / "configs" / "fielding" / "digits.yaml"), "--data.num_clients", "12"]
    flags += ["--algorithm.rounds", "14", "--engine.progress", "false", "--engine.table", "false"]
    assert main(["fit", *flags, "--run_dir", "run"]) == 0
    assert main(["report", "run", "--html", "run.html"]) == 0
    screen(browser, 1280)
    browser.get(Path("run.html").resolve().as_uri())
    wait(browser, DRAWN, lambda count: count >= 5)
    told = "return document.querySelector('#curves .plot').data.at(-1).text"
    assert any("clients changed" in text for text in browser.execute_script(told))
    assert browser.execute_script("return document.querySelector('#pictures img').naturalWidth") > 500
    assert browser.get_log("browser") == []
