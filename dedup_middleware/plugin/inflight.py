"""Links each item signal of Scrapy to the item that was decided, and so to its claim.

A claim belongs to the item that was decided, whatever later pipelines make of it: they may change
it, copy it, or return another object. So nothing is computed from the item a second time. Scrapy
takes an item through all pipelines and sends its final signal in one coroutine
(``Scraper.start_itemproc_async``), and waits there for the handlers of the signal, which run in
copies of its context. A signal is linked to an item in one of three ways, the surest first:

1. **Coroutine.** A context variable names the task in which an item entered, and this task waits
   for the running handler. Other tasks may have inherited the context (for example of a page that
   is fetched because a pipeline fetches an image); the task does not wait for their handlers.
2. **Coroutine and object.** If a later pipeline sends further items from its ``process_item`` and
   waits for them, several items enter in one task; then the object must be the same as well.
3. **Object.** If ``process_item`` ran in a task of its own, that task has ended when the signal
   comes. Then the signal must carry the same object, with the same page in it.

A claim without such a link is never committed.
"""

from __future__ import annotations

import asyncio
import enum
import weakref
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import attrs

from dedup_middleware.model.documents import Verdict
from dedup_middleware.plugin.pagefields import PageFields

MAX_NESTED = 8  # most items in flight at the same time in one task
MAX_LOST = 1000  # objects in flight; beyond it, items without a link are given up


class Doubt(enum.Enum):
    """Why the claim of an item that may be stored is not committed, and what to do about it."""

    NO_LINK = (
        "its process_item ran in a task or Deferred of its own and a later pipeline returned "
        "another object; await super().process_item(item) in the coroutine that Scrapy awaits"
    )
    NESTED = (
        "a later pipeline sends further items from its process_item and another returns another "
        "object; send them from a task of their own"
    )
    REUSED = (
        "its object was changed by the spider, or yielded again with another page, while it was on "
        "its way; yield a new object for every page"
    )
    NO_ITEM = (
        "a later pipeline returned something that is no item; return the item from process_item"
    )


@attrs.define(eq=False)
class ItemInFlight:
    """An item between its arrival and its final signal.

    ``item`` is a strong reference, so that no other object gets its id. ``fields``: the page in
    it; None for an object that is no item. ``task``: the task in which it went on to the next
    pipeline. ``is_reused``: while in flight, the object entered again with another page in it.
    ``is_nested``: its task had other items in flight; ``is_cut``: too many for a link by the task.
    """

    item: Any
    fields: PageFields | None
    verdict: Verdict | None = None
    task: weakref.ref[asyncio.Task[Any]] | None = None
    is_reused: bool = False
    is_nested: bool = False
    is_cut: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether its task can't send its final signal any more."""
        if self.task is None:  # it is still being decided
            return False
        task = self.task()
        return self.is_cut or task is None or task.done()


@attrs.frozen
class Ending:
    """How to settle a verdict: commit it if ``stored``, else release it."""

    verdict: Verdict
    stored: bool
    doubt: Doubt | None = None


