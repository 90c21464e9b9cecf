"""Which slots of Scrapy's feeds can't be stored.

Neither the signal of a slot's end nor its task says so, and Scrapy counts by kind of storage. The
method ``store`` of each storage is wrapped. A Deferred stays one, and None stays None, since
others may call it, too. A storage may be that of several slots, also of several crawls in one
process, and is wrapped once.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.extensions.postprocessing import PostProcessingManager
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy.extensions.feedexport import FeedSlot


def watch(slot: FeedSlot, failed: set[FeedSlot]) -> bool:
    """Note in a set if a slot can't be stored.

    :returns: False: its storage takes no attribute
    """
    storage: Any = slot.storage
    try:
        store = storage.store
        if not isinstance(store, _Watched):
            store = _Watched(store)
            storage.store = store
        store.awaited[slot] = failed
    except Exception:  # a class of the user's own may refuse with any error
        return False
    return True


class _Watched:
    """The method ``store`` of a storage.

    :param store: the storage's own
    """

    def __init__(self, store: Callable[[IO[bytes]], Any]) -> None:
        self._store = store
        # Slots that are not stored yet, with the set of each. Some never are: they took no item.
        self.awaited: WeakKeyDictionary[FeedSlot, set[FeedSlot]] = WeakKeyDictionary()

    def __call__(self, file: IO[bytes]) -> Any:
        """Called by Scrapy, and by what else calls the method of the storage."""
        waiting = dict(self.awaited)
        slots = [slot for slot in waiting if _file_of(slot) is file]
        for slot in slots:  # a storage that calls this from its own method says it once
            del self.awaited[slot]
        sets = [(slot, waiting[slot]) for slot in slots or waiting]
        try:
            made = self._store(file)
        except BaseException:
            _note(sets)
            raise
        if isinstance(made, Deferred):
            return made.addErrback(_noted, sets)
        return _awaited(made, sets) if inspect.isawaitable(made) else made


def _file_of(slot: FeedSlot) -> IO[bytes] | None:
    file = slot.file
    return file.file if isinstance(file, PostProcessingManager) else file


def _note(sets: Iterable[tuple[FeedSlot, set[FeedSlot]]]) -> None:
    for slot, failed in sets:
        failed.add(slot)


def _noted(failure: Failure, sets: Iterable[tuple[FeedSlot, set[FeedSlot]]]) -> Failure:
    _note(sets)
    return failure


async def _awaited(made: Awaitable[Any], sets: Iterable[tuple[FeedSlot, set[FeedSlot]]]) -> Any:
    try:
        return await made
    except BaseException:
        _note(sets)
        raise
