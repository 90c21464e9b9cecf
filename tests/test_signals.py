"""The signal of items that are like a stored page."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from dedup_middleware import NearDuplicate
from dedup_middleware.plugin import acting
from dedup_middleware.plugin.signals import dedup_duplicate
from tests.test_pipeline import Crawl, make_crawler
from tests.texts import article


@attrs.define
class Heard:
    """What a receiver was sent."""

    calls: list[dict[str, Any]] = attrs.field(factory=list)

    def receive(
        self, item: Any, verdict: Any, kind: str, match: Any, dropped: bool, spider: Any
    ) -> None:
        """The receiver."""
        self.calls.append({"item": item, "verdict": verdict, "match": match, "spider": spider,
                           "kind": kind, "dropped": dropped})  # fmt: skip

    def kinds(self) -> list[tuple[str, bool]]:
        """Kind, and whether the item is dropped."""
        return [(call["kind"], call["dropped"]) for call in self.calls]


async def listening(receiver: Any, **settings: Any) -> Crawl:
    """An open crawl on a memory index with a receiver."""
    crawl = Crawl(make_crawler(DEDUP_HASH_KEY="5eed", **settings))
    crawl.crawler.signals.connect(receiver, dedup_duplicate)
    await crawl.pipeline.open_spider()
    return crawl


def page(host: str, text: str) -> dict[str, Any]:
    """An item of a host."""
    return {"url": f"https://{host}/1", "title": "桥", "text": text}


NEAR_TEXT = article(1, 8) + article(2, 5)


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({}, [("duplicate", True), ("revisit", True), ("near", False)]),
        ({"DEDUP_REVISIT": "keep"}, [("duplicate", True), ("revisit", False), ("near", False)]),
        ({"DEDUP_ACTION": "mark"}, [("duplicate", False), ("revisit", False), ("near", False)]),
    ],
)
async def test_kinds(settings: dict[str, Any], kinds: list[tuple[str, bool]]) -> None:
    """Each item that is like a stored page is announced once, with its kind and whether it is
    dropped."""
    heard = Heard()
    crawl = await listening(heard.receive, **settings)
    first = page("first", article(1, 8))
    for item in (
        first, page("copy", article(1, 8)), page("first", article(1, 8)), page("near", NEAR_TEXT),
        page("other", article(7)),
    ):  # fmt: skip
        await crawl.item(item)
    await crawl.pipeline.close_spider()
    assert heard.kinds() == kinds
    assert {call["match"].key for call in heard.calls[:2]} == {"https://first/1"}
    assert [call["verdict"].key for call in heard.calls] == [
        "https://copy/1", "https://first/1", "https://near/1"
    ]  # fmt: skip
    assert heard.calls[0]["item"]["url"] == "https://copy/1"


async def test_empty_and_skipped_items_are_not_announced() -> None:
    """Nothing was found to be like them."""
    heard = Heard()
    crawl = await listening(heard.receive, DEDUP_ON_EMPTY="drop")
    await crawl.item(page("a", ""))
    await crawl.item({**page("b", article(1)), "dedup_skip": True})
    await crawl.pipeline.close_spider()
    assert heard.calls == []


async def test_an_error_of_a_receiver_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The copy is dropped and the near page stored as without the receiver."""

    def fail() -> None:
        raise RuntimeError("the receiver's own matter")

    crawl = await listening(fail)
    await crawl.item(page("first", article(1, 8)))
    assert isinstance(await crawl.item(page("copy", article(1, 8))), NearDuplicate)
    await crawl.item(page("near", NEAR_TEXT))
    await crawl.pipeline.close_spider()
    assert crawl.stat("committed") == 2
    assert crawl.stat("error/internal") == 0
    assert "the receiver's own matter" in caplog.text


async def test_a_slow_receiver_delays_no_decision_and_is_waited_for_at_the_end() -> None:
    """Items are decided while it runs; closing waits until it has ended."""
    go, ended = asyncio.Event(), []

    async def slow(verdict: Any) -> None:
        await go.wait()
        ended.append(verdict.key)

    crawl = await listening(slow)
    for host in ("first", "a", "b", "c"):
        await crawl.item(page(host, article(1)))
    assert (crawl.stat("dropped"), ended) == (3, [])
    closing = asyncio.ensure_future(crawl.pipeline.close_spider())
    await asyncio.sleep(0)
    assert not closing.done()
    go.set()
    await closing
    assert ended == ["https://a/1", "https://b/1", "https://c/1"]


async def test_calls_that_do_not_end_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Above a number of calls the next item waits for one; at the end they are cancelled."""
    monkeypatch.setattr(acting, "MAX_RUNNING", 2)
    monkeypatch.setattr(acting, "LONGEST_WAIT", 0.01)
    gate = asyncio.Semaphore(0)

    async def slow() -> None:
        await gate.acquire()

    crawl = await listening(slow)
    for host in ("first", "a", "b"):
        await crawl.item(page(host, article(1)))
    third = asyncio.ensure_future(crawl.item(page("c", article(1))))
    await asyncio.sleep(0.05)
    assert not third.done()
    gate.release()
    assert isinstance(await third, NearDuplicate)
    await crawl.pipeline.close_spider()
    assert "2 receivers of dedup_duplicate did not end" in caplog.text


@pytest.mark.parametrize("empty", [False, True])
async def test_the_mark_names_the_texts_that_an_item_replaces(*, empty: bool) -> None:
    """Storage replaces the row of a marked duplicate, too, and of an empty page: the mark and the
    signal have the ids of the texts that the index has forgotten."""
    heard = Heard()
    crawl = await listening(heard.receive, DEDUP_ACTION="mark")
    await crawl.item(page("a", article(1)))
    await crawl.item(page("b", article(2)))
    marked = page("a", "" if empty else article(2))
    await crawl.item(marked)
    assert marked["dedup"]["earlier"] == [1]
    assert [call["verdict"].earlier for call in heard.calls] == ([] if empty else [(1,)])
    assert crawl.stat("replaced") == 1
    await crawl.pipeline.close_spider()
