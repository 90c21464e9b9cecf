"""The report is checked by axe-core, an engine that knows the rules of WCAG."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.report.driving import VIEWS, find, resize, show

# Its Python code drives another browser; only the engine that it carries is used.
PACKAGE = "axe-playwright-python"
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then((result) => done(result.violations.map(
  (one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`)));
"""


@pytest.fixture(scope="session")
def engine() -> str:
    """The script of axe-core."""
    (script,) = (file for file in files(PACKAGE) or [] if file.name == "axe.min.js")
    return Path(str(script.locate())).read_text(encoding="utf-8")


@pytest.fixture(
    params=[(1200, 1000, "light"), (1200, 1000, "dark"), (390, 844, "light"), (390, 844, "dark")],
    ids=lambda of: f"{of[0]}-{of[2]}",
)
def shown(request: pytest.FixtureRequest, whole_page: Chrome) -> Iterator[Chrome]:
    """The report with all views on a desktop and on a phone, light and dark."""
    width, height, scheme = request.param
    resize(whole_page, (width, height))
    set_scheme = "document.documentElement.dataset.scheme = arguments[0]"
    whole_page.execute_script(set_scheme, scheme)
    yield whole_page
    resize(whole_page, None)


def violations(page: Chrome, engine: str) -> list[Any]:
    """What the engine objects to."""
    page.execute_script(f"if (!window.axe) {{ {engine} }}")
    return list(page.execute_async_script(RUN))


def test_no_view_breaks_a_rule(shown: Chrome, engine: str) -> None:
    """With everything unfolded that can be, in both languages."""
    for _ in range(2):
        for view in (*VIEWS, "comparison"):
            show(shown, view)
            shown.execute_script(
                "for (const one of document.querySelectorAll('details')) one.open = true;"
                "document.getElementById('restore-these')?.click()"
            )
            assert violations(shown, engine) == [], view
        find(shown, "#language").click()


def test_engine_finds_what_is_wrong(whole_page: Chrome, engine: str) -> None:
    """It runs under the policy of the page, and an unnamed button is found."""
    assert violations(whole_page, engine) == []
    whole_page.execute_script(
        "document.querySelector('main').append(document.createElement('button'))"
    )
    assert [one.split(":")[0] for one in violations(whole_page, engine)] == ["button-name"]
