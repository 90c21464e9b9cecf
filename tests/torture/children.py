"""What the processes of a run do: pages through the public API, or a Scrapy crawl."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import sys
from typing import Any, cast

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.settings import Settings

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.documents import DUPLICATE, REVISIT, Document
from tests.torture.articles import address, text_of
from tests.torture.crawling import TorturedSpider
from tests.torture.leases import Watched
from tests.torture.ledger import DROPPED
from tests.torture.store import StorageError, Store
from tests.torture.task import Page, Progress, Task


def work(task: Task) -> None:
    """Decide, store and commit pages through the public API, without Scrapy."""
    _write_errors_to(task)
    logging.basicConfig(level=logging.INFO)
    try:
        asyncio.run(_work(task))
    except IndexRefusedError as error:  # as `scrapy crawl` does: one line, and nothing is begun
        logging.getLogger(__name__).error("not started: %s", error)


def _show_tasks() -> None:
    """Write into the log what each coroutine waits for; stacks of tasks show the outermost only."""
    for one in asyncio.all_tasks():
        print("Task:", one.get_name(), file=sys.stderr)
        waits: Any = one.get_coro()
        while waits is not None:
            frame = getattr(waits, "cr_frame", None)
            where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} "
            print(f"  {where}{waits!r}", file=sys.stderr)
            waits = getattr(waits, "cr_await", None)


async def _work(task: Task) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, _show_tasks)
    ledger = task.ledger()
    progress, store = Progress(task), Store(ledger, task.faults, task.process)
    options = Options.from_mapping(task.settings)
    space = asyncio.Semaphore(task.under_way)
    tasks: set[asyncio.Task[None]] = set()

    async with contextlib.AsyncExitStack() as stack:
        watched = Watched(open_index(options), task.lease, task.late)
        dedup = Deduplicator(options, index=cast("Index", watched))
        stack.push_async_callback(dedup.close)
        try:
            await dedup.open()
        except IndexUnavailableError as error:  # as in a crawl: unchecked until it answers
            logging.getLogger(__name__).warning("not open yet: %s", error)

        async def one(page: Page) -> None:
            url = address(*page)
            verdict = await dedup.decide(Document(key=url, text=text_of(*page)))
            if verdict.outcome in (DUPLICATE, REVISIT):
                match = verdict.match
                ledger.write(DROPPED, url, "" if match is None else match.key or "")
            else:
                try:
                    await store.put(url)
                except StorageError:
                    await dedup.release(verdict)
                else:
                    await dedup.commit(verdict)
            progress.through(url)

        def over(task: asyncio.Task[None]) -> None:
            space.release()
            if not task.exception():  # one with an exception stays, and is raised below
                tasks.discard(task)

        for page in progress.pages():
            await space.acquire()
            task_of_page = asyncio.create_task(one(page))
            tasks.add(task_of_page)
            task_of_page.add_done_callback(over)
        await asyncio.gather(*tasks)
    ledger.close()


def crawl(task: Task) -> None:
    """Run ``scrapy crawl tortured`` in this process."""
    _write_errors_to(task)
    settings = Settings()
    settings.setmodule("tests.torture.project", "project")
    for name, value in task.crawl_settings.items():
        settings.set(name, value, "cmdline")
    process = (CrawlerProcess if task.process % 2 else AsyncCrawlerProcess)(settings)
    process.crawl(TorturedSpider)
    process.start()


def _write_errors_to(task: Task) -> None:
    """Let messages and tracebacks go to the log of the slot."""
    file = os.open(task.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # shows where a process is that comes to no end
