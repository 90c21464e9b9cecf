"""The commands while a crawl moves away from a former index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import CloseSpider

from tests.commands.running import crawl, dedup, item, outcome
from tests.commands.test_asking import settings_for
from tests.texts import article

A, B = "https://one.example/1", "https://one.example/2"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """A crawl that has begun to move: three pages in the former index, one in that of now."""
    before = settings_for(tmp_path)
    crawl(before, *(item("one.example", seed) for seed in (1, 2, 3)))
    now = {
        **before,
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'now.db'}",
        "DEDUP_FORMER_INDEX_URL": before["DEDUP_INDEX_URL"],
    }
    crawl(now, item("two.example", 4))
    return now


def test_check(settings: dict[str, Any]) -> None:
    """A copy of a page that only the former index has would be dropped, and it says where that was
    found; nothing is carried over by the question."""
    for _ in range(2):
        done = dedup("check", "-", "--json", stdin=article(1).encode(), **settings)
        assert (done.code, done.json["outcome"]) == (3, "duplicate")
        assert done.json["match"]["key"] == A
        assert done.json["match"]["tables"][0] == "former"
    assert "former simhash/0" in dedup("check", "-", stdin=article(1).encode(), **settings).out
    assert dedup("check", "-", "--json", stdin=article(9).encode(), **settings).code == 0
    assert dedup("stats", "--json", **settings).json["committed"] == 1


def test_check_of_a_text_that_was_replaced(settings: dict[str, Any]) -> None:
    """The newer text in the current index wins."""
    crawl(settings, {**item("one.example", 1), "text": article(11)})
    done = dedup("check", "-", "--json", stdin=article(1).encode(), **settings)
    assert (done.code, done.json["outcome"]) == (0, "new")


def test_explain(settings: dict[str, Any]) -> None:
    """What was dropped says that the former index was asked."""
    crawl(settings, item("copy.example", 1))
    said = dedup("explain", A, "--json", **settings).json
    assert said["clusters"][0]["stored"] == A
    (dropped,) = said["clusters"][0]["dropped"]
    assert dropped["key"] == "https://copy.example/1"
    assert dropped["former"]
    assert "found in: the former index" in dedup("explain", A, **settings).out


def test_forget(settings: dict[str, Any]) -> None:
    """A page is forgotten in both, and is not carried over again; so are those of a host."""
    crawl(settings, item("copy.example", 1))
    assert dedup("forget", "--key", A, "--yes", "--json", **settings).json == {"forgotten": 1}
    assert outcome(settings, "https://x/", article(1))[0] == "new"
    assert outcome(settings, "https://x/", article(2))[0] == "duplicate"
    dedup("forget", "--host", "one.example", "--yes", **settings)
    assert outcome(settings, "https://x/", article(3))[0] == "new"


def test_clear(settings: dict[str, Any]) -> None:
    """All pages are forgotten in both."""
    assert dedup("clear", "--yes", **settings).code == 0
    for seed in (1, 4):
        assert outcome(settings, "https://x/", article(seed))[0] == "new"


def test_compact_waits(settings: dict[str, Any]) -> None:
    """Until the crawl has moved."""
    done = dedup("compact", **settings)
    assert done.code == 1
    assert "remove the setting and run compact" in done.err
    del settings["DEDUP_FORMER_INDEX_URL"]
    assert dedup("compact", **settings).code == 0


def test_rest_is_imported(settings: dict[str, Any]) -> None:
    """Then the setting can be left out; a page that was carried over before is passed over, and
    one that was replaced does not come back."""
    crawl(settings, item("copy.example", 1), {**item("one.example", 2), "text": article(12)})
    done = dedup("import", settings["DEDUP_FORMER_INDEX_URL"], "--json", **settings)
    assert done.json == {"pages": 1, "known": 1}
    del settings["DEDUP_FORMER_INDEX_URL"]
    assert [outcome(settings, "https://x/", article(n))[0] for n in (1, 2, 3)] == [
        "duplicate",
        "new",
        "duplicate",
    ]


def test_crawl_that_can_not_start(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Other parameters: one line that names the setting, and no page is decided."""
    settings["DEDUP_SHINGLE_WIDTH"] = 4
    settings["DEDUP_INDEX_URL"] += ".other"
    with pytest.raises(CloseSpider):
        crawl(settings, item("copy.example", 1))
    assert "DEDUP_FORMER_INDEX_URL" in caplog.text
