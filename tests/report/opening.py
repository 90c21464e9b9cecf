"""Opening a report in a browser."""

from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait


def open_report(chrome: Chrome, path: Path) -> None:
    """Open a report and wait until it shows its data."""
    chrome.get("about:blank")
    chrome.get(path.as_uri())
    WebDriverWait(chrome, 120).until(
        lambda d: d.execute_script("return document.body.dataset.ready") == "yes"
    )
