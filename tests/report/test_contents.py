"""What goes into a report."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
import zlib
from pathlib import Path

import attrs
import pytest

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.journal.entries import Body, Kept, Query
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.report.htmlreport import collect, render, write
from tests.report.samples import DROPS, ENGLISH, STORED_TEXT


def contents(journal: SQLiteJournal, **limits: int) -> dict:
    """The contents with the default options, whose threshold is 0.8."""
    return collect(journal, Options(), now=0.0, **limits)


def test_all_decisions_are_there_in_order(journal: SQLiteJournal) -> None:
    """Every drop has its key, similarity, reason and stored page, in the journal's order."""
    made = contents(journal)
    pages = made["pages"]
    assert pages["key"] == [drop.key for drop in DROPS]
    assert pages["similarity"] == [drop.similarity for drop in DROPS]
    assert [made["reasons"][i] for i in pages["reason"]] == [drop.reason for drop in DROPS]
    keys = [made["stored"]["key"][i] if i >= 0 else None for i in pages["match"]]
    assert keys == [drop.match for drop in DROPS]
    assert made["total"] == len(DROPS)
    assert [made["spiders"][i] for i in pages["spider"]] == [drop.spider for drop in DROPS]
    assert [made["crawls"][i] for i in pages["crawl"]] == [drop.crawl for drop in DROPS]


def test_texts_stand_once(journal: SQLiteJournal) -> None:
    """Texts of dropped and stored pages are there, each once, though many pages share one."""
    made = contents(journal)
    assert len(made["details"]["texts"]) == len(set(made["details"]["texts"]))
    assert {made["details"]["texts"][i] for i in made["stored"]["text"]} == {STORED_TEXT, ENGLISH}
    assert made["stored"]["title"] == ["港口", "Harbour"]


@pytest.mark.slow
def test_long_texts_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Of 150 pairs of a megabyte each some are in memory at a time."""
    with SQLiteJournal(tmp_path / "j.db", max_bytes=10**9) as journal:
        journal.open(create=True)
        for n in range(150):
            text = f"{n} harbour " * 100_000
            drop = attrs.evolve(DROPS[0], match=None, number=n, body=Body(text))
            kept = Kept(key=f"https://a/{n}", number=n, text=f"{n} ferries " * 100_000, time=0.0)
            journal.append([drop], [kept], {})
        tracemalloc.start()
        try:
            made = contents(journal, text_bytes=5 * 10**6)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(made["details"]["texts"]) == 4
    assert most < 2e8


def test_the_pair_next_to_the_line_comes_first(journal: SQLiteJournal) -> None:
    """If only one pair is shown, it is one of those next to the threshold."""
    size = len(STORED_TEXT.encode()) * 2
    made = contents(journal, text_bytes=size)
    with_text = [i for i, text in enumerate(made["pages"]["text"]) if text >= 0]
    assert {made["pages"]["similarity"][i] for i in with_text} <= {0.81, 0.79}
    assert with_text
    assert sum(len(text.encode()) for text in made["details"]["texts"]) <= size


def test_the_newest_decisions_are_shown(journal: SQLiteJournal) -> None:
    """A limit keeps the newest and still says how many there are."""
    made = contents(journal, decisions=3)
    assert made["pages"]["key"] == [drop.key for drop in DROPS[-3:]]
    assert made["total"] == len(DROPS)


def test_chosen_decisions(journal: SQLiteJournal) -> None:
    """By any filter; counters by hour are left out where they do not tell apart what it does."""
    whole = contents(journal)
    host = whole["hosts"][whole["pages"]["host"][0]]
    chosen = collect(journal, Options(), query=Query(hosts=frozenset({host})), now=0.0)
    places = [number for number in whole["pages"]["host"] if whole["hosts"][number] == host]
    assert len(chosen["pages"]["key"]) == len(places)
    assert 0 < len(places) < len(whole["pages"]["key"])
    assert {chosen["hosts"][site[0]] for site in chosen["activity"]["sites"]} == {host}
    none = collect(journal, Options(), query=Query(spiders=frozenset({"none"})), now=0.0)
    assert (none["pages"]["key"], none["activity"]["hours"]) == ([], [])


def test_similarity_is_rounded_down(journal: SQLiteJournal) -> None:
    """A page just below the threshold is not shown as one that reaches it."""
    near = DROPS[2].__class__(
        time=0.0, key="k", outcome="new", reason="too-little-in-common", match="m",
        similarity=0.79999,
    )  # fmt: skip
    journal.append([near], [], {})
    assert contents(journal)["pages"]["similarity"][-1] == 0.7999


def test_nothing_is_fetched_and_nothing_foreign_runs(journal: SQLiteJournal) -> None:
    """The file names no other address to load, and its policy allows its own script alone."""
    page = render(contents(journal))
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page.split("<script>")[0]) == []
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "alert(1)" not in page
    packed = page.split('id="packed">')[1].split("</script>")[0]
    assert json.loads(zlib.decompress(base64.b64decode(packed)))["total"] == len(DROPS)


def test_report_replaces_a_file_whole(journal: SQLiteJournal, tmp_path: Path) -> None:
    """An older report of that name is replaced, and no other file is left in the folder."""
    folder = tmp_path / "reports"
    folder.mkdir()
    path = folder / "report.html"
    write(contents(journal), path)
    with path.open("a") as file:
        file.write("<!-- old -->")
    size = write(contents(journal), path)
    assert path.stat().st_size == size
    assert [file.name for file in folder.iterdir()] == ["report.html"]


def test_a_folder_that_is_not_there_is_named(journal: SQLiteJournal, tmp_path: Path) -> None:
    """The error names the file and the way out."""
    with pytest.raises(DedupError, match=r"nowhere/report\.html can't be written.*-o"):
        write(contents(journal), tmp_path / "nowhere" / "report.html")
