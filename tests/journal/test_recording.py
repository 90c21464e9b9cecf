"""The crawl writes down what it drops, waits for nothing and loses nothing silently."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from scrapy import Spider

from dedup_middleware import Deduplicator, NearDuplicate, Options
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.journal.access import open_journal
from dedup_middleware.journal.entries import Body, Drop, JournalError, Kept, is_near_miss
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.journal.writer import OTHER_HOSTS, JournalWriter
from dedup_middleware.model.documents import NEW, Verdict
from dedup_middleware.plugin.settings import crawl_id
from tests.itemcrawl import Crawled, crawl
from tests.test_pipeline import Crawl, make_crawler
from tests.texts import article


def make_drop(n: int, text: str = "text") -> Drop:
    """A drop to write."""
    return Drop(time=n, key=f"https://a/{n}", outcome="duplicate", reason="r", body=Body(text))


class Broken(SQLiteJournal):
    """A journal whose disk is full until space is freed."""

    full = True
    calls = 0

    def append(self, *batch: Any, again: bool = False) -> None:
        """Refuse while the disk is full."""
        self.calls += 1
        if self.full:
            raise JournalError("disk full")
        super().append(*batch, again=again)


async def crawl_items(path: Path, items: Iterable[dict[str, Any]], **settings: Any) -> Crawl:
    """Send items through the pipeline, all stored unless they are dropped."""
    crawl = Crawl(make_crawler(DEDUP_JOURNAL=str(path), **settings))
    await crawl.pipeline.open_spider()
    for item in items:
        await crawl.item(item)
    await crawl.pipeline.close_spider()
    return crawl


async def test_crawl_writes_what_it_drops(tmp_path: Path) -> None:
    """Page, match, similarity, reason and the item itself; the stored page's text."""
    path = tmp_path / "j.db"
    page = {"url": "https://one.example/1", "title": "第一", "text": article(1), "html": "<p>"}
    copy = {**page, "url": "https://two.example/9", "title": "转载", "price": 3}
    crawl = await crawl_items(
        path, [page, copy, {"url": "https://one.example/2", "text": article(2)}]
    )
    with open_journal(Options(journal=str(path))) as journal:
        (drop,) = journal.drops(bodies=True)
        assert (drop.key, drop.match, drop.reason) == (copy["url"], page["url"], "exact-copy")
        assert (drop.similarity, drop.title, drop.item_type) == (1.0, "转载", "dict")
        assert drop.body is not None
        assert drop.body.text == article(1)
        assert drop.body.item == {k: v for k, v in copy.items() if k != "html"}
        assert drop.body.left_out == ("html",)
        stored = journal.kept(drop)
        assert stored is not None
        assert (stored.text, stored.title) == (article(1), "第一")
        seen = {hour.host: (hour.seen, hour.stored, hour.dropped) for hour in journal.hours()}
        assert seen == {"one.example": (2, 2, {}), "two.example": (1, 0, {"exact-copy": 1})}
    assert crawl.stat("journal/written") == 1
    assert crawl.stat("journal/lost") == 0


