"""Which item a signal is about: by the task that waits, by the object, or not at all."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from dedup_middleware.model.documents import Verdict
from dedup_middleware.plugin import inflight
from dedup_middleware.plugin.inflight import Doubt, Ending, InFlight
from dedup_middleware.plugin.pagefields import PageFields


class Item:
    """An item that can be referred to weakly."""

    def __init__(self, key: str) -> None:
        self.key = key


def read(item: Any) -> PageFields | None:
    """The page in an item; None for what is no item."""
    return PageFields(item.key, "", None, None, None) if isinstance(item, Item) else None


def verdict(key: str) -> Verdict:
    """A verdict to carry."""
    return Verdict(key, "new", "nothing-alike")


def enter(flight: InFlight, item: Any, held: Verdict | None) -> None:
    """What ``process_item`` does."""
    flying = flight.enter(item, read(item))
    flying.verdict = held
    flight.send_on(flying)


def no_settling(_endings: list[Ending]) -> None:
    """No task is cancelled."""
    raise AssertionError


async def leave(flight: InFlight, item: Any, *, stored: bool = True) -> list[Ending]:
    """What Scrapy does: it gathers the handlers of a signal."""
    (endings,) = await asyncio.gather(flight.leave(item, stored=stored))
    return endings or []


@pytest.fixture
def flight() -> InFlight:
    """No item on its way."""
    return InFlight(read, no_settling)


@pytest.mark.parametrize("stored", [True, False])
async def test_another_object_is_the_same_item(flight: InFlight, stored: bool) -> None:
    """The task that waits is the link, whatever object the signal carries; only once."""
    held = verdict("a")
    enter(flight, Item("a"), held)
    assert await leave(flight, Item("b"), stored=stored) == [Ending(held, stored=stored)]
    assert await leave(flight, Item("b"), stored=stored) == []
    assert len(flight) == 0


async def test_item_that_never_entered_settles_nothing(flight: InFlight) -> None:
    """A signal in a task in which no item has entered."""
    enter(flight, Item("a"), verdict("a"))
    # The task has its own context, but as a copy of this one it inherits the link.
    task = asyncio.create_task(leave(flight, Item("b")))
    assert await task == []
    assert len(flight) == 1


async def test_other_kinds_of_waiting_are_no_link(flight: InFlight) -> None:
    """The task gathers something, but not the handler that runs."""
    enter(flight, Item("a"), verdict("a"))
    handled = asyncio.get_running_loop().create_future()

    async def elsewhere() -> None:
        handled.set_result(await leave(flight, Item("a")))

    task = asyncio.create_task(elsewhere())
    await asyncio.gather(asyncio.sleep(0.01), asyncio.sleep(0.02))
    assert await handled == []
    await task


async def test_handler_that_runs_before_it_is_awaited(flight: InFlight) -> None:
    """As with eager tasks: it waits until the task waits for it."""
    held = verdict("a")
    enter(flight, Item("a"), held)
    handler = asyncio.create_task(flight.leave(Item("b"), stored=True))
    await asyncio.sleep(0)  # it has begun
    (endings,) = await asyncio.gather(handler)
    assert endings == [Ending(held, stored=True)]


async def test_without_asyncios_attributes_nothing_is_committed(
    flight: InFlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asyncio has no public name for may go: then there is no link, not a wrong one."""
    enter(flight, Item("a"), verdict("a"))
    monkeypatch.setattr(inflight, "_waits_for_us", lambda _: False)
    assert await leave(flight, Item("b")) == []


async def test_several_items_in_one_task(flight: InFlight) -> None:
    """Each is known by its object; another object is none of them for sure."""
    items = [Item("a"), Item("b"), Item("c")]
    held = [verdict(item.key) for item in items]
    for item, one in zip(items, held, strict=True):
        enter(flight, item, one)
    assert await leave(flight, items[1]) == [Ending(held[1], stored=True)]
    assert await leave(flight, Item("a")) == [Ending(held[2], stored=False, doubt=Doubt.NESTED)]
    assert await leave(flight, items[0]) == [Ending(held[0], stored=True)]
    assert len(flight) == 0


