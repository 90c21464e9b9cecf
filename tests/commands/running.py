"""Runs `scrapy dedup ...` inside the test's process, and makes something to look at."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from scrapy.cmdline import execute
from scrapy.settings import Settings

from dedup_middleware import Deduplicator, Document, Options
from tests.test_pipeline import Crawl, make_crawler
from tests.texts import article


@attrs.frozen
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)


class _Output(io.TextIOWrapper):
    """Standard output that also takes bytes, as the real one does."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """What was written."""
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


def dedup(*arguments: str, stdin: bytes = b"", columns: int = 200, **settings: Any) -> Done:
    """Run `scrapy dedup ...` with settings, as if from a terminal of so many columns."""
    out, err = _Output(), io.StringIO()
    code = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _stdin(stdin),
        _environment(COLUMNS=str(columns)),
    ):
        try:
            execute(["scrapy", "dedup", *arguments], Settings(settings))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Done(code, out.text(), err.getvalue())


@contextlib.contextmanager
def _stdin(raw: bytes) -> Iterator[None]:
    import sys

    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def item(host: str, seed: int, **more: Any) -> dict[str, Any]:
    """An article of a host; equal seeds have equal texts."""
    return {
        "url": f"https://{host}/{seed}",
        "title": f"标题{seed}",
        "text": article(seed),
        **more,
    }


def crawl(settings: Mapping[str, Any], *items: dict[str, Any]) -> None:
    """Send items through the pipeline; passed ones are stored."""

    async def work() -> None:
        running = Crawl(make_crawler(**settings))
        await running.pipeline.open_spider()
        for one in items:
            await running.item(one)
        await running.pipeline.close_spider()

    run(work())


def outcome(settings: Mapping[str, Any], key: str, text: str) -> tuple[str, str]:
    """What the index decides of a page now; nothing stays."""

    async def work() -> tuple[str, str]:
        options = Options.from_mapping(settings)
        async with Deduplicator(options) as one:
            verdict = await one.decide(Document(key, text=text))
            await one.release(verdict)
            return verdict.outcome, verdict.reason

    return run(work())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end."""
    return asyncio.run(work)


def settings_for(folder: Path) -> dict[str, Any]:
    """An index in a file, with its journal in the same folder."""
    return {"DEDUP_INDEX_URL": f"sqlite:{folder / 'index.db'}"}