async def test_text_of_a_page_whose_claim_was_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was entered again under another page id, which is all that drops name without addresses
    in the index."""
    commit = Deduplicator.commit

    async def too_late(self: Deduplicator, verdict: Verdict) -> bool:
        if verdict.claim is not None:
            await self._index.release(verdict.claim)
        return await commit(self, verdict)

    monkeypatch.setattr(Deduplicator, "commit", too_late)
    items = [{"url": f"https://{host}.example/1", "text": article(1)} for host in ("one", "two")]
    await crawl_items(tmp_path / "j.db", items, DEDUP_KEEP_ADDRESS=False)
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        (drop,) = journal.drops()
        stored = journal.kept(drop)
        assert stored is not None
        assert stored.text == article(1)


async def test_text_from_html_is_written(tmp_path: Path) -> None:
    """The text that was compared, although the item has only HTML."""
    path = tmp_path / "j.db"
    body = "".join(f"<p>{article(n)}</p>" for n in range(3))
    html = f"<html><head><title>题</title></head><body><article>{body}</article></body></html>"
    items = [{"url": f"https://a/{n}", "html": html} for n in range(2)]
    await crawl_items(path, items, DEDUP_FILL_TEXT=False)
    with open_journal(Options(journal=str(path))) as journal:
        (drop,) = journal.drops(bodies=True)
        assert drop.title == "题"
        assert drop.body is not None
        assert article(2)[:20] in drop.body.text
        assert drop.body.item == {"url": "https://a/1"}


async def test_switched_off(tmp_path: Path) -> None:
    """`DEDUP_JOURNAL=off` writes nothing; `DEDUP_JOURNAL_KEEP_TEXTS=False` no stored text."""
    items = [{"url": f"https://a/{n}", "text": article(1)} for n in range(2)]
    index = f"sqlite:{tmp_path / 'index.db'}"
    crawl = Crawl(make_crawler(DEDUP_INDEX_URL=index, DEDUP_JOURNAL=False))
    await crawl.pipeline.open_spider()
    for item in items:
        await crawl.item(item)
    await crawl.pipeline.close_spider()
    assert not [file for file in tmp_path.iterdir() if "journal" in file.name]
    await crawl_items(tmp_path / "j.db", items, DEDUP_JOURNAL_KEEP_TEXTS=False)
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        assert (journal.size().drops, journal.size().kept) == (1, 0)


async def test_pages_near_the_line_are_written_too(tmp_path: Path) -> None:
    """A page that was let through although much of it is stored: it shows where the line lies."""
    page = {"url": "https://one.example/1", "text": article(1, 20)}
    text = edit(article(1, 20), "words-changed", 0.07, 4)
    near = {"url": "https://two.example/1", "text": text}
    far = {"url": "https://two.example/2", "text": article(3, 20)}
    await crawl_items(tmp_path / "j.db", [page, near, far], DEDUP_HASH_KEY="5eed")
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        (found,) = journal.drops(bodies=True)
        assert found.outcome == "new"
        assert found.key == near["url"]
        assert 0.5 <= (found.similarity or 0) < 0.8
        assert found.body is not None
        assert (found.body.text, found.body.item) == (near["text"], None)
        stored = journal.kept(found)
        assert stored is not None
        assert (stored.key, stored.text) == (page["url"], page["text"])
        assert [hour.dropped for hour in journal.hours()] == [{}, {}]


async def test_a_page_that_holds_a_stored_one_is_written(tmp_path: Path) -> None:
    """As a new page with that one as its match."""
    flash = {"url": "https://one.example/1", "text": article(1, 20)}
    report = {"url": "https://two.example/1", "text": article(1, 20) + article(2, 20)}
    await crawl_items(tmp_path / "j.db", [flash, report])
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        (found,) = journal.drops()
        assert (found.key, found.outcome, found.reason) == (report["url"], "new", "supersedes")
        assert found.match == flash["url"]


async def test_marked_items_are_no_drops(tmp_path: Path) -> None:
    """With `DEDUP_ACTION=mark` every item passes, so there is nothing to bring back. Duplicates are
    near misses, and revisits are not recorded."""
    items = [{"url": f"https://a/{n}", "text": article(1)} for n in (0, 1, 1, 0)]
    await crawl_items(tmp_path / "j.db", items, DEDUP_ACTION="mark")
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        near = list(journal.drops(bodies=True))
        told = [(found.key, found.match, found.reason, is_near_miss(found)) for found in near]
        assert told == [("https://a/1", "https://a/0", "exact-copy", True)] * 2
        assert [found.body for found in near] == [Body(article(1))] * 2
        assert [(hour.seen, hour.dropped) for hour in journal.hours()] == [(4, {})]


async def test_journal_that_can_not_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The copy is dropped as ever; the failure is counted and logged once."""
    file = tmp_path / "file"
    file.write_text("no folder")
    crawl = Crawl(make_crawler(DEDUP_JOURNAL=str(file / "j.db")))
    await crawl.pipeline.open_spider()
    await crawl.item({"url": "https://a/1", "text": article(1)})
    assert isinstance(await crawl.item({"url": "https://a/2", "text": article(1)}), NearDuplicate)
    await crawl.pipeline.close_spider()
    assert crawl.stat("journal/error") >= 1
    assert crawl.stat("journal/lost") == 1
    assert "1 dropped pages could not be written to the journal" in caplog.text