async def in_its_own_task(flight: InFlight, item: Any, held: Verdict) -> None:
    """``process_item`` in a task that ends before the signal comes."""

    async def process_item() -> None:
        enter(flight, item, held)

    await asyncio.create_task(process_item())


async def test_object_of_a_task_that_has_ended(flight: InFlight) -> None:
    """The object with the page in it is the link then."""
    item, held = Item("a"), verdict("a")
    await in_its_own_task(flight, item, held)
    assert await leave(flight, item) == [Ending(held, stored=True)]
    assert len(flight) == 0


async def test_object_of_a_task_that_runs_is_left_to_it(flight: InFlight) -> None:
    """A pipeline that returns the object of another item settles not that item."""
    item = Item("a")
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> list[Ending]:
        enter(flight, item, verdict("a"))
        entered.set()
        await go_on.wait()
        return await leave(flight, item, stored=False)

    task = asyncio.create_task(slow())
    await entered.wait()
    assert await leave(flight, item) == []
    go_on.set()
    assert await task == [Ending(verdict("a"), stored=False)]


async def test_changed_object_of_a_task_that_has_ended(flight: InFlight) -> None:
    """Another page in it: no link. All that have none are given up, for one of them it was."""
    items = [Item("a"), Item("b")]
    for item in items:
        await in_its_own_task(flight, item, verdict(item.key))
    items[0].key = "other"
    given_up = [Ending(verdict(key), stored=False, doubt=Doubt.NO_LINK) for key in ("a", "b")]
    assert await leave(flight, items[0]) == given_up
    assert len(flight) == 0


async def test_failure_without_a_link_gives_up_the_like(flight: InFlight) -> None:
    """A failed item without a link may never have entered: claims of like pages are given up,
    others are not."""
    for key in ("a", "b"):
        await in_its_own_task(flight, Item(key), verdict(key))
    assert await leave(flight, Item("c"), stored=False) == []
    (ending,) = await leave(flight, Item("b"), stored=False)
    assert (ending.verdict.key, ending.stored) == ("b", False)
    assert len(flight) == 1


async def test_no_item_is_no_storage(flight: InFlight) -> None:
    """A pipeline that returns None for an item passes on nothing to store."""
    enter(flight, Item("a"), verdict("a"))
    ending = Ending(verdict("a"), stored=False, doubt=Doubt.NO_ITEM)
    assert await leave(flight, None) == [ending]


async def test_object_that_enters_again(flight: InFlight) -> None:
    """With the same page in it each is settled; with another one both are doubtful."""
    item = Item("a")

    async def one() -> list[Ending]:
        enter(flight, item, verdict("a"))
        await asyncio.sleep(0.01)
        return await leave(flight, item)

    stored = [Ending(verdict("a"), stored=True)]
    assert await asyncio.gather(one(), one()) == [stored, stored]
    first = asyncio.create_task(one())
    await asyncio.sleep(0)
    item.key = "b"
    doubtful = [Ending(verdict("a"), stored=False, doubt=Doubt.REUSED)]
    assert await asyncio.gather(first, one()) == [doubtful, doubtful]
    assert len(flight) == 0


async def test_items_without_signals_are_given_up(
    flight: InFlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that sends items through and never a signal: few are kept, the rest is released."""
    monkeypatch.setattr(inflight, "MAX_LOST", 20)
    flight = InFlight(read, no_settling)
    given_up = 0
    for number in range(200):
        given_up += len(flight.overdue())
        enter(flight, Item(str(number)), verdict(str(number)))
        assert len(flight) <= 42
    assert given_up + len(flight) == 200


async def test_settled_items_are_not_held(flight: InFlight) -> None:
    """A task that was begun while the item was on its way, and lives on, keeps it not."""
    item = Item("a")
    enter(flight, item, verdict("a"))
    alive = asyncio.create_task(asyncio.sleep(60))
    await leave(flight, item)
    reference = weakref.ref(item)
    del item
    gc.collect()
    assert reference() is None
    alive.cancel()


async def test_what_is_open_at_the_end_is_forgotten(flight: InFlight) -> None:
    """A crawl that ends holds no item."""
    enter(flight, Item("a"), verdict("a"))
    flight.clear()
    assert len(flight) == 0
    assert await leave(flight, Item("a")) == []
