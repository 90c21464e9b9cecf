"""Streams of pages that are alike, and what the crawl decides of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.index.memory.index import MemoryIndex
from tests.texts import article

KINDS = ("words-changed", "sentences-deleted", "figures-changed", "sentences-inserted",
         "truncation", "sentence-order")  # fmt: skip
HOSTS = ("a.example", "b.example", "c.example")
Row = dict[str, Any]


def stream(pages: int, seed: int = 1) -> list[Row]:
    """Pages of few hosts on few templates: copies, edits of edits, revisits, short ones, none."""
    rng = random.Random(seed)
    notices = [article(1000 + i, 6) for i in range(3)]
    rows: list[Row] = []
    for i in range(pages):
        draw = rng.random()
        host = rng.choice(HOSTS)
        row = {"url": f"https://{host}/{i}", "title": f"标题{rng.randrange(40)}", "text": ""}
        if draw < 0.35 or not rows:
            row["text"] = article(rng.randrange(10**6), rng.choice((4, 8, 14, 30)))
        elif draw < 0.7:
            source = rng.choice(rows[-60:])
            row["text"] = edit(source["text"], rng.choice(KINDS), rng.choice((0.02, 0.1, 0.3)), i)
            row["title"] = source["title"] if rng.random() < 0.7 else row["title"]
        elif draw < 0.8:
            row = {**rng.choice(rows[-60:])}
            row["url"] = row["url"] if rng.random() < 0.5 else f"https://{host}/{i}"
        elif draw < 0.85:
            row["url"] = rng.choice(rows)["url"]
            row["text"] = article(rng.randrange(50), 10)
        elif draw < 0.88:
            row["text"] = rng.choice(("", "完", "图片", "下一页"))
        else:
            # A site's own words on all of its pages.
            notice = notices[HOSTS.index(host)]
            row["text"] = notice + article(rng.randrange(12), rng.choice((1, 2, 5))) + notice
        rows.append(row)
    return rows


def written(folder: Path, pages: int) -> Path:
    """A file of JSON lines."""
    path = folder / "pages.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in stream(pages, seed=17)]
    path.write_text("\n".join(lines))
    return path


@attrs.frozen
class Seen:
    """What the crawl decided of a page, as the batch says it."""

    outcome: str
    match: int | None = None
    match_key: str | None = None
    reason: str | None = None
    similarity: float | None = None
    tables: tuple[str, ...] = ()


async def crawled(rows: Sequence[Row], options: Options) -> list[Seen]:
    """The verdicts of the crawl on pages, one after the other, by their places in ``rows``."""
    numbers: dict[int, int] = {}
    seen = []
    # An archive holds all versions of a page, so the job forgets none.
    keeping = attrs.evolve(options, versions="keep")
    async with Deduplicator(keeping, index=MemoryIndex()) as dedup:
        for place, row in enumerate(rows):
            verdict = await dedup.decide(Document(row["url"], row["title"], row["text"]))
            if verdict.claim is not None:
                numbers[verdict.claim.page_id] = place
                await dedup.commit(verdict)
            match = verdict.match
            if match is None:
                seen.append(Seen(verdict.outcome))
                continue
            similarity = round(match.similarity, 9)
            stored = numbers[match.number]
            seen.append(
                Seen(verdict.outcome, stored, match.key, verdict.reason, similarity, match.tables)
            )
    return seen
