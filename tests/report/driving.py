"""What tests do with a report in a browser."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

VIEWS = ("overview", "decisions", "explorer", "clusters", "changes", "review", "pair/0")
CONTROLS = "button, input, select, textarea, a, svg, meter"


def show(page: Chrome, view: str) -> None:
    """Go to a view by its address."""
    page.execute_script("location.hash = arguments[0]", view)
    WebDriverWait(page, 60).until(
        lambda d: view.startswith("pair") or d.find_elements(By.CSS_SELECTOR, "[aria-current]")
    )
    time.sleep(0.1)


def find(page: Chrome, selector: str) -> WebElement:
    """The first element that fits."""
    return page.find_element(By.CSS_SELECTOR, selector)


def texts(page: Chrome, selector: str) -> list[str]:
    """Texts of all elements that fit."""
    return [element.text for element in page.find_elements(By.CSS_SELECTOR, selector)]


def titles(page: Chrome, table: str = "main table.list") -> list[str]:
    """The last word of the titles in a list."""
    pages = texts(page, f"{table} td.page:not(.match)")
    return [text.split("\n")[0].split()[-1] for text in pages]


def open_filters(page: Chrome) -> None:
    """Show the fields of the filters."""
    page.execute_script("document.querySelector('.filters details').open = true")


def fill(page: Chrome, name: str, value: str) -> None:
    """Type into the field of a filter."""
    field = find(page, f"#filter-{name}")
    field.clear()
    field.send_keys(value)


def pick(page: Chrome, name: str, value: str) -> None:
    """Choose in the field of a filter."""
    Select(find(page, f"#{name}")).select_by_value(value)


def wait_for(page: Chrome, expected: str, selector: str = "#found") -> None:
    """Wait until the text of an element contains what is expected."""
    wait = WebDriverWait(page, 60, ignored_exceptions=[StaleElementReferenceException])
    try:
        wait.until(lambda d: any(expected in text for text in texts(d, selector)))
    except TimeoutException:
        raise AssertionError(f"{texts(page, selector)}, not {expected!r}") from None


def saved(page: Chrome, folder: Path, button: str, name: str) -> bytes:
    """Press a button and read the file that it saves."""
    file = folder / name
    file.unlink(missing_ok=True)
    # A list that is made anew between the two steps has another button.
    pressing = WebDriverWait(page, 60, ignored_exceptions=[StaleElementReferenceException])
    pressing.until(lambda d: find(d, button).click() is None)
    # Chromium makes an empty file of this name before it moves the whole one there.
    WebDriverWait(page, 60).until(lambda _: file.exists() and file.stat().st_size > 0)
    data = file.read_bytes()
    file.unlink()
    return data


def resize(page: Chrome, size: Sequence[int] | None) -> None:
    """Show the page as on a screen of this width and height; None: as before."""
    if size is None:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        return
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
