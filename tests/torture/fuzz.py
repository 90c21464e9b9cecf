"""Sends fuzzed pages through the pipeline; nothing is raised, nothing is dropped without cause."""

from __future__ import annotations

import asyncio
import json
import random
import re
import resource
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from itemadapter import ItemAdapter
from scrapy import Spider, signals
from scrapy.exceptions import DropItem
from scrapy.utils.test import get_crawler

from dedup_middleware import DedupPipeline, NearDuplicate
from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.edits import CHINESE, LATIN
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.verification import verify
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.plugin.pagefields import document_of, read_fields
from dedup_middleware.text.extract import extract
from tests.torture.checks import BrokenPromiseError
from tests.torture.driver import Tell
from tests.torture.pages import page
from tests.torture.start import fork_context

ROUND = 5_000  # pages that go into one index
AT_ONCE = 8
GRAM = 4  # letters
WORDS = 3
HELD = 0.6  # share of a dropped page that the stored page must hold, see `held`
_SAID = frozenset("Lu Ll Lt Lm Lo Nd Nl No So Sm Sc".split())
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_PUT_IN = [
    line.strip()
    for made_up in (CHINESE, LATIN)
    for line in (*made_up.adverts, *made_up.headers, *made_up.footers)
]
_FATES = ("stored",) * 8 + ("failed", "dropped")
_WAIT = 5.0  # seconds for a like page to be stored, which here takes no time
_MEMORY = 3_000_000_000  # bytes a process may take
_LONGEST = 1.0  # seconds a page may take on the average; beyond it something is endless


@attrs.frozen(kw_only=True)
class Fuzzed:
    """What came of some pages.

    :ivar least_held: least share of a dropped page that the stored page holds, by our own count
    :ivar slowest: seconds of the slowest page, while others were under way
    :ivar memory: bytes, the most that a process took
    :ivar faults: what must not be, one line each
    """

    pages: int
    outcomes: dict[str, int]
    least_held: float
    slowest: float
    memory: int
    seconds: float
    faults: list[str]


def letters(text: str) -> str:
    """A text's letters, digits and symbols, in one form of each.

    Left out are accents that stand alone, and the sign for bytes that could not be decoded.
    """
    folded = unicodedata.normalize("NFKC", text).lower().replace("\ufffd", "")
    return "".join(one for one in folded if unicodedata.category(one) in _SAID)


def held(new: str, stored: str) -> float:
    """Share of a new text that a stored one holds, with or without lines that were put into it:
    adverts, its source, and notices on rights, which the plugin leaves out.

    The largest of three counts: distinct runs of four letters, letters within common runs, and
    words within common runs of three. By letters one long word outweighs a line of short ones, by
    words one new letter makes a new word, and where every fifth word is new few whole runs are
    left. The plugin shares no code with it.
    """
    without = new
    for line in _PUT_IN:
        without = without.replace(line, "")
    return max(_held(text, stored) for text in {new, without})


def _held(new: str, stored: str) -> float:
    ours, theirs = letters(new), letters(stored)
    if ours == theirs:
        return 1.0
    if len(ours) <= GRAM:
        return float(ours in theirs)
    runs, known = (
        {one[i : i + GRAM] for i in range(len(one) - GRAM + 1)} for one in (ours, theirs)
    )
    words = _WORD.findall(new.lower()), _WORD.findall(stored.lower())
    return max(len(runs & known) / len(runs), _covered(ours, theirs, GRAM), _covered(*words, WORDS))


def _covered(new: Sequence[str], stored: Sequence[str], width: int) -> float:
    """Share of the parts of one sequence that lie in a run of `width` which another one has too.

    A repetition counts once, where its run occurs first.
    """
    runs = [tuple(new[i : i + width]) for i in range(len(new) - width + 1)]
    known = {tuple(stored[i : i + width]) for i in range(len(stored) - width + 1)}
    first = dict(reversed([(run, i) for i, run in enumerate(runs)]))
    counted = {*first.values(), *range(len(runs), len(new))}
    within = {at for i, run in enumerate(runs) if run in known for at in range(i, i + width)}
    return len(counted & within) / len(counted) if runs else 0.0


