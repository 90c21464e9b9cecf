"""What every journal does, wherever its bytes are."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dedup_middleware.base.errors import DedupError
from dedup_middleware.journal.entries import (
    Activity,
    Body,
    Drop,
    Hour,
    JournalSize,
    Kept,
    Query,
    unpack,
    unpack_body,
)

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)
_LOST = Body("", left_out=("text",))


class JournalError(DedupError):
    """The journal can't be read or written; the message names it and the way out."""


class JournalStore(ABC):
    """Drops, texts of stored pages, and counters by the hour, under a cap on their bytes.

    Calls block, so a crawl makes them through :class:`.writer.JournalWriter`. All may raise
    :class:`JournalError`. Several processes may write to one journal.

    :ivar where: the journal as a user knows it, without a password
    """

    where: str

    @abstractmethod
    def open(self, *, create: bool) -> None:
        """Connect.

        :param create: make it if it is missing
        :raises JournalError: it is missing, can't be reached, or is something else
        """

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections."""

    @abstractmethod
    def append(self, drops: Sequence[Drop], kept: Sequence[Kept], activity: Activity) -> None:
        """Write, all or nothing, and let the oldest go where the cap is passed."""

    @abstractmethod
    def drops(self, query: Query = Query(), *, bodies: bool = False) -> Iterator[Drop]:  # noqa: B008
        """The drops that fit, oldest first.

        :param bodies: fill ``body``; else it is None
        """

    @abstractmethod
    def body(self, drop_id: str) -> Body | None:
        """What a dropped page said, None if the drop has aged out.

        Of a damaged one, also among :meth:`drops`, ``left_out`` names the text.
        """

    @abstractmethod
    def kept(self, drop: Drop) -> Kept | None:
        """The stored page that a drop names; None: its text is not kept, aged out, or damaged."""

    @abstractmethod
    def hours(self) -> list[Hour]:
        """What happened, by hour and host, ascending."""

    @abstractmethod
    def size(self) -> JournalSize:
        """How much there is."""

    def body_of(self, drop_id: str, raw: bytes) -> Body:
        """An unpacked body; what is damaged is logged, and names the text as left out."""
        try:
            return unpack_body(raw)
        except ValueError as error:
            self._lost(f"what the dropped page {drop_id} said", error)
            return _LOST

    def kept_of(self, key: str, number: int, title: str, raw: bytes, time: float) -> Kept | None:
        """A stored page with its text unpacked; None if that is damaged, which is logged."""
        try:
            return Kept(key=key, number=number, title=title, text=unpack(raw), time=time)
        except ValueError as error:
            self._lost(f"the text of the stored page {key}", error)
            return None

    def _lost(self, what: str, error: ValueError) -> None:
        logger.warning("The journal %s has lost %s: %s", self.where, what, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept_name(key: str | None, number: int | None) -> str:
    """Name under which the text of a stored page is kept.

    By key, since a page that is renewed gets another page id; by page id where the index keeps no
    address, as for pages that are named by their content.
    """
    return key if key is not None else f"#{number}"