def test_batch_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What could not be written is written once the disk has space, each drop once, in order."""
    counts: Counter[str] = Counter()
    journal = Broken(tmp_path / "j.db", max_bytes=10**7)
    writer = JournalWriter(journal, lambda name, n: counts.update({name: int(n)}))
    writer.start()
    with caplog.at_level(logging.WARNING):
        for n in range(700):
            writer.drop(make_drop(n))
        _until(lambda: journal.calls > 0)
    journal.full = False
    writer.close()
    writer.report_counts()
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        assert [drop.time for drop in reader.drops()] == list(range(700))
        assert [hour.seen for hour in reader.hours()] == [700]
    assert counts["journal/written"] == 700
    assert counts["journal/error"] == 1
    assert counts["journal/lost"] == 0
    assert caplog.text.count("wait to be written") == 1


def test_batch_of_unknown_fate_is_sent_as_it_was(tmp_path: Path) -> None:
    """What came since is in the next batch; a failure before the writing is no fate unknown."""
    sent: list[tuple[int, int, bool]] = []
    fails = 2

    class Unsure(SQLiteJournal):
        def append(self, *batch: Any, again: bool = False) -> None:
            drops, _, activity = batch
            sent.append((len(drops), sum(activity.values()), again))
            if len(sent) <= fails:
                raise JournalError("no answer")

        def kept(self, drop: Drop) -> Kept | None:
            if drop.number == 1:
                raise JournalError("no answer")
            return None

    writer = JournalWriter(Unsure(tmp_path / "j.db", max_bytes=10**7), lambda *_: None)
    for n in range(3):
        writer.drop(make_drop(n))
        if n < fails:
            with pytest.raises(JournalError):
                writer._write_some()
    while writer._write_some():
        pass
    assert sent == [(1, 2, False), (1, 2, True), (1, 2, True), (2, 4, False)]
    change = attrs.evolve(make_drop(9), match="https://a/9", number=1, outcome=NEW)
    writer.drop(change)
    with pytest.raises(JournalError):
        writer._write_some()
    writer._drops[0] = writer._batch[0][0] = attrs.evolve(change, number=2)  # type: ignore[index]
    assert writer._write_some()
    assert sent[4:] == [(1, 2, False)]


def test_hours_without_a_drop_are_written(tmp_path: Path) -> None:
    """A crawl that drops nothing and keeps no texts has its hours in the journal while it runs."""
    path = tmp_path / "j.db"
    writer = JournalWriter(SQLiteJournal(path, max_bytes=10**7), lambda *_: None)
    writer.start()
    try:
        writer.stored("https://one.example/1", None)

        def is_written() -> bool:
            if not path.exists():
                return False
            try:
                with open_journal(Options(journal=str(path))) as reader:
                    return [hour.stored for hour in reader.hours()] == [1]
            except JournalError:  # it is being made
                return False

        _until(is_written)
    finally:
        writer.close()


def test_writing_does_not_block(tmp_path: Path) -> None:
    """While the disk hangs, drops are accepted at once."""
    gate = threading.Event()

    class Slow(SQLiteJournal):
        def append(self, *batch: Any, again: bool = False) -> None:
            gate.wait(20)
            super().append(*batch, again=again)

    writer = JournalWriter(Slow(tmp_path / "j.db", max_bytes=10**7), lambda *_: None)
    writer.start()
    for n in range(1000):
        writer.drop(make_drop(n))
    assert not gate.is_set()
    gate.set()
    writer.close()
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        assert reader.size().drops == 1000


def test_too_much_waiting_is_counted(tmp_path: Path) -> None:
    """Memory is bounded: what does not fit is counted as lost."""
    counts: Counter[str] = Counter()
    journal = Broken(tmp_path / "j.db", max_bytes=10**7)
    writer = JournalWriter(journal, lambda name, n: counts.update({name: int(n)}), max_chars=10_000)
    writer.start()
    for n in range(20):
        writer.drop(make_drop(n, "x" * 1000))
    writer.close()
    writer.report_counts()
    assert counts["journal/lost"] == 20  # 10 did not fit, 10 waited in vain


def test_items_and_empty_texts_take_room_too(tmp_path: Path) -> None:
    """Entries without a text are bounded as well, and so are the fields of their items."""
    writer = JournalWriter(
        Broken(tmp_path / "j.db", max_bytes=10**7), lambda *_: None, max_chars=10_000
    )
    for n in range(50):
        writer.drop(make_drop(n, ""))
    assert 0 < len(writer._drops) < 50
    large = attrs.evolve(make_drop(1), body=Body("", {"comments": ["x" * 20_000]}))
    before = len(writer._drops)
    writer.drop(large)
    assert len(writer._drops) == before
    writer.close()


def test_words_of_a_change_are_counted_once(tmp_path: Path) -> None:
    """However often the batch was tried."""
    counts: Counter[str] = Counter()
    journal = Broken(tmp_path / "j.db", max_bytes=10**7)
    journal.full = False
    writer = JournalWriter(journal, lambda name, n: counts.update({name: int(n)}))
    writer.stored("https://a/1", Kept(time=1, key="https://a/1", number=1, text="one two three"))
    journal.open(create=True)
    assert writer._write_some()
    journal.full = True
    change = make_drop(2, "one two four")
    writer.drop(attrs.evolve(change, key="https://a/1", match="https://a/1", number=1, outcome=NEW))
    for _ in range(3):
        with pytest.raises(JournalError):
            writer._write_some()
    journal.full = False
    assert writer._write_some()
    writer.report_counts()
    journal.close()
    assert counts["changed/words"] == 2


def test_many_hosts_in_one_hour(tmp_path: Path) -> None:
    """A crawl of any number of hosts keeps a bounded number of counters in memory."""
    writer = JournalWriter(SQLiteJournal(tmp_path / "j.db", max_bytes=10**7), lambda *_: None)
    for n in range(10_050):
        writer.passed(f"https://host{n}.example/")
    writer.start()
    writer.close()
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        hours = reader.hours()
    assert sum(hour.seen for hour in hours) == 10_050
    assert {hour.host: hour.seen for hour in hours}[OTHER_HOSTS] >= 50


def test_entry_that_can_not_be_packed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is lost, counted and named in one line without traceback; those after it are written."""
    counts: Counter[str] = Counter()
    writer = JournalWriter(
        SQLiteJournal(tmp_path / "j.db", max_bytes=10**7),
        lambda name, n: counts.update({name: int(n)}),
    )
    writer.start()
    writer.drop(Drop(time=1, key="k", outcome="o", reason="r", body=Body("t", {"x": object()})))
    _until(lambda: not writer._drops)
    writer.drop(make_drop(2))
    writer.close()
    writer.report_counts()
    assert (counts["journal/lost"], counts["journal/written"]) == (1, 1)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "is lost: k (TypeError(" in record.getMessage()
    assert record.exc_info is None


