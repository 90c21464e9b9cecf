"""`restore` brings dropped pages back, `forget` lets like pages in again."""

from __future__ import annotations

import base64
import datetime
import json
import re
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.evaluation.edits import edit
from dedup_middleware.tools.commands.dedup import parse_time
from tests.commands.running import crawl, dedup, item, outcome, settings_for
from tests.texts import article


@pytest.fixture
def settings(place: dict[str, Any]) -> dict[str, Any]:
    """Two pages and three copies, one of them dropped twice, on a file and on Redis."""
    crawl(
        place,
        item("one.example", 1),
        item("one.example", 2),
        item("two.example", 1, price=5, html=b"<p>"),
        item("two.example", 2, text=article(2)[8:]),
        item("three.example", 1),
        item("three.example", 1, title="新"),
    )
    return place


def lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all"], ["two/1", "two/2", "three/1"]),
        (["--key", "https://two.example/1"], ["two/1"]),
        (["--host", "TWO.example"], ["two/1", "two/2"]),
        (["--reason", "exact-copy"], ["two/1", "three/1"]),
        (["--host", "two.example", "--reason", "exact-copy"], ["two/1"]),
        (["--since", "1h", "--until", "2999-01-01"], ["two/1", "two/2", "three/1"]),
        (["--crawl", "today"], ["two/1", "two/2", "three/1"]),
        (["--spider", "other"], None),
        (["--crawl", "never"], None),
        (["--host", "one.example"], None),
        (["--until", "1h"], None),
    ],
)
def test_choice_of_pages(tmp_path: Path, arguments: list[str], expected: list[str] | None) -> None:
    """By key, host, reason, crawl and time; the newest drop of each key; nothing found: code 1."""
    made = {**settings_for(tmp_path), "DEDUP_CRAWL_ID": "today"}
    crawl(
        made, item("one.example", 1), item("one.example", 2), item("two.example", 1),
        item("two.example", 2, text=article(2)[8:]), item("three.example", 1),
        item("three.example", 1),
    )  # fmt: skip
    out = tmp_path / "back.jsonl"
    done = dedup("restore", "-o", str(out), *arguments, "--no-index", **made)
    if expected is None:
        assert (done.code, out.exists()) == (1, False)
        assert "holds no such drop" in done.err
        return
    assert done.code == 0, done.err
    keys = [row["url"].removeprefix("https://").replace(".example", "") for row in lines(out)]
    assert keys == expected


def test_items_come_back_whole(settings: dict[str, Any], tmp_path: Path) -> None:
    """With all their fields but the raw HTML, which is named; the newest of a key."""
    out = tmp_path / "back.jsonl"
    done = dedup("restore", "-o", str(out), "--all", "--json", **settings)
    assert (done.code, done.json["restored"], done.json["entered"]) == (0, 3, 3)
    assert done.json["left_out"] == {"html": 1}
    first, second, third = lines(out)
    assert first == item("two.example", 1, price=5)
    assert second["text"] == article(2)[8:]
    assert third["title"] == "新"
    again = dedup("restore", "-o", str(tmp_path / "2.jsonl"), "--all", **settings)
    assert ": 3; new" in again.out
    assert "new to the index: 0." in again.out
    assert "Pages whose field html could not be kept: 1." in again.out


def test_index_knows_what_was_brought_back(settings: dict[str, Any], tmp_path: Path) -> None:
    """The page is stored under its own key now: unchanged when it comes again, not a copy."""
    key, text = "https://two.example/2", article(2)[8:]
    assert outcome(settings, key, text)[0] == "duplicate"
    dedup("restore", "-o", str(tmp_path / "b.jsonl"), "--key", key, **settings)
    assert outcome(settings, key, text) == ("revisit", "unchanged")
    assert dedup("stats", "--json", **settings).json["committed"] == 3
    key = "https://two.example/1"
    dedup("restore", "-o", str(tmp_path / "c.jsonl"), "--key", key, "--no-index", **settings)
    assert outcome(settings, key, article(1))[0] == "duplicate"


