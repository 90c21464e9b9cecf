"""`export`, `import`, `verify` and `compact` work on every kind of index."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.tools.commands.dedup import Context
from tests.commands.running import crawl, dedup, item, outcome, settings_for
from tests.texts import article


@pytest.fixture
def settings(place: dict[str, Any]) -> dict[str, Any]:
    """Three stored pages, in a file and on Redis."""
    crawl(place, *(item("one.example", n) for n in range(3)))
    return place


def test_export_and_import(settings: dict[str, Any], tmp_path: Path) -> None:
    """Into a new index, which decides as the old one does; again, and nothing is new."""
    file = tmp_path / "pages.parquet"
    done = dedup("export", str(file), "--json", **settings)
    assert (done.code, done.json["pages"]) == (0, 3), done.err
    other = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'other.db'}"}
    done = dedup("import", str(file), "--json", **other)
    assert (done.code, done.json) == (0, {"pages": 3, "known": 0}), done.err
    assert outcome(other, "https://two.example/1", article(1)) == ("duplicate", "exact-copy")
    again = dedup("import", str(file), **other)
    assert "Pages new to the index: 0; known: 3." in again.out
    assert "exists" in dedup("export", str(file), **settings).err
    named = dedup("export", str(tmp_path / "pages.csv"), **settings)
    assert (named.code, (tmp_path / "pages.csv").exists()) == (1, False)
    assert "pages.csv: an index is written as Parquet, not as csv" in named.err
    assert ": 3 (" in dedup("export", str(file), "--overwrite", **settings).out


def test_import_of_a_damaged_file(settings: dict[str, Any], tmp_path: Path) -> None:
    """It is refused and nothing is entered; so is a file that is not there."""
    file = tmp_path / "pages.parquet"
    dedup("export", str(file), **settings)
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2] + raw[-200:])
    other = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'other.db'}"}
    assert dedup("import", str(file), **other).code == 1
    assert not (tmp_path / "other.db").exists()
    done = dedup("import", str(tmp_path / "none"), **other)
    assert (done.code, "is no file" in done.err) == (1, True)


def test_verify(settings: dict[str, Any]) -> None:
    """An index that was only crawled with is whole."""
    done = dedup("verify", "--json", **settings)
    assert (done.code, done.json["sound"], done.json["committed"]) == (0, True, 3)
    people = dedup("verify", **settings)
    assert "The index is whole." in people.out
    assert "simhash/0" in people.out


def test_verify_finds_damage(tmp_path: Path) -> None:
    """Exit code 3, and what is damaged."""
    settings = settings_for(tmp_path)
    crawl(settings, *(item("one.example", n) for n in range(3)))
    with sqlite3.connect(tmp_path / "index.db") as db:
        db.execute("DELETE FROM bucket WHERE id IN (SELECT id FROM bucket LIMIT 3)")
    db.close()
    done = dedup("verify", "--json", **settings)
    assert (done.code, done.json["sound"]) == (3, False)
    assert done.json["lacking_pages"] > 0
    assert "The index is damaged." in dedup("verify", **settings).out


def test_compact(settings: dict[str, Any]) -> None:
    """Records of forgotten pages go; those of others stay."""
    assert dedup("compact", "--json", **settings).json == {"records": 0}
    dedup("forget", "--key", "https://one.example/1", "--yes", **settings)
    assert dedup("compact", "--json", **settings).json["records"] >= 13
    assert "Records removed: 0." in dedup("compact", **settings).out
    assert outcome(settings, "https://x/", article(2))[0] == "duplicate"


def test_progress_of_compact(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar shows the buckets done, of as many as there are, to the last one."""
    reports: list[tuple[str, float | None, float]] = []

    @contextlib.contextmanager
    def progress(
        _: Context, what: str, total: float | None = None
    ) -> Iterator[Callable[[float], None]]:
        yield lambda done: reports.append((what, total, done))

    monkeypatch.setattr(Context, "progress", progress)
    buckets = dedup("stats", "--json", **settings).json["buckets"]
    assert dedup("compact", **settings).code == 0
    assert reports[-1] == ("buckets", buckets, buckets)
    assert [done for _, _, done in reports] == sorted(done for _, _, done in reports)


@pytest.mark.parametrize(
    "arguments",
    [["export", "f"], ["verify"], ["compact"], ["check", "-"], ["forget", "--key", "k", "--yes"]],
)
def test_index_that_does_not_exist(tmp_path: Path, arguments: list[str]) -> None:
    """Exit code 1, a clear message, and nothing is made."""
    settings = settings_for(tmp_path)
    done = dedup(*arguments, stdin=b"text", **settings)
    assert done.code == 1
    assert "there is no index" in done.err
    assert list(tmp_path.iterdir()) == []


def test_redis_that_is_away() -> None:
    """Exit code 1 and the reason, without the password."""
    url = "redis://me:secret@127.0.0.1:9/0"
    for command in (["stats"], ["verify"], ["explain", "k"]):
        done = dedup(*command, DEDUP_INDEX_URL=url, DEDUP_RETRIES=0, DEDUP_TIMEOUT=0.5)
        assert done.code == 1
        assert "can't be used" in done.err
        assert "secret" not in done.err