def test_an_entry_that_can_not_be_packed_takes_no_other_with_it(tmp_path: Path) -> None:
    """All that wait are written in one batch: its drops could not be brought back any more."""
    counts: Counter[str] = Counter()
    writer = JournalWriter(
        SQLiteJournal(tmp_path / "j.db", max_bytes=10**7),
        lambda name, n: counts.update({name: int(n)}),
    )
    bad = Drop(time=1, key="k", outcome="o", reason="r", body=Body("t", {"x": object()}))
    for n in range(100):
        writer.drop(bad if n == 40 else make_drop(n))
    writer.start()
    writer.close()
    writer.report_counts()
    assert (counts["journal/lost"], counts["journal/written"]) == (1, 99)
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        assert len(list(reader.drops())) == 99
        assert sum(hour.seen for hour in reader.hours()) == 100


@pytest.mark.parametrize("bad", [("drops",), ("kept",), ("drops", "kept"), ("hours",)])
def test_what_can_not_be_packed_takes_neither_pages_nor_hours_with_it(
    bad: tuple[str, ...], tmp_path: Path
) -> None:
    """The first entries of a crawl wait with its hourly counters and its stored pages."""
    counts: Counter[str] = Counter()
    journal = SQLiteJournal(tmp_path / "j.db", max_bytes=10**7)
    writer = JournalWriter(journal, lambda name, n: counts.update({name: int(n)}))
    no_text: Any = object()
    for n in range(9):
        page = Kept(key=f"https://a/{n}", number=n, by_number=False, title="", text="t", time=0)
        worse = attrs.evolve(page, title=no_text)
        writer.stored(page.key, worse if n == 0 and "kept" in bad else page)
        drop = attrs.evolve(make_drop(n), match=page.key)
        worst = attrs.evolve(drop, body=Body("t", {"x": no_text}))
        writer.drop(worst if n == 0 and "drops" in bad else drop)
    if "hours" in bad:
        writer._activity[0, "\udcff", ""] += 1
    writer.start()
    writer.close()
    writer.report_counts()
    assert counts["journal/lost"] == len(bad)
    assert counts["journal/written"] == 9 - ("drops" in bad)
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        drops = list(reader.drops())
        assert [drop.key for drop in drops] == [f"https://a/{n}" for n in range("drops" in bad, 9)]
        assert [one is None for one in reader.kept_of_each(drops)].count(True) == (bad == ("kept",))
        seen = sum(hour.seen for hour in reader.hours())
        assert seen == sum(hour.stored for hour in reader.hours()) == (0 if "hours" in bad else 9)


