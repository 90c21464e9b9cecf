"""Parameters stored in an index: those of the fingerprints, the window and the record layout.

Every process that opens an index must use the same parameters. The window is divided into
generations. The generation in which a page is written is part of its buckets' names: the newest is
written, all live ones are read, and whole generations expire, without work for single pages. The
record layout names the fields of CONTENT that are stored; the others read as 0.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import (
    IndexMissingError,
    IndexRefusedError,
    IndexReplacedError,
)
from dedup_middleware.model.buckets import FIRST_BAND_TABLE
from dedup_middleware.model.records import CONTENT

Parameters = Mapping[str, str]
MOST_BANDS = 64 - FIRST_BAND_TABLE  # tables of a page are bits of a mask
LIVE = 3  # live generations; a page is remembered for 1 to 1.5 windows


@attrs.frozen
class Window:
    """How long pages are remembered; 0 seconds: for ever, in a single generation."""

    seconds: float = 0.0

    @property
    def span_ms(self) -> int:
        """Milliseconds of one generation; 0 without a window."""
        return max(1, round(self.seconds / (LIVE - 1) * 1000)) if self.seconds else 0

    def at(self, now: float) -> Moment:
        """The moment at time ``now``, with the generations live then."""
        if not self.seconds:
            return Moment(now, range(1))
        return self.of_generation(int(now * 1000) // self.span_ms, now)

    def of_generation(self, generation: int, now: float = 0.0) -> Moment:
        """A moment at which ``generation`` is the newest one."""
        return Moment(now, range(max(0, generation - LIVE + 1), generation + 1))


@attrs.frozen
class Moment:
    """A time in seconds and the generations live then; without a window only generation 0."""

    now: float
    live: range

    @property
    def generation(self) -> int:
        """The newest generation, the only one that is written."""
        return self.live[-1]

    @property
    def oldest(self) -> int:
        """The oldest generation that is read."""
        return self.live[0]


def window_parameter(seconds: float) -> dict[str, str]:
    """The window as a parameter of the index; empty without a window.

    >>> window_parameter(2_592_000.0), window_parameter(1_234_567.0)
    ({'window': '2.592e+06'}, {'window': '1234567.0'})
    """
    short = f"{seconds:g}"
    return {"window": short if float(short) == seconds else repr(seconds)} if seconds else {}


RECORD = "record"  # name of the parameter
_TEXT = "text"
_SIZES = {name: CONTENT[name].itemsize for name in CONTENT.names or ()}


def _in_order(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in _SIZES if name in fields)


@attrs.frozen
class RecordLayout:
    """What an index stores of a page: fields of CONTENT and, with ``text``, address and payload."""

    fields: tuple[str, ...] = attrs.field(default=tuple(_SIZES), converter=_in_order)
    text: bool = True

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The fields without padding; CONTENT itself if all fields are stored."""
        if self.fields == CONTENT.names:
            return CONTENT
        return np.dtype([(name, CONTENT[name]) for name in self.fields])

    @cached_property
    def itemsize(self) -> int:
        """Bytes of a stored page record."""
        return self.dtype.itemsize

    @property
    def parameter(self) -> str:
        """The layout as a parameter of the index, with the size of each field in bytes.

        >>> RecordLayout(("key", "size"), text=False).parameter
        'size:4 key:8'
        """
        words = [f"{name}:{_SIZES[name]}" for name in self.fields]
        return " ".join([*words, _TEXT] if self.text else words)

    def check(self, payload: bytes) -> None:
        """Raise ValueError if there is a payload, but this layout stores none."""
        if payload and not self.text:
            raise ValueError(
                "the page has a payload, and this index keeps none: make it with a RecordLayout "
                "whose text is true"
            )

    def pack(self, content: NDArray[np.void]) -> NDArray[np.void]:
        """Convert CONTENT[n] to the stored form, dtype[n]."""
        if self.dtype is CONTENT:
            return content
        kept = np.zeros(len(content), self.dtype)
        for name in self.fields:
            kept[name] = content[name]
        return kept

    def pack_one(self, content: bytes) -> bytes:
        """Convert the bytes of one CONTENT record to the stored form."""
        if self._is_beginning:
            return content[: self.itemsize]
        return self.pack(np.frombuffer(content, CONTENT)).tobytes()

    @cached_property
    def _is_beginning(self) -> bool:
        """Whether the fields are the first ones of CONTENT."""
        return self.fields == tuple(_SIZES)[: len(self.fields)]

    def unpack(self, kept: NDArray[np.void]) -> NDArray[np.void]:
        """Convert the stored form, dtype[n], to CONTENT[n]; always a copy."""
        if self.dtype is CONTENT:
            return kept.astype(CONTENT)
        content = np.zeros(len(kept), CONTENT)
        for name in self.fields:
            content[name] = kept[name]
        return content


