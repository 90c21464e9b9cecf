"""A journal with known drops, the report made of it, and a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.report.htmlreport import collect, write
from tests.report.browser import chromium
from tests.report.opening import open_report
from tests.report.samples import ACTIVITY, CHANGES, DROPS, KEPT, OTHER_DROPS, START

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteJournal]:
    """A journal that holds DROPS, KEPT and ACTIVITY."""
    made = SQLiteJournal(tmp_path / "journal.db", max_bytes=10_000_000)
    made.open(create=True)
    with made:
        made.append(DROPS, KEPT, ACTIVITY)
        yield made


@pytest.fixture
def report(journal: SQLiteJournal, tmp_path: Path) -> Path:
    """The report of the journal, in a file."""
    path = tmp_path / "report.html"
    write(collect(journal, Options(), now=START + 9000.0), path)
    return path


@pytest.fixture
def whole_report(journal: SQLiteJournal, tmp_path: Path) -> Path:
    """The report with all views: with changes, and compared with another journal."""
    path = tmp_path / "whole.html"
    journal.append(CHANGES, [], {})
    second = SQLiteJournal(tmp_path / "other.db", max_bytes=10_000_000)
    second.open(create=True)
    with second:
        second.append(OTHER_DROPS, [], ACTIVITY)
        write(collect(journal, Options(), now=START + 10_000.0, other=second), path)
    return path


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser puts what it downloads."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def chrome(downloads: Path) -> Iterator[Chrome]:
    """Headless Chromium without a network."""
    with chromium(downloads) as opened:
        yield opened


@pytest.fixture
def page(chrome: Chrome, report: Path) -> Iterator[Chrome]:
    """The report, opened from disk and ready; nothing may have been complained about in the end."""
    open_report(chrome, report)
    yield chrome
    assert chrome.get_log("browser") == []
    chrome.execute_script("localStorage.clear()")


@pytest.fixture
def whole_page(chrome: Chrome, whole_report: Path) -> Iterator[Chrome]:
    """The report with all views, as ``page`` is the plain one."""
    open_report(chrome, whole_report)
    yield chrome
    assert chrome.get_log("browser") == []
    chrome.execute_script("localStorage.clear()")
