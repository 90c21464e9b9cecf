"""What has changed in a page that is seen again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware import Deduplicator, Document, Drop, Journal, Options
from dedup_middleware.journal.entries import (
    MOST_FIGURES,
    Body,
    Change,
    compare_versions,
    pack_body,
    unpack_body,
)
from tests.commands.running import crawl, dedup
from tests.texts import article

KEY = "https://one.example/1"
OLD = article(1, 8) + "The ferry costs 4 crowns and leaves at 8:30."
NEW = article(1, 8) + "The ferry costs 7.50 crowns and leaves at 8:30 from the old landing."
CHANGE = Change(added=6, removed=1, old_figures=("4",), new_figures=("7.50",))


def page(text: str, key: str = KEY) -> dict[str, Any]:
    """An item."""
    return {"url": key, "title": "Ferry", "text": text}


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """An index in a file, then one on Redis."""
    if request.param == "sqlite":
        return {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'index.db'}"}
    return {"DEDUP_INDEX_URL": request.getfixturevalue("redis_url")}


def changes(settings: dict[str, Any]) -> list[Drop]:
    """The changes that the journal holds."""
    with Journal(settings["DEDUP_INDEX_URL"]) as journal:
        return list(journal.changes(texts=True))


async def test_verdict_names_the_last_version() -> None:
    """The newest of several, with its similarity and the places of other figures."""
    async with Deduplicator(Options(versions="keep")) as one:
        for text in (article(5), OLD):
            await one.commit(await one.decide(Document(KEY, text=text)))
        verdict = await one.decide(Document(KEY, text=NEW))
        assert (verdict.outcome, verdict.reason, len(verdict.earlier)) == ("new", "changed", 2)
        last = verdict.previous
        assert last is not None
        assert (last.key, last.number) == (KEY, max(verdict.earlier))
        assert 0.5 < last.similarity < 1
        assert last.figures
        other = await one.decide(Document("https://two.example/", text=article(9)))
        assert other.previous is None


@pytest.mark.parametrize("at_once", [True, False])
def test_words_and_figures(settings: dict[str, Any], *, at_once: bool) -> None:
    """Whether the last version was stored by an earlier crawl or just now by the same one."""
    if at_once:
        crawl(settings, page(OLD), page(NEW))
    else:
        crawl(settings, page(OLD))
        crawl(settings, page(NEW))
    (found,) = changes(settings)
    assert (found.key, found.match, found.outcome, found.reason) == (KEY, KEY, "new", "changed")
    assert found.similarity is not None
    assert 0.5 < found.similarity < 1
    assert found.body is not None
    assert (found.body.text, found.body.change) == (NEW, CHANGE)


def test_a_change_is_no_near_miss(settings: dict[str, Any], tmp_path: Path) -> None:
    """It shows nothing of the threshold: clusters and the report do not have it."""
    crawl(settings, page(OLD), page(NEW))
    with Journal(settings["DEDUP_INDEX_URL"]) as journal:
        assert list(journal.near_misses()) == []
        assert list(journal.clusters(near=True)) == []
    report = dedup("report", "-o", str(tmp_path / "r.html"), "--json", **settings)
    assert report.json["decisions"] == 0


def test_without_the_last_text_only_the_similarity_is_known(settings: dict[str, Any]) -> None:
    """The texts of stored pages are not kept on request, or have aged out."""
    crawl({**settings, "DEDUP_JOURNAL_KEEP_TEXTS": False}, page(OLD))
    crawl(settings, page(NEW))
    (found,) = changes(settings)
    assert found.similarity is not None
    assert found.body is not None
    assert found.body.change is None


def test_history(settings: dict[str, Any]) -> None:
    """Each change with its words and figures; visits without a change are put together."""
    crawl(settings, page(OLD), page(OLD), page(OLD), page(NEW), page(NEW))
    crawl(settings, page(NEW, "https://copy.example/"))
    state = dedup("history", KEY, "--json", **settings).json
    said = [(one["reason"], one["times"]) for one in state["entries"]]
    assert said == [("unchanged", 2), ("changed", 1), ("unchanged", 1)]
    assert state["entries"][1]["change"] == {
        "added": 6, "removed": 1, "old_figures": ["4"], "new_figures": ["7.50"]
    }  # fmt: skip
    assert state["stored"]["characters"] == len(NEW)
    people = dedup("history", KEY, **settings).out
    assert "words: +6 -1" in people
    assert "figures: 4 -> 7.50" in people
    assert "2 times until" in people
    copy = dedup("history", "https://copy.example/", **settings).out
    assert f"stored page: {KEY}" in copy
    unknown = dedup("history", "https://nowhere.example/", **settings)
    assert (unknown.code, "has no entry of" in unknown.err) == (1, True)


@pytest.mark.slow
def test_batch_run(tmp_path: Path) -> None:
    """The journal of `scrapy dedup files` has the changes between rows of one page too."""
    import json

    rows = tmp_path / "pages.jsonl"
    rows.write_text("".join(json.dumps(page(text)) + "\n" for text in (OLD, NEW)))
    journal = tmp_path / "journal.db"
    done = dedup("files", str(rows), "-o", str(tmp_path / "k.jsonl"), "--journal", str(journal))
    assert done.code == 0, done.err
    with Journal(journal) as reader:
        (found,) = reader.changes()
    assert found.key == KEY


def test_only_so_many_figures_are_kept() -> None:
    """Of a table of prices that are all new, the first ones."""
    change = compare_versions("", " ".join(map(str, range(100))))
    assert change.new_figures == tuple(map(str, range(MOST_FIGURES)))
    assert (change.added, change.removed) == (100, 0)


@given(
    st.lists(st.sampled_from("a bb 7 雨 3,5% 。".split())),
    st.lists(st.sampled_from("a 7 雨 9".split())),
)
def test_change_and_its_reverse(old: list[str], new: list[str]) -> None:
    """One direction removes what the other adds; the same words in another order are no change."""
    forth, back = (
        compare_versions(" ".join(old), " ".join(new)),
        compare_versions(" ".join(new), " ".join(old)),
    )
    assert (forth.added, forth.removed) == (back.removed, back.added)
    assert (forth.old_figures, forth.new_figures) == (back.new_figures, back.old_figures)
    assert compare_versions(" ".join(old), " ".join(reversed(old))) == Change(0, 0)
    body = Body("text", change=forth)
    assert unpack_body(pack_body(body)) == body