class Run:
    """Pages that go into one index.

    :param url: of the index
    """

    def __init__(self, url: str, seed: int) -> None:
        self._seed = seed
        self._url = url
        self._crawler = get_crawler(
            Spider, {"DEDUP_INDEX_URL": url, "DEDUP_JOURNAL": "off", "DEDUP_PENDING_WAIT": _WAIT}
        )
        self._pipeline = DedupPipeline.from_crawler(self._crawler)
        self._stored: dict[str, list[str]] = defaultdict(list)
        self._options = Options(index_url=url)
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.least_held = 1.0
        self.slowest = 0.0

    async def pages(self, numbers: Sequence[int], articles: int) -> None:
        """Send pages through, some at once."""
        await self._pipeline.open_spider()
        waiting = iter(numbers)

        async def some() -> None:
            for number in waiting:
                await self._one(number, page(number, self._seed, articles))

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        stats = self._crawler.stats
        assert stats is not None
        for name in ("new", "duplicate", "revisit", "empty", "unchecked", "error/internal"):
            self.outcomes[f"dedup/{name}"] = stats.get_value(f"dedup/{name}", 0)
        if stats.get_value("dedup/error/internal", 0):
            self._fault("errors of the plugin: see the log")
        if unchecked := stats.get_value("dedup/unchecked", 0):
            self._fault(f"{unchecked} pages waited in vain for a like page to be stored")
        await self._pipeline.close_spider()
        if not self._url.startswith("memory:"):
            await self._verify()

    async def _verify(self) -> None:
        async with open_index(self._options) as index:
            await index.attach()
            found = await verify(index)
        if not found.is_sound or found.pending:
            self._fault(f"the index: {found}")

    async def _one(self, number: int, item: Any) -> None:
        rng = random.Random(number)
        document = document_of(read_fields(ItemAdapter(item), self._options.field_names))
        began = time.perf_counter()
        try:
            out = await self._pipeline.process_item(item)
        except NearDuplicate as error:
            self.outcomes["dropped"] += 1
            self._check(number, item, error)
            await self._signal(signals.item_dropped, item, exception=error)
            return
        except BaseException as error:  # the whole point is to meet whatever may come
            if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
                raise
            self._fault(f"page {number} raised {type(error).__name__}: {str(error)[:200]}")
            return
        finally:
            self.slowest = max(self.slowest, time.perf_counter() - began)
        fate = rng.choice(_FATES)
        self.outcomes[fate] += 1
        if out is not item:
            self._fault(f"page {number} came out as another object")
        if fate == "stored":
            if document is not None:
                # Before the signal: another page may be dropped for this one as soon as it is sent.
                self._stored[document.key].append(self._text(number, out))
            await self._signal(signals.item_scraped, out)
        elif fate == "failed":
            await self._signal(signals.item_error, out, failure=None)
        else:
            await self._signal(signals.item_dropped, out, exception=DropItem("by another"))

    async def _signal(self, signal: object, item: Any, **more: Any) -> None:
        await self._crawler.signals.send_catch_log_async(
            signal, item=item, response=None, spider=None, **more
        )

    def _check(self, number: int, item: Any, error: NearDuplicate) -> None:
        match = error.verdict.match
        texts = self._texts_of(match.key) if match is not None else []
        if not texts:
            self._fault(f"page {number} was dropped for {match}, of which nothing is stored")
            return
        share = max(held(self._text(number, item), text) for text in texts)
        self.least_held = min(self.least_held, share)
        if share < HELD:
            self._fault(f"page {number} was dropped for {match}, which holds {share:.2f} of it")

    def _texts_of(self, key: str | None) -> list[str]:
        """What is stored under the name in a verdict."""
        if key in self._stored:
            return self._stored[key]
        # Pages without an address have no name there, long addresses are cut, and what UTF-8 can't
        # hold is a question mark.
        names = [
            name
            for name in self._stored
            if (
                is_content_key(name)
                if key is None
                else name.encode("utf-8", "replace").decode().startswith(key)
            )
        ]
        return [text for name in names for text in self._stored[name]]

    def _text(self, number: int, item: Any) -> str:
        try:
            return text_of(item)
        except Exception as error:
            self._fault(f"extraction of page {number} raised {type(error).__name__}: {error}")
            return ""

    def _fault(self, what: str) -> None:
        self.faults.append(what.replace("\n", " ").encode("utf-8", "replace").decode())


