"""No chain of later pipelines makes a page a duplicate of something that was not stored."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

from dedup_middleware import DedupPipeline, Document, NearDuplicate
from dedup_middleware.model.documents import Verdict
from tests.itemcrawl import Crawled, crawl
from tests.itemkinds import CHANGES, KINDS, TupleAdapter, changed, fields_of
from tests.texts import article

# The title names the item in the log of what was stored, so that no change may delete it.
_CHANGES = CHANGES | {
    "text deleted": lambda item: changed(item, text=None, html=None),
    "all fields deleted": lambda item: {"title": fields_of(item)["title"]},
}
_WAITS = {f"wait {seconds}": seconds for seconds in (0.0, 0.001, 0.003)}
_ACTIONS = st.sampled_from(["same", *_CHANGES, *_WAITS, "drop", "fail"])
_NUMBERS = itertools.count()
# What a stage does to its first item, its second, and so on; after the last it starts over.
_STAGE = st.lists(_ACTIONS, min_size=1, max_size=5)


@attrs.frozen
class Page:
    """An item that the spider yields: which text, of which kind, under which key."""

    text: int
    kind: int
    key: str
    pause: float

    def item(self, number: int) -> Any:
        """The item of that number."""
        url = {
            "own": f"https://host{number}.example/",
            "query": f"https://shared.example/{self.text}?item={number}",
            "shared": "https://shared.example/",
            "none": None,
        }[self.key]
        return KINDS[self.kind](url=url, title=str(number), text=article(self.text))


_PAGES = st.lists(
    st.builds(
        Page,
        text=st.integers(0, 2),
        kind=st.integers(0, len(KINDS) - 1),
        key=st.sampled_from(["own", "own", "query", "shared", "none"]),
        pause=st.sampled_from([0.0, 0.0, 0.002]),
    ),
    min_size=2,
    max_size=10,
)


@attrs.define
class Log:
    """What happened, in this order, by the number of the item."""

    events: list[tuple[str, int]] = attrs.field(factory=list)

    def add(self, event: str, item: Any) -> None:
        """Write down an event."""
        self.events.append((event, int(fields_of(item)["title"])))

    def of(self, event: str) -> set[int]:
        """The items of which there is such an event."""
        return {number for name, number in self.events if name == event}


def named(pipeline: type) -> type:
    """The class under a name of its own: Scrapy takes classes of one name for one pipeline."""
    pipeline.__qualname__ = f"Pipeline{next(_NUMBERS)}"
    return pipeline


def stage(actions: list[str]) -> Any:
    """A pipeline that does one thing after the other."""
    calls = itertools.count()

    class Stage:
        async def process_item(self, item: Any) -> Any:
            action = actions[next(calls) % len(actions)]
            if action == "drop":
                raise DropItem("by a stage")
            if action == "fail":
                raise OSError("in a stage")
            if action in _WAITS:
                await asyncio.sleep(_WAITS[action])
                return item
            return _CHANGES[action](item)

    return named(Stage)


def logger(log: Log, event: str) -> Any:
    """A pipeline that writes down each item; for "stored" it is the storage."""

    class Logger:
        def process_item(self, item: Any) -> Any:
            log.add(event, item)
            return item

    return named(Logger)


def logging_dedup(log: Log, *, own_task: bool) -> Any:
    """The plugin's pipeline; what it claims, commits and drops is written down."""

    class LoggingDedup(DedupPipeline):
        async def open_spider(self) -> None:
            await super().open_spider()
            assert self._deduplicator is not None
            decide, commit = self._deduplicator.decide, self._deduplicator.commit

            async def deciding(document: Document) -> Verdict:
                verdict = await decide(document)
                if verdict.claim is not None:
                    log.events.append(("claimed", int(document.title)))
                return verdict

            async def committing(verdict: Verdict) -> bool:
                if verdict.claim is not None and verdict.document is not None:
                    log.events.append(("committed", int(verdict.document.title)))
                return await commit(verdict)

            self._deduplicator.decide = deciding  # type: ignore[method-assign]
            self._deduplicator.commit = committing  # type: ignore[method-assign]

        async def process_item(self, item: Any) -> Any:
            passed = super().process_item(item)
            try:
                return await (asyncio.ensure_future(passed) if own_task else passed)
            except NearDuplicate:
                log.add("duplicate", item)
                raise

    return LoggingDedup


@settings(max_examples=100, derandomize=True)
@given(
    pages=_PAGES,
    early=st.lists(_STAGE, max_size=1),
    middle=st.lists(_STAGE, max_size=2),
    late=st.lists(_STAGE, max_size=2),
    own_task=st.booleans(),
)
def test_only_stored_pages_are_committed(
    pages: list[Page],
    early: list[list[str]],
    middle: list[list[str]],
    late: list[list[str]],
    own_task: bool,
) -> None:
    """Whatever pipelines before, between and behind do: what makes a page a duplicate is stored,
    what is committed is stored, and what is stored is committed where the link is sure."""
    log = Log()

    async def source(_: Crawled) -> AsyncIterator[Any]:
        for number, one in enumerate(pages):
            yield one.item(number)
            await asyncio.sleep(one.pause)

    pipelines = {
        **{stage(actions): 100 + at for at, actions in enumerate(early)},
        **{stage(actions): 500 + at for at, actions in enumerate(middle)},
        logger(log, "stored"): 600,
        **{stage(actions): 700 + at for at, actions in enumerate(late)},
        logger(log, "through"): 900,
    }
    crawled = run(source, pipelines, logging_dedup(log, own_task=own_task))
    stored_texts: set[int] = set()
    for event, number in log.events:
        if event == "stored":
            stored_texts.add(pages[number].text)
        if event == "duplicate":
            assert pages[number].text in stored_texts
    assert log.of("committed") <= log.of("stored") & log.of("through")
    if not own_task:
        assert log.of("committed") == log.of("claimed") & log.of("through")
    assert crawled.pipeline is not None
    assert len(crawled.pipeline._inflight) == 0
    if not own_task:
        assert crawled.stat("claim/unresolved") == crawled.stat("claim/unsure") == 0


def run(
    source: Callable[[Crawled], AsyncIterator[Any]], pipelines: dict[Any, int], dedup: Any
) -> Crawled:
    """Crawl in a loop of its own, with the adapter of the user's own kind of item."""
    adapters = ItemAdapter.ADAPTER_CLASSES
    ItemAdapter.ADAPTER_CLASSES = (TupleAdapter, *adapters)
    try:
        return asyncio.run(crawl(source, pipelines, dedup=dedup, LOG_ENABLED=False))
    finally:
        ItemAdapter.ADAPTER_CLASSES = adapters
