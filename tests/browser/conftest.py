"""A headless Chromium, as Debian's packages chromium and chromium-driver install it."""

import shutil

import pytest

FLAGS = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
FLAGS += " disable-component-update disable-sync hide-scrollbars"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One browser for all tests of a file; without one they fail: whoever asks for them wants them run."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert binary and driver, "apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS.split(), f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium):
    """The browser with nothing in it and empty logs."""
    chromium.get("about:blank")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    return chromium
