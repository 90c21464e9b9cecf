"""What one process of a run is given to do, and which pages of it are still to be done."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.torture.articles import BANDS, HASH_KEY, VARIANTS, address
from tests.torture.ledger import Ledger

RESPONSE = 1024  # bytes that Scrapy takes a small response for
Page = tuple[int, int]  # article, variant


@attrs.frozen(kw_only=True)
class Faults:
    """Shares of the pages at which the storage fails.

    ``before``: an error, nothing is written; ``after``: an error behind the write; ``hang``: it
    takes up to ``seconds`` longer than usual.
    """

    before: float = 0.0
    after: float = 0.0
    hang: float = 0.0
    seconds: float = 0.0


NO_FAULTS = Faults()


@attrs.frozen(kw_only=True)
class Task:
    """A process's part of a run.

    Pages come in blocks of ``articles`` articles in all their variants, dealt out to ``slots``
    processes in random order. Blocks follow each other without end until the folder holds the
    file ``limit``, which names the last one.

    :param folder: of the run: ledger, progress and logs
    :param slot: whose pages it does; a process that is killed is followed by another one
    :param process: its number, another one for each start
    :param under_way: pages decided and stored at once
    """

    folder: str
    slot: int
    slots: int
    process: int
    url: str
    articles: int = 40
    seed: int = 1
    under_way: int = 6
    lease: float = 1.0
    timeout: float = 5.0
    pending_wait: float = 90.0
    retries: int = 30
    faults: Faults = NO_FAULTS

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the plugin."""
        return {
            "DEDUP_INDEX_URL": self.url,
            "DEDUP_HASH_KEY": HASH_KEY,
            "DEDUP_BANDS": BANDS,
            "DEDUP_LEASE": self.lease,
            "DEDUP_TIMEOUT": self.timeout,
            "DEDUP_PENDING_WAIT": self.pending_wait,
            "DEDUP_RETRIES": self.retries,
        }

    @property
    def crawl_settings(self) -> dict[str, Any]:
        """Those of a crawl that does the task."""
        return {
            **self.settings,
            "TORTURE_TASK": self.to_json(),
            "LOG_FILE": str(self.log),
            "CONCURRENT_REQUESTS": 2,
            "CONCURRENT_ITEMS": self.under_way,
            "SCRAPER_SLOT_MAX_ACTIVE_SIZE": RESPONSE,
        }

    @property
    def first_page(self) -> Path:
        """A file that is there once the first page has been decided."""
        return Path(self.folder) / f"first-{self.process}"

    @property
    def late(self) -> Path:
        """Where the process writes how long it left leases alone that were shorter."""
        return late_of(Path(self.folder), self.process)

    @property
    def log(self) -> Path:
        """Where messages and tracebacks go."""
        return Path(self.folder) / f"log-{self.slot}"

    def to_json(self) -> str:
        """The task as a setting."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """The task of a setting."""
        values: Mapping[str, Any] = json.loads(text)
        return cls(**{**values, "faults": Faults(**values["faults"])})

    def ledger(self) -> Ledger:
        """Where the process writes what it did."""
        return Ledger(ledger_of(Path(self.folder)), self.process)


def late_of(folder: Path, process: int) -> Path:
    """A file that is there if a process has renewed a lease, or used one, when it was over."""
    return folder / f"late-{process}"


def ledger_of(folder: Path) -> Path:
    """The ledger of a run."""
    return folder / "ledger"


def block_pages(block: int, articles: int, slot: int, slots: int, seed: int) -> list[Page]:
    """The pages of a block that are dealt to a slot."""
    numbers = range(block * articles, (block + 1) * articles)
    deck = [(number, variant) for number in numbers for variant in range(VARIANTS)]
    random.Random(seed * 1_000_003 + block).shuffle(deck)
    return deck[slot::slots]


class Progress:
    """Which pages of a slot are through, across all processes that do them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._folder = Path(task.folder)
        self._left: dict[int, set[str]] = {}
        self._files: dict[int, int] = {}
        self._at = self._folder / f"block-{task.slot}"
        self._is_first = True

    def pages(self) -> Iterator[Page]:
        """The pages that are to be done."""
        task, block = self._task, block_of(self._folder, self._task.slot)
        while block <= limit_of(self._folder):
            path = self._folder / f"done-{task.slot}-{block}"
            done = set(path.read_text().split()) if path.exists() else set()
            every = block_pages(block, task.articles, task.slot, task.slots, task.seed)
            left = [page for page in every if address(*page) not in done]
            self._left[block] = {address(*page) for page in left}
            self._files[block] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._advance()
            yield from left
            block += 1

    def through(self, url: str) -> None:
        """A page is done with, whatever became of it."""
        if self._is_first:
            self._is_first = False
            self._task.first_page.touch()
        for block, left in self._left.items():
            if url in left:
                left.discard(url)
                os.write(self._files[block], f"{url}\n".encode())
                break
        self._advance()

    def _advance(self) -> None:
        """Let the next process begin behind the blocks that are done."""
        block = block_of(self._folder, self._task.slot)
        while block in self._left and not self._left[block]:
            del self._left[block]
            os.close(self._files.pop(block))
            block += 1
            new = self._at.with_suffix(".new")
            new.write_text(str(block))
            new.rename(self._at)


def block_of(folder: Path, slot: int) -> int:
    """The first block of which a slot has pages to do."""
    path = folder / f"block-{slot}"
    return int(path.read_text()) if path.exists() else 0


def limit_of(folder: Path) -> int:
    """The last block of the run, as far as that is known."""
    path = folder / "limit"
    return int(path.read_text()) if path.exists() else 1 << 40
