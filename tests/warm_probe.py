"""Processes that open a deduplicator, decide pages of all kinds, and say what was compiled when.

    echo '{"index_url": "memory:"}' | python -m tests.warm_probe

Each line of the input is the options of one process. All of them are forked before the package has
used its first kernel, so that its modules are imported once. With ``--cached`` the cache is read
once too: a process gets the code of a kernel when it asks for it. Each prints one JSON object:

* ``before``: number of kernels compiled by ``open``
* ``html_before``: number of kernels for HTML that were ready when ``open`` returned
* ``late``, ``late_html``: kernels that were compiled, or loaded from the cache, with the first
  texts, and with the pages of HTML, which come last
* ``compiled``, ``compiled_html``: of these, the ones that the cache did not hold
* ``blas``: whether the part of SciPy was loaded that takes a tenth of a second
* ``stall``, ``stall_html``: longest time for which the loop stood still meanwhile, in seconds
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from typing import Any

from numba.core import event
from numba.core.registry import CPUDispatcher

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.base import aot, jit
from tests.texts import article, english


class Compilations(event.Listener):  # type: ignore[misc]
    """Names of the functions whose compilation has begun."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_start(self, event: Any) -> None:
        """Numba begins to compile."""
        self.seen.append(event.data["dispatcher"].__name__)

    def on_end(self, event: Any) -> None:
        """Numba is done."""


def ready() -> set[tuple[str, str]]:
    """Kernels that have code in this process, called by Python."""
    # By their very class: to ask half a million objects whether they are one takes a third of all.
    found = (one for one in gc.get_objects() if type(one) is CPUDispatcher)
    return {(one.__module__, one.__name__) for one in found if one.overloads and declared(one)}


def declared(dispatcher: CPUDispatcher) -> bool:
    """Whether it is a kernel that Python calls, and not a part of others."""
    return not dispatcher.targetoptions.get("no_cpython_wrapper")


async def decide(dedup: Deduplicator, key: str, *, store: bool = True, **page: Any) -> str:
    """Decide a page, then commit or release it."""
    verdict = await dedup.decide(Document(key=f"https://{key}", **page))
    await (dedup.commit(verdict) if store else dedup.release(verdict))
    await asyncio.sleep(0)  # in memory nothing waits
    return verdict.outcome


async def pages_of_all_kinds(dedup: Deduplicator) -> set[str]:
    """Decisions of every kind; returns their outcomes."""
    text, figures = article(1, 30), "今日最高气温{}度，水位{}米。"
    singles = [
        ("a/1", {"text": text}),
        ("b/1", {"text": text}),
        ("b/2", {"text": text + "责任编辑 李明"}),
        ("b/3", {"text": text + figures.format(31, "12.5")}),
        ("b/4", {"text": text + figures.format(28, "11.9")}),
        ("c/1", {"text": "渔船", "title": "早归"}),
        ("c/2", {"text": "渔船", "title": "早归"}),
        ("d/1", {"text": english(3)}),
        ("d/2", {"text": english(3) + " And a few more words."}),
        ("d/3", {"text": english(3), "title": "Ships"}),
        ("d/4", {"text": english(3) + " And more words.", "title": "Of ships"}),
        ("e/1", {"text": " "}),
        ("a/1", {"text": text}),
        ("a/1", {"text": article(2, 30)}),
        ("a/1", {"text": text + article(2, 30)}),
    ]
    outcomes = {await decide(dedup, key, **page) for key, page in singles}
    outcomes.add(await decide(dedup, "f/1", text=article(3, 30), store=False))
    outcomes.add(await decide(dedup, "f/2", text=article(3, 30)))
    # Many at a time, whose buckets have to grow, and many alike.
    others = (decide(dedup, f"m/{n}", text=article(100 + n, 10)) for n in range(300))
    alike = (decide(dedup, f"n/{n}", text="同一句话。" * 30 + f"第{n}号") for n in range(100))
    outcomes.update(await asyncio.gather(*others, *alike))
    return outcomes


async def pages_of_html(dedup: Deduplicator) -> None:
    """Decide pages of HTML of every kind: markup in str and bytes, threads, plain text, none."""
    body = f"<article><p>{article(5, 30)}</p></article>"
    kinds = '<script type="application/ld+json">{"@type": "%s", "articleBody": "%s"}</script>'
    pages: list[str | bytes] = [
        f"<title>标题</title><nav>菜单</nav>{body}",
        f"<title>标题</title><nav>菜单</nav>{body}".encode(),
        "".join(f"<p>{english(number)}</p>" for number in range(9)).encode("utf-16"),
        kinds % ("DiscussionForumPosting", "")
        + "".join(f"<div>{article(n)}</div>" for n in (7, 8)),
        kinds % ("NewsArticle", article(9, 30)),
        english(9),
        b"<!-- open <script> &#x41; <p",
        b"\x00\xff" * 99,
        b"",
    ]
    for number, page in enumerate(pages):
        await decide(dedup, f"h/{number}", html=page)


async def main(options: Options) -> None:
    """Print what the process compiled, and when."""
    compilations = Compilations()
    event.register("numba:compile", compilations)
    stalls = [0.0]

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            stalls.append(time.perf_counter() - before - 0.01)

    async with Deduplicator(options) as dedup:
        at_open, compiled_at_open = ready(), len(compilations.seen)
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        outcomes = await pages_of_all_kinds(dedup)
        at_html, compiled_at_html = ready(), len(compilations.seen)
        await asyncio.sleep(0.02)
        stall = max(stalls)
        await pages_of_html(dedup)
        watching.cancel()
    found = {
        "outcomes": sorted(outcomes),
        "before": compiled_at_open,
        "html_before": sum(".text.extraction." in module for module, _ in at_open),
        "late": sorted(".".join(one) for one in at_html - at_open),
        "late_html": sorted(".".join(one) for one in ready() - at_html),
        "compiled": compilations.seen[compiled_at_open:compiled_at_html],
        "compiled_html": compilations.seen[compiled_at_html:],
        "blas": "scipy.linalg" in sys.modules,
        "stall": round(stall, 3),
        "stall_html": round(max(stalls), 3),
    }
    print(json.dumps(found), flush=True)


def read_cache() -> None:
    """Load all kernels, and let processes find them where they would look into the cache."""
    for dispatcher in aot.declared_kernels().values():
        jit.compile_now(dispatcher)
        (code,) = dispatcher.overloads.values()
        dispatcher._reset_overloads()
        dispatcher.disable_compile(False)
        dispatcher.compile = lambda _, add=dispatcher.add_overload, code=code: add(code)


if __name__ == "__main__":
    if "--cached" in sys.argv:
        read_cache()
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if not child:
            asyncio.run(main(Options(**json.loads(line))))
            os._exit(0)  # to take numba apart takes longer than all decisions
        if os.waitpid(child, 0)[1]:
            sys.exit(1)
