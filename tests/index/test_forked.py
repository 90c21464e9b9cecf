"""A process that is forked while an index is open shares its connection, and must not use it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import redis.asyncio

from dedup_middleware import Deduplicator, Document, IndexUnavailableError, Options
from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.index.batching import Batcher
from dedup_middleware.model.documents import DUPLICATE, NEW
from tests.servers import RedisServer, namespace_for
from tests.texts import english

PAGES = [Document(f"https://one.example/{seed}", text=english(seed)) for seed in range(3)]
_SECONDS = 60  # after which a child that hangs is killed


def _exit_code(act: Callable[[], object]) -> int:
    """Run a function in a forked process; return the exit code, 0 if it raises nothing."""
    child = os.fork()
    if child == 0:
        signal.alarm(_SECONDS)
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_a_forked_process(kind: str, tmp_path: Path, redis_server: RedisServer) -> None:
    """An error tells it to open an index of its own; its calls have no effect on that of its
    parent."""
    addresses = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'pages.db'}"}
    url = addresses.get(kind, redis_server.url)
    options = Options(index_url=url, namespace=namespace_for(url, "forked"))
    loop = asyncio.new_event_loop()
    run = loop.run_until_complete
    dedup = Deduplicator(options)
    run(dedup.open())
    claimed, *others = PAGES
    verdict = run(dedup.decide(claimed))

    def child() -> None:
        for call in (dedup.decide(others[0]), dedup.commit(verdict), dedup.release(verdict)):
            with pytest.raises(DedupError, match="forked"):
                run(call)
        run(dedup.close())

        async def own() -> None:
            async with Deduplicator(options) as its:
                assert (await its.decide(others[0])).outcome == NEW

        if kind != "memory":
            asyncio.run(own())

    assert _exit_code(child) == 0
    assert run(dedup.commit(verdict))
    copy = Document("https://two.example/", text=claimed.text)
    assert run(dedup.decide(copy)).is_duplicate
    run(dedup.close())
    loop.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_a_process_forked_after_the_close(
    kind: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """It shares no connection, so both it and its parent may open the index again."""
    addresses = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'pages.db'}"}
    url = addresses.get(kind, redis_server.url)
    dedup = Deduplicator(Options(index_url=url, namespace=namespace_for(url, "closed")))

    async def store(page: Document) -> None:
        async with dedup:
            verdict = await dedup.decide(page)
            assert verdict.outcome == NEW
            assert await dedup.commit(verdict)

    asyncio.run(store(PAGES[0]))
    assert _exit_code(lambda: asyncio.run(store(PAGES[1]))) == 0
    asyncio.run(store(PAGES[2]))


def test_calls_of_background_tasks_are_not_sent() -> None:
    """The tasks of a forked process that extend leases send nothing over the connections of its
    parent."""
    sent: list[int] = []

    async def run(calls: list[int]) -> list[int]:
        sent.extend(calls)
        return calls

    loop = asyncio.new_event_loop()

    async def call(batcher: Batcher[int, int], number: int) -> int:
        return await batcher.submit(number)

    batcher: Batcher[int, int] = Batcher(run, 1)
    assert loop.run_until_complete(call(batcher, 1)) == 1

    def child() -> None:
        with pytest.raises(IndexUnavailableError, match="forked"):
            loop.run_until_complete(call(batcher, 2))
        assert sent == [1]

    assert _exit_code(child) == 0
    loop.close()


@pytest.mark.parametrize("has_former_loop", [False, True])
def test_two_event_loops_at_once(has_former_loop: bool) -> None:
    """Calls in the second loop raise an error, instead of waiting for results that only the first
    one gets; also if an earlier loop, which has ended, was the first to use the index."""
    dedup = Deduplicator(Options(index_url="memory:"))
    if has_former_loop:
        asyncio.run(dedup.open())
    errors: list[BaseException] = []

    def other() -> None:
        try:
            asyncio.run(asyncio.wait_for(dedup.decide(PAGES[1]), _SECONDS))
        except BaseException as error:
            errors.append(error)

    async def use() -> None:
        async with dedup:
            await dedup.commit(await dedup.decide(PAGES[0]))
            thread = threading.Thread(target=other)
            thread.start()
            await asyncio.to_thread(thread.join)

    asyncio.run(use())
    assert [type(error) for error in errors] == [DedupError]
    assert "another event loop" in str(errors[0])


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_two_event_loops_one_after_the_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Nothing extends leases in the second one, and connections are of the first one: its calls are
    refused, until it is opened there; pages that had no end by then are not stored."""
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:{tmp_path / 'i.db'}"}
    url = urls.get(kind, lambda: str(request.getfixturevalue("redis_url")))()
    dedup = Deduplicator(Options(index_url=url, lease=0.6))

    async def first() -> None:
        await dedup.commit(await dedup.decide(PAGES[0]))
        assert (await dedup.decide(PAGES[1])).outcome == NEW

    async def refused() -> None:
        with pytest.raises(DedupError, match=r"the event loop .* has ended"):
            await dedup.decide(PAGES[1])

    async def opened() -> None:
        async with dedup:
            verdict = await dedup.decide(PAGES[1])
            assert verdict.outcome == NEW
            assert dedup._heartbeat is not None
            assert not dedup._heartbeat.done()
            assert await dedup.commit(verdict)
            copy = attrs.evolve(PAGES[0], key="https://copy.example/")
            assert (await dedup.decide(copy)).outcome == DUPLICATE

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of a connection of the first one
        for step in (first, refused, opened):
            asyncio.run(step())
        gc.collect()


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_is_left_open_in_an_ended_loop_is_closed(redis_url: str, is_closed: bool) -> None:
    """A close in the next loop raises no error of its connections, nor does opening there, also
    where a call that was on its way when it was closed has connected once more."""
    dedup = Deduplicator(Options(index_url=redis_url))

    async def first() -> None:
        deciding = asyncio.create_task(dedup.decide(PAGES[0]))
        await asyncio.sleep(0)
        if is_closed:
            await dedup.close()
        assert (await deciding).outcome == NEW

    async def opened() -> None:
        async with dedup:
            assert (await dedup.decide(PAGES[1])).outcome == NEW

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of a connection of the first one
        asyncio.run(first())
        if not is_closed:
            asyncio.run(dedup.close())
        asyncio.run(opened())
        gc.collect()


