"""The report is checked by axe-core, an engine that knows the rules of WCAG."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.driving import VIEWS, find, resize, show

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

# Its Python code drives another browser; only the engine that it carries is used.
PACKAGE = "axe-playwright-python"
RUN = """
const [rules, done] = arguments;
const options = {resultTypes: ["violations"], ...(rules && {runOnly: rules})};
axe.run(document, options).then((result) => done(result.violations.map(
  (one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`)));
"""
# All rules that look at colours.
OF_COLOURS = ("color-contrast", "link-in-text-block")


@pytest.fixture(scope="session")
def engine() -> str:
    """The script of axe-core."""
    (script,) = (file for file in files(PACKAGE) or [] if file.name == "axe.min.js")
    return Path(str(script.locate())).read_text(encoding="utf-8")


@pytest.fixture(params=[(1200, 1000), (390, 844)], ids=["desktop", "phone"])
def shown(request: pytest.FixtureRequest, whole_page: Chrome) -> Iterator[Chrome]:
    """The report with all views on a desktop and on a phone."""
    resize(whole_page, request.param)
    yield whole_page
    resize(whole_page, None)


def violations(page: Chrome, engine: str, *rules: str) -> list[Any]:
    """What the engine objects to, by some rules or by all."""
    page.execute_script(f"if (!window.axe) {{ {engine} }}")
    return list(page.execute_async_script(RUN, rules or None))


def paint(page: Chrome, scheme: str) -> None:
    """Show the page light or dark."""
    page.execute_script("document.documentElement.dataset.scheme = arguments[0]", scheme)


def test_no_view_breaks_a_rule(shown: Chrome, engine: str) -> None:
    """With everything unfolded that can be, in both languages; dark, where it is but colours that
    differ, in one language."""
    for language in ("en", "zh"):
        for view in (*VIEWS, "comparison"):
            show(shown, view)
            shown.execute_script(
                "for (const one of document.querySelectorAll('details')) one.open = true;"
                "document.getElementById('restore-these')?.click()"
            )
            paint(shown, "light")
            assert violations(shown, engine) == [], (view, language)
            if language == "en":
                paint(shown, "dark")
                assert violations(shown, engine, *OF_COLOURS) == [], (view, "dark")
        find(shown, "#language").click()


def test_engine_finds_what_is_wrong(whole_page: Chrome, engine: str) -> None:
    """It runs under the policy of the page, and an unnamed button is found."""
    assert violations(whole_page, engine) == []
    whole_page.execute_script(
        "document.querySelector('main').append(document.createElement('button'))"
    )
    assert [one.split(":")[0] for one in violations(whole_page, engine)] == ["button-name"]


def test_engine_finds_colours_that_are_alike(whole_page: Chrome, engine: str) -> None:
    """With the rules for colours alone, too."""
    paint(whole_page, "dark")
    assert violations(whole_page, engine, *OF_COLOURS) == []
    whole_page.execute_script("document.querySelector('main').style.color = '#333'")
    found = violations(whole_page, engine, *OF_COLOURS)
    assert {one.split(":")[0] for one in found} == {"color-contrast"}
