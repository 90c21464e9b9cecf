"""Notes on items between the spider and the pipeline, by the identity of the object."""

from __future__ import annotations

from typing import Any

import attrs

MAX_NOTES = 10_000  # beyond it, items of the oldest notes will not arrive


@attrs.frozen
class Note:
    """What a request says of the items of its page.

    :param skip: let the item pass without a check
    :param key: key of the page instead of the one in the item; None: that of the item
    """

    skip: bool = False
    key: str | None = None


NOTHING = Note()


class Notes:
    """Notes by the identity of the item, which they keep alive until it arrives."""

    def __init__(self) -> None:
        self._notes: dict[int, list[tuple[Any, Note]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._notes.values()))

    def add(self, item: Any, note: Note) -> None:
        """An item was yielded; it may be yielded again before it arrives."""
        if len(self._notes) >= MAX_NOTES:
            self._notes.pop(next(iter(self._notes)))
        self._notes.setdefault(id(item), []).append((item, note))

    def take(self, item: Any) -> Note:
        """What was noted of an item that arrives."""
        notes = self._notes.get(id(item))
        if notes is None:
            return NOTHING
        _, note = notes.pop(0)
        if not notes:
            del self._notes[id(item)]
        return note