def test_a_second_event_loop_while_the_first_one_is_stopped() -> None:
    """It is refused as well: connections and the task that extends leases belong to the first one,
    which may go on at any time. Once it is closed there, the second one may open it."""
    dedup = Deduplicator(Options(index_url="memory:"))
    one, two = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        assert one.run_until_complete(dedup.decide(PAGES[0])).outcome == NEW
        with pytest.raises(DedupError, match="another event loop"):
            two.run_until_complete(dedup.decide(PAGES[1]))
        with pytest.raises(DedupError, match="another event loop"):
            two.run_until_complete(asyncio.wait_for(dedup.close(), _SECONDS))
        one.run_until_complete(dedup.close())
        two.run_until_complete(dedup.open())
        assert two.run_until_complete(dedup.decide(PAGES[1])).outcome == NEW
        two.run_until_complete(dedup.close())
    finally:
        one.close()
        two.close()


def test_an_index_that_is_refused_is_closed(redis_url: str) -> None:
    """No connection stays open behind the error."""

    async def connections() -> int:
        async with redis.asyncio.Redis.from_url(redis_url) as client:
            return int((await client.info("clients"))["connected_clients"])

    async def refused() -> int:
        async with Deduplicator(Options(index_url=redis_url)):
            pass
        before = await connections()
        with pytest.raises(IndexRefusedError):
            async with Deduplicator(Options(index_url=redis_url, shingle_width=4)):
                pass
        return await connections() - before

    assert asyncio.run(refused()) == 0
