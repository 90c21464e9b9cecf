"""Makes the pictures of the report in docs/images from the sample crawl.

Run ``python docs/picture.py`` after a change of the report. It needs Chromium, its driver, and the
packages of the extras ``crawler`` and ``dev``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parent.parent
IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1000, 700
# File, view, what is clicked there, and what is at the top of the picture.
VIEWS = {
    "overview": ("overview", "", ""),
    "copies": ("overview", "", "table.matrix"),
    "decisions": (
        "decisions?sort=similarity&reason=near-duplicate",
        "//button[@id='restore-these']",
        "#found",
    ),
    "threshold": ("explorer", "", ""),
    "clusters": ("clusters", "//details[@class='cluster']/summary", ""),
    "pair": ("explorer", "//tr[contains(., '/5108.html')]//a[starts-with(@href, '#pair')]", "h2"),
    "review": ("review", "", ""),
}


def sample_report(folder: Path) -> Path:
    """Crawl the sample site and write the report of it."""
    index = f"DEDUP_INDEX_URL=sqlite:{folder / 'index.db'}"
    report = folder / "report.html"
    for arguments in (["crawl", "news"], ["dedup", "report", "-o", str(report)]):
        subprocess.run(
            [sys.executable, "-m", "scrapy", *arguments, "-s", index],
            cwd=ROOT,
            env={**os.environ, "NEWS_DIR": str(folder)},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return report


@contextmanager
def browser() -> Iterator[Chrome]:
    """Headless Chromium with a window of the pictures' size."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=en-US",
        "--hide-scrollbars", "--disable-lcd-text",
    ):  # fmt: skip
        options.add_argument(argument)
    opened = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield opened
    finally:
        opened.quit()


def take(opened: Chrome, report: Path, folder: Path) -> None:
    """Write a picture of each view."""
    for name, (view, clicked, top) in VIEWS.items():
        opened.get("about:blank")
        opened.get(f"{report.as_uri()}#{view}")
        WebDriverWait(opened, 30).until(
            lambda d: d.execute_script("return document.body.dataset.ready") == "yes"
        )
        if clicked:
            opened.find_element(By.XPATH, clicked).click()
            WebDriverWait(opened, 10).until(
                lambda d: d.find_elements(By.CSS_SELECTOR, ".sheet, .cluster td, #command")
            )
        if top:
            found = opened.find_element(By.CSS_SELECTOR, top)
            opened.execute_script("arguments[0].scrollIntoView()", found)
        opened.save_screenshot(str(folder / f"{name}.png"))


def main() -> None:
    """Crawl, report, pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, browser() as opened:
        take(opened, sample_report(Path(name)), IMAGES)


if __name__ == "__main__":
    main()
