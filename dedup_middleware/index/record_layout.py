"""Which fields of a CONTENT record an index keeps: a method that needs few keeps a small index.

Callers always see whole CONTENT records; fields that are not kept read as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.model.records import CONTENT

RECORD = "record"  # name of the parameter
_TEXT = "text"
NO_TEXT = (
    "the page has a payload, and this index keeps none: make it with a RecordLayout "
    "whose text is true"
)
_SIZES = {name: CONTENT[name].itemsize for name in CONTENT.names or ()}


def _in_order(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in _SIZES if name in fields)


@attrs.frozen
class RecordLayout:
    """What is kept of a page: some fields of CONTENT, and perhaps its address and payload.

    ``text``: whether addresses and payloads are kept at all.
    """

    fields: tuple[str, ...] = attrs.field(default=tuple(_SIZES), converter=_in_order)
    text: bool = True

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The fields one after the other, without padding."""
        return _dtype(self.fields)

    @cached_property
    def itemsize(self) -> int:
        """Bytes of a page."""
        return self.dtype.itemsize

    @property
    def parameter(self) -> str:
        """As a parameter of the index, with the bytes of each field.

        >>> RecordLayout(("key", "size"), text=False).parameter
        'size:4 key:8'
        """
        words = [f"{name}:{_SIZES[name]}" for name in self.fields]
        return " ".join([*words, _TEXT] if self.text else words)

    def check(self, payload: bytes) -> None:
        """Refuse a payload that this layout can't keep.

        :raises ValueError: says so
        """
        if payload and not self.text:
            raise ValueError(NO_TEXT)

    def pack(self, content: NDArray[np.void]) -> NDArray[np.void]:
        """CONTENT[n] as it is kept, dtype[n]."""
        if self.dtype is CONTENT:
            return content
        kept = np.zeros(len(content), self.dtype)
        for name in self.fields:
            kept[name] = content[name]
        return kept

    def pack_one(self, content: bytes) -> bytes:
        """The same for the bytes of one record."""
        if self._is_beginning:
            return content[: self.itemsize]
        return self.pack(np.frombuffer(content, CONTENT)).tobytes()

    @cached_property
    def _is_beginning(self) -> bool:
        """Whether the fields are the first ones of CONTENT."""
        return self.fields == tuple(_SIZES)[: len(self.fields)]

    def unpack(self, kept: NDArray[np.void]) -> NDArray[np.void]:
        """CONTENT[n] from what was kept of it, dtype[n]; always a copy."""
        if self.dtype is CONTENT:
            return kept.astype(CONTENT)
        content = np.zeros(len(kept), CONTENT)
        for name in self.fields:
            content[name] = kept[name]
        return content


@cache
def _dtype(fields: tuple[str, ...]) -> np.dtype[np.void]:
    if fields == CONTENT.names:
        return CONTENT
    return np.dtype([(name, CONTENT[name]) for name in fields])


WHOLE = RecordLayout()


def record_parameter(parameters: Mapping[str, str]) -> dict[str, str]:
    """Parameters with the record layout; the default keeps everything."""
    return {RECORD: WHOLE.parameter, **parameters}


def layout_of(parameters: Mapping[str, str], where: str) -> RecordLayout:
    """The layout that parameters ask for.

    :param where: the index as the user knows it, without its password
    :raises IndexRefusedError: this version of the package has no such fields
    """
    text = parameters.get(RECORD, WHOLE.parameter)
    words = text.split()
    found = RecordLayout(tuple(word.partition(":")[0] for word in words), text=_TEXT in words)
    if found.parameter != text:
        raise IndexRefusedError(
            f"the index at {where} keeps the fields {text!r} of a page; this version of "
            f"dedup-middleware knows {WHOLE.parameter!r}: use the version that made it, or another "
            "index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)."
        )
    return found
