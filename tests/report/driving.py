"""What tests do with a report in a browser.

What waits imports selenium's driver, so that only the process that drives the browser does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.common.exceptions import (
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

VIEWS = ("overview", "decisions", "explorer", "clusters", "changes", "review", "pair/0")
CONTROLS = "button, input, select, textarea, a, svg, meter"


def until(page: Chrome, condition: Callable[[Chrome], object], seconds: float = 60) -> None:
    """Wait until something is so; an element that is made anew meanwhile is looked for again.

    :param seconds: when a page that hangs is given up
    :raises TimeoutException: it is not so by then
    """
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, seconds, 0.05, [StaleElementReferenceException]).until(condition)


def show(page: Chrome, view: str) -> None:
    """Go to a view by its address."""
    page.execute_script("location.hash = arguments[0]", view)
    until(
        page,
        lambda d: view.startswith("pair") or d.find_elements(By.CSS_SELECTOR, "[aria-current]"),
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
    try:
        until(page, lambda d: any(expected in text for text in texts(d, selector)))
    except TimeoutException:
        raise AssertionError(f"{texts(page, selector)}, not {expected!r}") from None


def is_saved(file: Path) -> bool:
    """Whether a download is there, which Chromium moves over an empty file of its name."""
    return file.exists() and file.stat().st_size > 0


def saved(page: Chrome, folder: Path, button: str, name: str) -> bytes:
    """Press a button and read the file that it saves."""
    file = folder / name
    file.unlink(missing_ok=True)
    # A list that is made anew between the two steps has another button.
    until(page, lambda d: find(d, button).click() is None)
    until(page, lambda _: is_saved(file))
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