def text_of(item: Any) -> str:
    """The text that was compared."""
    adapter = ItemAdapter(item)
    text, html = adapter.get("text"), adapter.get("html")
    if isinstance(text, (list, tuple)) and all(isinstance(part, str) for part in text):
        text = "\n".join(text)
    if isinstance(text, str) and text.strip():
        return text
    if isinstance(html, (str, bytes)) and html:
        charset = adapter.get("charset")
        return extract(html, charset=charset if isinstance(charset, str) else None).text
    return ""


def _fuzz(url: str, numbers: tuple[int, int], seed: int, out: Path) -> None:
    """Entry point of a process: one round."""
    began = time.monotonic()
    run = Run(url, seed)
    asyncio.run(run.pages(range(*numbers), max(10, (numbers[1] - numbers[0]) // 4)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory *= 1 if sys.platform == "darwin" else 1024
    if memory > _MEMORY:
        run._fault(f"the process took {memory:,} bytes")
    found = Fuzzed(
        pages=numbers[1] - numbers[0],
        outcomes=dict(run.outcomes),
        least_held=round(run.least_held, 3),
        slowest=round(run.slowest, 2),
        memory=memory,
        seconds=round(time.monotonic() - began, 1),
        faults=run.faults,
    )
    out.write_text(json.dumps(attrs.asdict(found)))


def fuzz(
    pages: int, folder: Path, *, seed: int = 1, processes: int = 2, tell: Tell = print
) -> Fuzzed:
    """Send so many pages through, in rounds of their own process and index, in memory or in a file.

    :raises BrokenPromiseError: something was raised, lost, or dropped without cause
    """
    began = time.monotonic()
    context = fork_context()
    rounds = [(first, min(first + ROUND, pages)) for first in range(0, pages, ROUND)]
    running: dict[Any, tuple[Path, float]] = {}
    found: list[Fuzzed] = []
    faults: list[str] = []

    def collect() -> None:
        for process, (out, till) in list(running.items()):
            if process.exitcode is None and time.monotonic() < till:
                continue
            del running[process]
            if process.exitcode is None:
                process.kill()
                faults.append(f"{out.stem} came to no end")
            elif process.exitcode or not out.exists():
                faults.append(f"{out.stem} ended with {process.exitcode}")
            else:
                found.append(Fuzzed(**json.loads(out.read_text())))
                tell(f"{sum(one.pages for one in found)} of {pages} pages")

    waiting = list(enumerate(rounds))
    while waiting or running:
        if waiting and len(running) < processes:
            number, numbers = waiting.pop(0)
            url = "memory:" if number % 2 else f"sqlite:{folder / f'index-{number}.db'}"
            out = folder / f"round-{number}.json"
            process = context.Process(target=_fuzz, args=(url, numbers, seed, out), daemon=True)
            process.start()
            till = time.monotonic() + 120 + _LONGEST * (numbers[1] - numbers[0])
            running[process] = out, till
        else:
            collect()
            time.sleep(0.05)
    outcomes: Counter[str] = Counter()
    for one in found:
        outcomes.update(one.outcomes)
        faults += one.faults
    whole = Fuzzed(
        pages=sum(one.pages for one in found),
        outcomes=dict(outcomes),
        least_held=min((one.least_held for one in found), default=1.0),
        slowest=max((one.slowest for one in found), default=0.0),
        memory=max((one.memory for one in found), default=0),
        seconds=round(time.monotonic() - began, 1),
        faults=faults,
    )
    if faults:
        raise BrokenPromiseError(
            f"{len(faults)} faults of {pages} pages: " + "\n".join(faults[:20])
        )
    return whole
