"""`scrapy dedup rebuild`: an index with other settings, of the pages that are stored."""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Document, Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.tools.commands.asking import Reader
from dedup_middleware.tools.commands.transfer import _columns
from tests.commands.running import crawl, dedup, item, outcome, settings_for
from tests.texts import article


def written(path: Path, *numbers: int) -> str:
    """A file of stored pages."""
    rows = [{"url": f"https://one.example/{n}", "text": article(n)} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(params=["sqlite", "redis"])
def new_index(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The address of an index that does not exist yet, and settings that the old one lacks."""
    if request.param == "sqlite":
        url = f"sqlite:{tmp_path / 'new.db'}"
    else:
        url = request.getfixturevalue("redis_url")
    return {"DEDUP_INDEX_URL": url, "DEDUP_SHINGLE_WIDTH": 4, "DEDUP_WINDOW": 86_400}


async def test_no_more_than_one_page_is_in_memory() -> None:
    """The words of a page take a thousand times as much as what is entered of it."""
    alive: weakref.WeakSet[Fingerprint] = weakref.WeakSet()
    most = 0
    sign = Fingerprinter(Options())

    def pages() -> Iterator[Fingerprint]:
        nonlocal most
        for n in range(20):
            page = sign(Document(f"https://one.example/{n}", text=article(n)))
            alive.add(page)
            most = max(most, len(alive))
            yield page

    reader = Reader(MemoryIndex(), choose_method(sign.options), sign)
    parts = [part async for part in _columns(pages(), reader, lambda _: 0)]
    assert sum(map(len, parts)) == 20
    assert most <= 3


def test_other_settings(tmp_path: Path, new_index: dict[str, Any]) -> None:
    """The new index decides by the new settings; the old one serves as before; a repetition enters
    what was stored meanwhile, and nothing twice."""
    old = settings_for(tmp_path)
    crawl(old, *(item("one.example", n) for n in range(3)))
    refused = dedup("stats", **old)
    assert refused.code == 0
    done = dedup("rebuild", written(tmp_path / "a.jsonl", 0, 1, 2, 2), "--json", **new_index)
    assert (done.code, done.err) == (0, "")
    assert done.json == {
        "read": 4, "entered": 3, "known": 1, "empty": 0, "rejected": 0, "reasons": [],
        "sound": True,
    }  # fmt: skip
    assert outcome(new_index, "https://two.example/1", article(1)) == ("duplicate", "exact-copy")
    assert outcome(old, "https://two.example/1", article(1)) == ("duplicate", "exact-copy")
    again = dedup("rebuild", written(tmp_path / "b.jsonl", 0, 1, 2, 3), **new_index)
    assert "4 rows: 1 pages entered, 3 known" in again.out
    assert "is whole" in again.out
    stats = dedup("stats", "--json", **new_index)
    assert stats.json["committed"] == 4


def test_times_are_those_of_the_old_index(tmp_path: Path, new_index: dict[str, Any]) -> None:
    """With --old, so that pages are forgotten by the time at which they were stored."""
    old = settings_for(tmp_path)
    crawl(old, item("one.example", 0), item("one.example", 1))
    with closing(sqlite3.connect(tmp_path / "index.db")) as file, file:
        first = "(SELECT min(number) FROM page)"
        file.execute(f"UPDATE page SET stamp = 1700000000 WHERE number = {first}")
    rows = written(tmp_path / "a.jsonl", 0, 1, 2)
    done = dedup("rebuild", rows, "--old", old["DEDUP_INDEX_URL"], **new_index)
    assert (done.code, done.err) == (0, "")
    done = dedup("forget", "--until", "2024-01-01", "--yes", "--json", **new_index)
    assert done.json["forgotten"] == 1
    assert outcome(new_index, "https://two.example/2", article(2))[0] == "duplicate"


def test_all_texts_of_a_key_are_entered(tmp_path: Path, new_index: dict[str, Any]) -> None:
    """A storage that keeps versions has all of them, so a copy of each is a copy."""
    path = tmp_path / "versions.jsonl"
    rows = [{"url": "https://one.example/1", "text": article(n)} for n in (1, 2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert dedup("rebuild", str(path), "--json", **new_index).json["entered"] == 2
    for n in (1, 2):
        found = outcome(new_index, f"https://two.example/{n}", article(n))
        assert found == ("duplicate", "exact-copy")


def test_rows_that_can_not_be_read(tmp_path: Path, new_index: dict[str, Any]) -> None:
    """They are counted, the first ones are named; if there are no others it is an error."""
    path = tmp_path / "bad.jsonl"
    path.write_text('not json\n{"url": "https://one.example/1", "text": " "}\n', encoding="utf-8")
    done = dedup("rebuild", str(path), "--json", **new_index)
    assert (done.code, done.json["rejected"], done.json["empty"]) == (0, 1, 1)
    assert done.json["reasons"][0].startswith(f"{path}, row 1: it is no JSON")
    path.write_text('{"body": "text"}\n', encoding="utf-8")
    done = dedup("rebuild", str(path), **new_index)
    assert (done.code, "DEDUP_TEXT_FIELD" in done.err) == (1, True)


def test_addresses_that_can_not_be_used(tmp_path: Path) -> None:
    """An index that ends with the command, one with other settings, a file that is not there."""
    file = written(tmp_path / "a.jsonl", 1)
    done = dedup("rebuild", file, DEDUP_INDEX_URL="memory:")
    assert (done.code, "name an index that stays" in done.err) == (1, True)
    old = settings_for(tmp_path)
    crawl(old, item("one.example", 1))
    done = dedup("rebuild", file, **{**old, "DEDUP_SHINGLE_WIDTH": 4})
    assert done.code == 1
    assert "DEDUP_SHINGLE_WIDTH" in done.err
    assert "scrapy dedup rebuild" in done.err
    done = dedup("rebuild", str(tmp_path / "none.jsonl"), **old)
    assert (done.code, "is no file" in done.err) == (1, True)


@pytest.mark.parametrize("fault", ["second file", "old index"])
def test_no_index_is_made_where_something_can_not_be_read(tmp_path: Path, fault: str) -> None:
    """An empty one would look like one of which all pages were rebuilt."""
    files, more = [written(tmp_path / "a.jsonl", 1)], []
    if fault == "second file":
        files.append(str(tmp_path / "b.jsonl"))
        (tmp_path / "b.jsonl").write_text("[\n")
    else:
        more = ["--old", f"sqlite:{tmp_path / 'none.db'}"]
    done = dedup("rebuild", *files, *more, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'new.db'}")
    assert (done.code, (tmp_path / "new.db").exists()) == (1, False), done.err


@pytest.mark.parametrize("windows", [(0, 3600), (3600, 0), (3600, 86_400)])
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_the_window_changes_by_one_command(
    tmp_path: Path, kind: str, windows: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    """A window is set, removed or changed by carrying the pages over; the old index refuses the
    other window, with the way out, and serves as before. A repetition enters what came since."""
    names: list[dict[str, Any]]
    if kind == "sqlite":
        names = [{"DEDUP_INDEX_URL": f"sqlite:{tmp_path / name}.db"} for name in ("old", "new")]
        source = (names[0]["DEDUP_INDEX_URL"],)
    else:
        url = request.getfixturevalue("redis_url")
        names = [{"DEDUP_INDEX_URL": url, "DEDUP_NAMESPACE": name} for name in ("old", "new")]
        source = (url, "--namespace", "old")
    before, after = (
        {**name, "DEDUP_WINDOW": window} for name, window in zip(names, windows, strict=True)
    )
    crawl(before, item("one.example", 1), item("one.example", 2))
    done = dedup("check", "-", stdin=b"text", **{**before, "DEDUP_WINDOW": windows[1]})
    assert done.code == 1
    assert "`scrapy dedup import ADDRESS`" in done.err
    done = dedup("import", *source, **after)
    assert (done.code, done.err) == (0, "")
    assert "Pages new to the index: 2; known: 0." in done.out
    assert outcome(after, "https://two.example/1", article(1)) == ("duplicate", "exact-copy")
    assert dedup("verify", **after).code == 0
    # What maintains an index finds its buckets under any window of the settings.
    assert dedup("verify", **{**after, "DEDUP_WINDOW": windows[0]}).code == 0
    assert dedup("compact", **{**after, "DEDUP_WINDOW": windows[0]}).code == 0
    assert dedup("verify", **after).code == 0
    crawl(before, item("one.example", 3))
    done = dedup("import", *source, "--json", **after)
    assert done.json == {"pages": 1, "known": 2}
    assert outcome(before, "https://two.example/1", article(1)) == ("duplicate", "exact-copy")


def test_index_that_can_not_be_copied(tmp_path: Path) -> None:
    """One that is missing, one with other settings, something that is neither file nor address."""
    old, new = settings_for(tmp_path), {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'new.db'}"}
    done = dedup("import", old["DEDUP_INDEX_URL"], **new)
    assert (done.code, "there is no index at" in done.err) == (1, True)
    crawl(old, item("one.example", 1))
    crawl({**new, "DEDUP_SHINGLE_WIDTH": 4}, item("one.example", 1))
    done = dedup("import", old["DEDUP_INDEX_URL"], **new)
    assert done.code == 1
    assert "the index copied has" in done.err
    done = dedup("import", str(tmp_path / "none.parquet"), **new)
    assert (done.code, "no file, and no address" in done.err) == (1, True)