WHOLE = RecordLayout()


def record_parameter(parameters: Mapping[str, str]) -> dict[str, str]:
    """Add the default record layout, which stores everything, unless parameters name one."""
    return {RECORD: WHOLE.parameter, **parameters}


def layout_of(parameters: Mapping[str, str], where: str) -> RecordLayout:
    """Read the record layout from parameters.

    :param where: the index as the user knows it, without its password
    :raises IndexRefusedError: the layout has fields unknown to this version of the package
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


#: version of the layout of keys, tables and records in all back ends; other versions are refused
SCHEMA = 5
HASH_KEY = "hash_key"
#: parameters of an index that concern no page
OF_INDEX = frozenset({"window", "parts"})
_MASK64 = (1 << 64) - 1

# Log messages; their argument is the index as the user knows it, without its password.
EMPTIED = (
    "The index at %s was emptied, removed or replaced while it was in use; it goes on with the "
    "same key. Pages that are not in it any more are stored once more when they come again."
)
REPLACED = (
    "The index at %s is another one than before, with another key; the crawl goes on with it. "
    "Pages that are not in it are stored once more when they come again."
)


def differences(
    stored: Parameters,
    wanted: Parameters,
    has: str = "the index has",
    asks: str = "the settings ask for",
) -> list[str]:
    """One line for each parameter that differs, with the settings that determine it.

    >>> differences({"min_features": "3", "bands": "8"}, {"min_features": "2", "bands": "8"})
    ["min_features: the index has '3', the settings ask for '2' (DEDUP_MIN_FEATURES)"]
    """
    lines = []
    for name in sorted({*stored, *wanted}):
        if stored.get(name) != wanted.get(name):
            line = f"{name}: {has} {stored.get(name)!r}, {asks} {wanted.get(name)!r}"
            lines.append(f"{line} ({_SETTINGS[name]})" if name in _SETTINGS else line)
    return lines


def replaced(where: str) -> IndexReplacedError:
    """The error if the opened index was replaced by another one at the same address."""
    return IndexReplacedError(
        f"the index at {where} is another one than before, with another key: open it again"
    )


def complete(parameters: Parameters) -> dict[str, str]:
    """The parameters of a new index: those given, and a random ``hash_key`` unless one is given."""
    return {HASH_KEY: secrets.token_hex(16), **parameters}


def agree(stored: Mapping[str, str], wanted: Parameters | None, where: str) -> dict[str, str]:
    """Check the stored parameters against those of the settings and return them.

    :param wanted: None: accept any valid parameters with a usable ``hash_key``
    :param where: the index as the user knows it, without its password
    :raises IndexRefusedError: names each difference and what to do
    """
    hash_key_of(stored, where)
    _check_texts(stored, where)
    if wanted is None:
        return dict(stored)
    # A given hash_key is used for new indexes only; an existing index keeps its own.
    lines = differences(_keyless(stored), _keyless(wanted))
    if lines:
        raise IndexRefusedError(
            f"the index at {where} was made with other parameters:\n  "
            + "\n  ".join(lines)
            + "\nRestore these settings (a line without a setting depends on the version of "
            "dedup-middleware), or use another index (DEDUP_NAMESPACE or "
            "DEDUP_INDEX_URL), or remove the index. `scrapy dedup rebuild` makes another one of "
            "the pages that are stored; where the window alone differs, `scrapy dedup import "
            "ADDRESS`, with the address of this one, carries all pages over to another one."
        )
    return dict(stored)


def other_parameters(stored: Parameters, wanted: Parameters) -> list[str]:
    """One line for each difference that makes the pages of two indexes incomparable. Hash key,
    window, number of shards and stored addresses may differ."""

    def of_pages(parameters: Parameters) -> dict[str, str]:
        found = record_parameter(parameters)
        kept = {name: text for name, text in found.items() if name not in OF_INDEX | {HASH_KEY}}
        return {**kept, RECORD: found[RECORD].removesuffix(" text")}

    return differences(of_pages(stored), of_pages(wanted))


# The settings that determine each parameter; other parameters depend on the package version.
_SETTINGS: Mapping[str, str] = {
    "bands": "DEDUP_BANDS x DEDUP_ROWS",
    "method": "DEDUP_METHOD, DEDUP_METHOD_PARAMETERS",
    "minhash": "DEDUP_NUM_PERM",
    "shingler": "DEDUP_SEGMENTER, DEDUP_SHINGLE_WIDTH (3w: 3), DEDUP_USER_DICTIONARY, "
    "DEDUP_FOLD_TRADITIONAL",
    "min_features": "DEDUP_MIN_FEATURES",
    "window": "DEDUP_WINDOW",
    "parts": "DEDUP_SHARDS",
    "record": "DEDUP_KEEP_ADDRESS, DEDUP_METHOD",
}


def _check_texts(stored: Mapping[Any, Any], where: str) -> None:
    """Refuse parameters that are not strings: SQLite allows any type in any column."""
    strange = [
        f"{name!r} is {'no text' if name == HASH_KEY else repr(value)}"
        for name, value in stored.items()
        if not (isinstance(name, str) and isinstance(value, str))
    ]
    if strange:
        raise IndexRefusedError(
            f"the index at {where} has damaged parameters ({', '.join(strange)}): restore a copy, "
            "or begin a new index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)."
        )


def hash_key_of(parameters: Mapping[str, str], where: str) -> int:
    """The 64-bit key of the page hashes. Error messages never show it.

    :param where: the index or file as the user knows it, without its password
    :raises IndexRefusedError: the key is missing or not a hexadecimal number
    """
    key = parameters.get(HASH_KEY, "")
    if not re.fullmatch("[0-9a-fA-F]{1,32}", str(key)):  # SQLite may hold bytes in its place
        raise IndexRefusedError(
            f"{where} has no usable hash_key ({HASH_KEY} is "
            f"{'not a hexadecimal number of 1 to 32 digits' if key else 'gone'}), so its pages "
            "can't be compared with new ones: it is damaged or was changed. Restore a copy, or "
            "begin a new index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)."
        )
    return int(key, 16) & _MASK64


def _keyless(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name != HASH_KEY}


def check_schema(found: str, where: str) -> None:
    """Raise IndexRefusedError, naming both schemas, if the index has another schema."""
    if found != str(SCHEMA):
        raise IndexRefusedError(
            f"the index at {where} has schema {found!r}, this version of dedup-middleware knows "
            f"schema {SCHEMA}: use the version that made it, or another index (DEDUP_NAMESPACE "
            "or DEDUP_INDEX_URL)."
        )


def bands_of(parameters: Parameters) -> tuple[int, int]:
    """The numbers of bands and of minima in each; (0, 1) if there are none, or the parameter is
    damaged."""
    count, _, rows = parameters.get("bands", "").partition("x")
    if not (count.isdecimal() and rows.isdecimal() and int(count) <= MOST_BANDS and int(rows)):
        return 0, 1
    return int(count), int(rows)


def missing(where: str) -> IndexMissingError:
    """The error if an index that should exist does not."""
    return IndexMissingError(
        f"there is no index at {where}: name the one that a crawl has made (DEDUP_INDEX_URL)"
    )