def test_lone_surrogates_come_back(tmp_path: Path) -> None:
    """UTF-8 can't hold them; JSON's escapes can."""
    made, text = settings_for(tmp_path), f"{article(1)} \ud800 end"
    crawl(made, {"url": "https://a/1", "text": text}, {"url": "https://b/\ud800", "text": text})
    out = tmp_path / "b.jsonl"
    assert dedup("restore", "-o", str(out), "--all", **made).code == 0
    assert lines(out) == [{"url": "https://b/\ud800", "text": text}]
    explained = dedup("explain", "--json", "https://b/\ud800", **made).json
    assert "\ud800" in json.dumps(explained, ensure_ascii=False)


def test_restore_to_standard_output(settings: dict[str, Any]) -> None:
    """`-o -` prints the lines and nothing else; what they lack is said on standard error."""
    done = dedup("restore", "-o", "-", "--host", "three.example", **settings)
    assert (done.code, done.err) == (0, "")
    assert done.json["url"] == "https://three.example/1"
    done = dedup("restore", "-o", "-", "--key", "https://two.example/1", **settings)
    assert done.json["price"] == 5
    assert done.err == "Pages whose field html could not be kept: 1.\n"


def test_text_taken_from_html_comes_back(tmp_path: Path) -> None:
    """The HTML is not kept, but the words that were read in it are."""
    made = settings_for(tmp_path)
    html = f"<html><body><article><p>{article(1)}</p></article></body></html>"
    crawl(
        {**made, "DEDUP_FILL_TEXT": False},
        {"url": "https://a/1", "html": html}, {"url": "https://b/1", "html": html},
    )  # fmt: skip
    out = tmp_path / "b.jsonl"
    assert dedup("restore", "-o", str(out), "--all", **made).code == 0
    (row,) = lines(out)
    assert row["url"] == "https://b/1"
    assert article(1)[:40] in row["text"]


def test_nothing_is_overwritten_and_all_must_be_said(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """An existing file is left alone; no choice at all is no choice of everything."""
    out = tmp_path / "mine.jsonl"
    out.write_text("mine")
    done = dedup("restore", "-o", str(out), "--all", **settings)
    assert (done.code, out.read_text()) == (1, "mine")
    assert "name a new file" in done.err
    assert "choose pages" in dedup("restore", "-o", str(tmp_path / "n"), **settings).err
    assert dedup("restore", "-o", "x", "--since", "yesterday", **settings).code == 2


def test_forget_by_key(settings: dict[str, Any]) -> None:
    """The page and its like may be stored again; another stays."""
    done = dedup("forget", "--key", "https://one.example/1", "--yes", "--json", **settings)
    assert (done.code, done.json) == (0, {"forgotten": 1})
    assert outcome(settings, "https://two.example/1", article(1))[0] == "new"
    assert outcome(settings, "https://two.example/2", article(2))[0] == "duplicate"
    again = dedup("forget", "--key", "https://one.example/1", "--yes", "--json", **settings)
    assert (again.code, again.json) == (0, {"forgotten": 0})


def test_forget_by_host(settings: dict[str, Any]) -> None:
    """All pages of a host, whatever the case of its name."""
    assert (
        "Pages forgotten: 2." in dedup("forget", "--host", "ONE.example", "--yes", **settings).out
    )
    assert dedup("stats", "--json", **settings).json["committed"] == 0


def test_forgetting_is_confirmed(settings: dict[str, Any]) -> None:
    """Without a terminal it must be said; without a choice, or with two, nothing is done."""
    done = dedup("forget", "--host", "one.example", **settings)
    assert (done.code, "add --yes" in done.err) == (1, True)
    assert "give one of" in dedup("forget", "--yes", **settings).err
    both = dedup("forget", "--yes", "--host", "a", "--key", "b", **settings)
    assert "give one of" in both.err
    assert dedup("stats", "--json", **settings).json["committed"] == 2


def test_times() -> None:
    """ISO dates and times, with or without a zone, and spans of time before now."""
    assert (
        parse_time("2026-01-02T03:04:05Z")
        == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc).timestamp()
    )
    assert parse_time("2026-01-02") == datetime.datetime(2026, 1, 2).timestamp()
    assert parse_time("90s") == pytest.approx(time.time() - 90, abs=30)
    assert parse_time("1.5d") == pytest.approx(time.time() - 129_600, abs=30)


def test_forget_by_time(settings: dict[str, Any]) -> None:
    """All that was stored in a span of time."""
    early = dedup("forget", "--until", "1h", "--yes", "--json", **settings)
    assert early.json == {"forgotten": 0}
    late = dedup("forget", "--since", "1h", "--until", "2999-01-01", "--yes", "--json", **settings)
    assert late.json == {"forgotten": 2}