class InFlight:
    """Registers items in flight, and finds the item that a signal is about.

    :param read: returns the page in an item; None for an object that is no item
    :param settle: gets the verdicts of items of which no signal comes: their task was cancelled, or
        has ended and the same object is on its way again, as with `scrapy parse --pipelines -o`
    """

    def __init__(
        self, read: Callable[[Any], PageFields | None], settle: Callable[[list[Ending]], None]
    ) -> None:
        self._read = read
        self._settle = settle
        # A variable for each crawl: two crawls may run in one process.
        self._task: ContextVar[weakref.ref[asyncio.Task[Any]] | None]
        self._task = ContextVar("dedup_task", default=None)
        # The items that went on in each task, the newest last.
        self._of_task: weakref.WeakKeyDictionary[asyncio.Task[Any], list[ItemInFlight]]
        self._of_task = weakref.WeakKeyDictionary()
        self._objects: dict[int, list[ItemInFlight]] = {}
        self._limit = MAX_LOST

    def __len__(self) -> int:
        return len(self._objects)

    def enter(self, item: Any, fields: PageFields | None) -> ItemInFlight:
        """Register an item that arrives; call :meth:`send_on` when it goes to the next pipeline."""
        flying = ItemInFlight(item, fields)
        if fields is None:
            return flying
        same = self._objects.setdefault(id(item), [])
        if same and any(other.fields != fields for other in same):
            for one in (flying, *same):
                one.is_reused = True
        same.append(flying)
        self._release(one for one in same if one.is_lost)
        return flying

    def filled(self, flying: ItemInFlight, fields: PageFields) -> None:
        """Note the fields of an item that the plugin itself has filled, for all its entries."""
        for one in self._objects[id(flying.item)]:
            one.fields = fields

    def send_on(self, flying: ItemInFlight) -> None:
        """Link an item to the running task, in which its final signal will be sent.

        Call it for each item that entered; dropped items get a signal, too.
        """
        task = asyncio.current_task()
        if task is None:
            return
        flying.task = weakref.ref(task)
        self._task.set(flying.task)
        if task not in self._of_task:
            task.add_done_callback(self._done)
        in_task = self._of_task.setdefault(task, [])
        others = [one for one in in_task if not one.is_cut]
        if others:
            for one in (flying, *others):
                one.is_nested = True
        if len(others) >= MAX_NESTED:
            for one in others:
                one.is_cut = True
        in_task.append(flying)

    def _done(self, task: asyncio.Task[Any]) -> None:
        """Settle the items of a task that was cancelled, for example by a later pipeline. If it
        ended, settle those whose object is in flight again and would wait for its own claim."""
        self._release(
            flying
            for flying in self._of_task.pop(task, [])
            if task.cancelled() or len(self._objects.get(id(flying.item), ())) > 1
        )

    def _release(self, flyings: Iterable[ItemInFlight]) -> None:
        # They stay registered: a pipeline with tasks of its own may go on with them.
        endings = []
        for flying in flyings:
            if flying.verdict is not None:
                endings.append(Ending(flying.verdict, stored=False))
                flying.verdict = None
        if endings:
            self._settle(endings)

    async def leave(self, item: Any, *, stored: bool) -> list[Ending] | None:
        """Find the item that a final signal is about, and return how to settle its verdict.

        Call it from the handler of the signal.

        :param item: the object of the signal, which may not be the object that entered
        :param stored: all pipelines have returned; False: one dropped it or failed
        :returns: the verdicts to settle; None: the item never entered
        """
        entered = self._task.get()
        task = None if entered is None else entered()
        if task is not None and self._of_task.get(task) and not _waits_for_us(task):
            # An eager task runs the handler before the task of the item waits for it.
            await asyncio.sleep(0)
        flying, doubt = self._by_task(task, item)
        if flying is None:
            flying = self._by_object(item)
        if flying is None:
            suspects = self._suspects(item, stored=stored)
            return self._give_up(suspects) if suspects else None
        if flying.is_reused:
            doubt = Doubt.REUSED
        elif stored and doubt is None and item is not flying.item and self._read(item) is None:
            doubt = Doubt.NO_ITEM
        verdict = self._close(flying)
        if verdict is None:
            return []
        if not stored:
            return [Ending(verdict, stored=False)]
        return [Ending(verdict, stored=doubt is None, doubt=doubt)]

    def _by_task(
        self, task: asyncio.Task[Any] | None, item: Any
    ) -> tuple[ItemInFlight | None, Doubt | None]:
        if task is None or not _waits_for_us(task):
            return None, None
        in_task = [one for one in self._of_task.get(task, ()) if not one.is_cut]
        if not in_task or not in_task[-1].is_nested:
            return (in_task[-1] if in_task else None), None
        for one in reversed(in_task):
            if one.item is item:
                return one, None
        # Most likely it is the newest; releasing the claim of a wrong item loses no content.
        return in_task[-1], Doubt.NESTED

    def _by_object(self, item: Any) -> ItemInFlight | None:
        same = self._objects.get(id(item), ())
        if len(same) != 1 or not same[0].is_lost or self._read(item) != same[0].fields:
            return None
        return same[0]

    def overdue(self) -> list[Ending]:
        """If many items are in flight, give up those without a link; return how to settle them."""
        if len(self._objects) <= self._limit:
            return []
        endings = self._give_up(self._all_lost())
        self._limit = max(MAX_LOST, 2 * len(self._objects))
        return endings

    def _all_lost(self) -> list[ItemInFlight]:
        return [one for same in self._objects.values() for one in same if one.is_lost]

    def _suspects(self, item: Any, *, stored: bool) -> list[ItemInFlight]:
        """Items that a signal without a link may be about: if stored, any item without a link; else
        only those with the same page, since an earlier pipeline may have dropped an item that never
        entered."""
        lost = self._all_lost()
        if stored or not lost:
            return lost
        fields = self._read(item)
        return [one for one in lost if one.fields == fields]

    def _give_up(self, lost: list[ItemInFlight]) -> list[Ending]:
        verdicts = [self._close(flying) for flying in lost]
        return [Ending(one, stored=False, doubt=Doubt.NO_LINK) for one in verdicts if one]

    def _close(self, flying: ItemInFlight) -> Verdict | None:
        """Forget an item and return its verdict; what still refers to the entry keeps neither."""
        same = self._objects.get(id(flying.item))
        if same is not None and flying in same:
            same.remove(flying)
            if not same:
                del self._objects[id(flying.item)]
        task = None if flying.task is None else flying.task()
        in_task = [] if task is None else self._of_task.get(task, [])
        if flying in in_task:
            in_task.remove(flying)
        verdict = flying.verdict
        flying.item = flying.fields = flying.verdict = None
        return verdict

    def clear(self) -> None:
        """Forget all items; the caller releases their claims."""
        for same in list(self._objects.values()):
            for flying in list(same):
                self._close(flying)


def _waits_for_us(task: asyncio.Task[Any]) -> bool:
    """Whether a task waits for handlers of a signal, the running handler among them."""
    # asyncio has no public name for it. Without these attributes only the object can be the link.
    gathering = getattr(task, "_fut_waiter", None)
    return asyncio.current_task() in getattr(gathering, "_children", ())
