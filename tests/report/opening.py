"""Opening a report in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.report.driving import until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def open_report(chrome: Chrome, path: Path) -> None:
    """Open a report and wait until it shows its data."""
    chrome.get("about:blank")
    chrome.get(path.as_uri())
    until(chrome, lambda d: d.execute_script("return document.body.dataset.ready") == "yes", 120)
