"""The report from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dedup_middleware import Journal, Options
from dedup_middleware.base.errors import DedupError
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.report.htmlreport import Report
from tests.report.samples import DROPS


def keys(report: Report) -> list[str]:
    """The keys of the pages that a report shows."""
    found: list[str] = report.contents["pages"]["key"]
    return found


def test_report_of_a_journal(journal: SQLiteJournal, tmp_path: Path) -> None:
    """It shows all decisions of the journal, with the method and threshold of the options."""
    with Journal(tmp_path / "journal.db") as opened:
        report = Report(opened, options=Options(threshold=0.9))
    assert report.decisions == len(keys(report)) == len(DROPS)
    assert report.contents["threshold"] == 0.9
    assert report.contents["about"]["DEDUP_METHOD"] == "content"
    size = report.write(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page == report.html()
    assert size == len(page.encode())
    json.dumps(report.contents)


def test_filters_and_limits(journal: SQLiteJournal, tmp_path: Path) -> None:
    """It takes the filters of the journal; limits leave the newest decisions, and drop texts."""
    with Journal(tmp_path / "journal.db") as opened:
        every = keys(Report(opened))
        some = keys(Report(opened, hosts="copy.example", reasons=["near-duplicate"]))
        newest = Report(opened, decisions=1, texts=0)
    assert some
    assert set(some) < set(every)
    assert newest.decisions == 1
    assert newest.contents["details"]["texts"] == []


def test_against_another_journal(journal: SQLiteJournal, tmp_path: Path) -> None:
    """Two journals in one report."""
    with Journal(tmp_path / "journal.db") as opened:
        assert Report(opened).contents.get("other") is None
        compared = Report(opened, against=opened)
    assert compared.contents["other"]


def test_errors(journal: SQLiteJournal, tmp_path: Path) -> None:
    """Wrong limits, filters and files are named."""
    with Journal(tmp_path / "journal.db") as opened:
        with pytest.raises(ValueError, match="decisions=0 and texts=1 can't be used"):
            Report(opened, decisions=0, texts=1)
        with pytest.raises(TypeError, match="no such filter: host"):
            Report(opened, host="a.example")  # type: ignore[call-arg]
        report = Report(opened)
    with pytest.raises(DedupError, match=r"none/report\.html can't be written"):
        report.write(tmp_path / "none" / "report.html")