def test_pages_that_were_stored_are_not_brought_back(tmp_path: Path) -> None:
    """The journal knows pages near the threshold that were let through; nothing is missing."""
    made = settings_for(tmp_path)
    near = edit(article(1, 20), "words-changed", 0.05, 1)
    crawl(made, item("a", 1, text=article(1, 20)), item("b", 1, text=near))
    assert dedup("stats", "--json", **made).json["journal"]["drops"] == 1
    done = dedup("restore", "-o", "-", "--all", **made)
    assert (done.code, done.out) == (1, "")
    assert dedup("explain", "https://b/1", **made).code == 1


def test_report_names_the_journal_it_is_about(tmp_path: Path) -> None:
    """Not the index, which it doesn't ask: the journal may be a batch's."""
    file = tmp_path / "journal.db"
    given = settings_for(tmp_path) | {"DEDUP_JOURNAL": str(file)}
    crawl(given, item("one.example", 1), item("two.example", 1))
    report = tmp_path / "report.html"
    done = dedup("report", "-o", str(report), DEDUP_JOURNAL=str(file))
    assert done.code == 0, done.err
    (packed,) = re.findall(r'id="packed">([^<]+)<', report.read_text(encoding="utf-8"))
    about = json.loads(zlib.decompress(base64.b64decode(packed)))["about"]
    assert about["DEDUP_JOURNAL"] == str(file)
    assert "DEDUP_INDEX_URL" not in about


def test_a_report_replaces_reports_alone(settings: dict[str, Any], tmp_path: Path) -> None:
    """Not the feed or the journal that is named by mistake."""
    out = tmp_path / "items.jsonl"
    out.write_text('{"url": "https://one.example/1"}')
    for path in (out, tmp_path):
        done = dedup("report", "-o", str(path), **settings)
        assert (done.code, "is no report" in done.err) == (1, True)
    assert out.read_text() == '{"url": "https://one.example/1"}'
    for arguments in ("report", "-o", "-"), ("export", "-"):
        done = dedup(*arguments, **settings)
        assert (done.code, "name a file" in done.err) == (1, True)
    for _ in range(2):
        assert dedup("report", "-o", str(tmp_path / "r.html"), **settings).code == 0


@pytest.mark.parametrize(
    "text",
    [
        '[{"key": "https://two.example/1", "title": "x"}, {"key": "https://no.example/"}]',
        ' ["https://two.example/1"]',
        "https://two.example/1\r\n\n  https://no.example/ \n",
    ],
)
def test_pages_of_a_file(tmp_path: Path, text: str) -> None:
    """Decisions or keys as JSON, or one key a line; other filters still hold."""
    made = settings_for(tmp_path)
    crawl(made, item("one.example", 1), item("two.example", 1), item("three.example", 1))
    file, out = tmp_path / "keys", tmp_path / "b.jsonl"
    file.write_bytes(text.encode())
    given = ["restore", "-o", str(out), "--keys", str(file), "--no-index"]
    assert dedup(*given, **made).code == 0
    assert [row["url"] for row in lines(out)] == ["https://two.example/1"]
    out.unlink()
    assert dedup(*given, "--host", "three.example", **made).code == 1


@pytest.mark.parametrize("text", ["[1]", "[{}]", '["a"', None])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str | None) -> None:
    """The message says what belongs into it; nothing is written."""
    made = settings_for(tmp_path)
    file, out = tmp_path / "keys", tmp_path / "b.jsonl"
    if text is not None:
        file.write_text(text)
    done = dedup("restore", "-o", str(out), "--keys", str(file), **made)
    assert (done.code, out.exists()) == (1, False)
    assert ("export the decisions" if text else "can't be read") in done.err


@pytest.mark.parametrize("option", ["--host", "--key"])
@pytest.mark.parametrize("command", ["forget", "restore"])
def test_an_empty_selection_is_refused(command: str, option: str, settings: dict[str, Any]) -> None:
    """An unset variable of the shell selects nothing, not the pages whose key is no address."""
    done = dedup(command, option, " ", *(["--yes"] if command == "forget" else []), **settings)
    assert (done.code, "is empty" in done.err) == (2, True)