async def test_a_host_with_a_lone_surrogate(tmp_path: Path) -> None:
    """The hourly counters of hosts are written with the drops."""
    pages = [{"url": f"https://{host}.example/1", "text": article(1)} for host in ("a", "\udcff")]
    crawl = await crawl_items(tmp_path / "j.db", pages)
    assert (crawl.stat("journal/lost"), crawl.stat("journal/written")) == (0, 1)


@pytest.mark.parametrize("name", [(1, 2), b"x", 3, None])
async def test_a_field_whose_name_is_no_text(tmp_path: Path, name: Any) -> None:
    """As in a dict with a tuple as a key; the dropped item can be brought back."""
    item = {"url": "https://a.example/1", "text": article(1), name: "a value"}
    again = item | {"url": "https://b.example/1"}
    await crawl_items(tmp_path / "j.db", [item, again])
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as reader:
        (drop,) = reader.drops(bodies=True)
    assert drop.body is not None
    assert drop.body.item == {"url": again["url"], "text": article(1), str(name): "a value"}


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_spider_and_id_of_the_crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decision names them; the id is the one set, that of the job, or one for each crawl."""
    path = tmp_path / "j.db"

    async def source(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for host in ("a", "b"):
            yield {"url": f"https://{host}.example/1", "text": article(1)}

    async def run(**settings: Any) -> None:
        await crawl(source, {}, **{"DEDUP_JOURNAL": str(path), **settings})

    monkeypatch.setenv("SCRAPY_JOB", "job-7")
    await run()
    await run(DEDUP_CRAWL_ID="mine")
    monkeypatch.delenv("SCRAPY_JOB")
    await run()
    await run()
    with open_journal(Options(journal=str(path))) as journal:
        drops = list(journal.drops())
    assert {drop.spider for drop in drops} == {"items"}
    crawls = [drop.crawl for drop in drops]
    assert crawls[:2] == ["job-7", "mine"]
    assert len(crawls) == len(set(crawls)) == 4


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ({"_job": "scrapyd-1"}, "", "scrapyd-1"),
        ({"_job": "scrapyd-1"}, "cloud/1/2", "cloud/1/2"),
        ({"_job": None}, "", "2"),  # the year of a time
    ],
)
async def test_id_of_a_job(
    arguments: dict[str, Any], environment: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scrapyd gives it to the spider as the argument _job, Scrapy Cloud sets SCRAPY_JOB."""
    monkeypatch.setenv("SCRAPY_JOB", environment)
    assert crawl_id(Options(), Spider("s", **arguments)).startswith(expected)


def test_the_end_of_a_crawl_is_not_overlooked(tmp_path: Path) -> None:
    """The journal is closed at once, also if that is asked for while the thread wakes up."""
    writer = JournalWriter(SQLiteJournal(tmp_path / "j.db", max_bytes=10**6), lambda *_: None)

    class Late(threading.Event):
        """Is cleared in the moment in which the crawl ends."""

        def clear(self) -> None:
            if not writer._closing.is_set():
                writer._closing.set()
                self.set()
            super().clear()

    writer._wake = Late()
    writer.start()
    writer.drop(make_drop(1))
    assert writer._thread is not None
    writer._thread.join(5)
    assert not writer._thread.is_alive()


async def test_pages_without_addresses_are_found(tmp_path: Path) -> None:
    """A revisit, and a page that changed, have their key although the index stores none."""
    page = {"url": "https://a/1", "text": article(1)}
    items = [page, page, {"url": "https://a/1", "text": article(2)}]
    await crawl_items(tmp_path / "j.db", items, DEDUP_KEEP_ADDRESS=False)
    with open_journal(Options(journal=str(tmp_path / "j.db"))) as journal:
        found = list(journal.drops(bodies=True))
        assert [one.reason for one in found] == ["unchanged", "changed"]
        assert [kept.text for one in found if (kept := journal.kept(one))] == [article(1)] * 2
        assert found[1].body is not None
        assert found[1].body.change is not None


def test_a_write_that_fails_at_the_end_is_tried_again(tmp_path: Path) -> None:
    """Another process may have locked the file for a moment just then."""
    counts: Counter[str] = Counter()
    journal = Broken(tmp_path / "j.db", max_bytes=10**7)
    writer = JournalWriter(journal, lambda name, n: counts.update({name: int(n)}))
    writer.start()
    writer.drop(make_drop(1))

    def repair() -> None:
        while journal.calls < 3:
            time.sleep(0.01)
        journal.full = False

    thread = threading.Thread(target=repair)
    thread.start()
    writer.close()
    thread.join()
    writer.report_counts()
    assert (counts["journal/written"], counts["journal/lost"]) == (1, 0)
