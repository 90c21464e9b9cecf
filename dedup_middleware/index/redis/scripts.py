"""The Lua scripts of the Redis index, and the row layout that they share with Python."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.parameters import SCHEMA, WHOLE, RecordLayout
from dedup_middleware.model.buckets import BUCKET_LIMIT, COMMON_ANCHOR, FULL_BUCKET, cut_address
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT, PAGE_ID_MASK, SIMHASH_RECORD, State

# Bytes of a chunk: with Redis's 6 bytes of overhead it fills a 32 KiB block of the allocator.
TEXT_CHUNK = (32 << 10) - 6
STEPS = 4  # steps in which a chunk of rows grows on a cluster; each fills an allocator block, too
# On a cluster the texts of GROUPED rows share a field, if each has at most GROUP_LIMIT bytes.
GROUPED = 16
GROUP_LIMIT = 250
PAYLOAD_BIT = 1 << 15
_KNOWN_TAIL = 8
_TAIL = 7  # bytes of a row that describe its text
# Commit times are never below this second (of 2001); smaller stamps are states.
FIRST_SECOND = 1_000_000_000
# The key ``counters`` holds five numbers of COUNTER bytes: page ids issued, bytes of text, buckets,
# records not written to full buckets, pages removed. The epoch follows them.
COUNTER = 6
EPOCH = 8  # bytes
COUNTERS = 5

_PENDING = State.PENDING.to_bytes(4, "little")

# Compaction rewrites a bucket only if its last GUARD bytes, at least one record, are unchanged.
GUARD = 16

# Maximum bytes of a full SimHash bucket in the reply to a proposal.
SHOWN = (16 << 10) // SIMHASH_RECORD * SIMHASH_RECORD

_CONSTANTS = {
    "BUCKET_LIMIT": BUCKET_LIMIT,
    "FULL_BUCKET": FULL_BUCKET,
    "SHOWN": SHOWN,
    "GUARD": GUARD,
    "TEXT_CHUNK": TEXT_CHUNK,
    "PAYLOAD_BIT": PAYLOAD_BIT,
    "COMMON_ANCHOR": COMMON_ANCHOR,
    "SCHEMA": f"'{SCHEMA}'",
    "STEPS": STEPS,
    "GROUPED": GROUPED,
    "GROUP_LIMIT": GROUP_LIMIT,
    "ALONE": (1 << 24) - 1,
    "COUNTERS_SIZE": COUNTER * COUNTERS,
    "COUNTERS": "'<" + f"I{COUNTER}" * COUNTERS + "'",
    "LAST_PAGE_ID": PAGE_ID_MASK,
    "FIRST_SECOND": FIRST_SECOND,
    "FREE": int(State.FREE),
    "PENDING": int(State.PENDING),
    "COMMITTED": int(State.COMMITTED),
    "RELEASED": int(State.RELEASED),
}


_FIELDS: Mapping[str, Any] = CONTENT.fields or {}
# Offsets, counted from 1, of the CONTENT fields by which scripts recognise an exact copy: equal
# texts have the same size, SimHash, exact hash, figures and sketch.
_EXACT = {
    name: _FIELDS[field][1] + 1
    for name, field in (
        ("HOST", "host"),
        ("TITLE", "title"),
        ("SIMHASH", "simhash"),
        ("EXACT_AT", "exact"),
        ("FIGURES", "figures"),
    )
}


_COMPARED = WHOLE.fields[:-1]  # all but the sketch


@attrs.frozen
class RowLayout:
    """Layout of page records in Redis: rows packed into strings (chunks), not a key per page."""

    record: RecordLayout = WHOLE

    @cached_property  # used for every page
    def row(self) -> np.dtype[np.void]:
        """The dtype of a row: stored content, stamp, and position of the page's text."""
        fields: list[Any] = [("content", self.record.dtype), ("stamp", "<u4")]
        if self.record.text:
            # text_length: bytes of the address; PAYLOAD_BIT is set if a payload follows it, as
            # length (3 bytes) and data. text_offset: position in the concatenated text chunks.
            fields += [("text_length", "<u2"), ("text_offset", "u1", (5,))]
        return np.dtype(fields)

    @cached_property
    def rows(self) -> int:
        """Number of rows in a chunk."""
        return TEXT_CHUNK // self.row.itemsize

    @cached_property
    def settles_exact(self) -> bool:
        """Whether a row has all fields needed to recognise an exact copy."""
        return self.record.fields[: len(_COMPARED)] == _COMPARED

    @property
    def known_tail(self) -> int:
        """Number of trailing bytes of the stored content by which a known page is recognised."""
        if "sketch" in self.record.fields or "key" not in self.record.fields:
            return min(_KNOWN_TAIL, self.record.itemsize)
        fields = self.record.fields[self.record.fields.index("key") :]
        return sum(CONTENT[name].itemsize for name in fields)

    @property
    def constants(self) -> dict[str, int]:
        """The layout as constants of the scripts."""
        return {
            **_EXACT,
            "CONTENT_SIZE": self.record.itemsize,
            "KNOWN_TAIL": self.known_tail,
            "ROW_SIZE": self.row.itemsize,
            "ROWS": self.rows,
            "TAIL_SIZE": _TAIL if self.record.text else 0,
        }

    def content(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """The contents of rows, CONTENT[n]."""
        return self.record.unpack(rows["content"])


def claimed_row(entry: Entry, record: RecordLayout) -> tuple[bytes, bytes]:
    """The row of a claimed page, without its text offset, and the page's text."""
    row = record.pack_one(entry.content) + _PENDING
    if not record.text:
        return row, b""
    address = cut_address(entry.address or "")
    length = len(address) | (PAYLOAD_BIT if entry.payload else 0)
    return row + length.to_bytes(2, "little"), joined_text(address, entry.payload)


def joined_text(address: bytes | None, payload: bytes) -> bytes:
    """The text of a page: the address and, if there is a payload, its length (3 bytes) and data."""
    if not payload:
        return address or b""
    return (address or b"") + len(payload).to_bytes(3, "little") + payload


def split_text(row: bytes, text: bytes, layout: RowLayout) -> tuple[bytes, bytes]:
    """Address and payload of a page, b"" if there is none; bytes after the payload are ignored."""
    at = layout.row.itemsize - _TAIL
    length = int.from_bytes(row[at : at + 2], "little")
    if not layout.record.text or len(row) != layout.row.itemsize:
        return b"", b""
    if length < PAYLOAD_BIT:
        return text, b""
    length -= PAYLOAD_BIT
    begin = length + 3
    return text[:length], text[begin : begin + int.from_bytes(text[length:begin], "little")]


def text_or_none(address: bytes) -> str | None:
    """Decode a stored address; None if it is empty."""
    return address.decode("utf-8", "replace") if address else None


def strange_stamps(stamps: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Mask of the stamps that no script writes, so that their rows are damaged."""
    strange: NDArray[np.bool_] = (stamps == State.COMMITTED) | (
        (stamps > State.RELEASED) & (stamps < FIRST_SECOND)
    )
    return strange


def read_rows(raw: Sequence[bytes], layout: RowLayout) -> tuple[NDArray[np.void], int]:
    """Decode rows from a reply; also returns how many are damaged, which read as FREE."""
    size = layout.row.itemsize
    lengths = np.fromiter(map(len, raw), np.int64, len(raw))
    if (lengths != size).any():
        raw = [row if len(row) == size else bytes(size) for row in raw]
    rows = np.frombuffer(b"".join(raw), layout.row)
    strange = strange_stamps(rows["stamp"])
    if strange.any():
        rows = rows.copy()
        rows[strange] = np.zeros((), layout.row)
    return rows, int(((lengths != size) & (lengths > 0)).sum() + strange.sum())


@attrs.frozen
class Script:
    """The source of a script and its SHA1, by which EVALSHA names it."""

    text: bytes
    sha: bytes


OWN = "dedup_middleware.index.redis"
# Scripts without shared definitions; some of the names that they define are the same.
_BARE = frozenset({"visit"})
_DEFINED = re.compile(r"local (?:function )?(\w+(?:, \w+)*)")


def _source(name: str, package: str) -> str:
    """The source of a script without comments, to save memory on the server."""
    text = (files(package) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return re.sub(r"(?m)^ *--.*\n", "", text)


@cache
def _common() -> list[tuple[frozenset[str], str]]:
    """The definitions of ``common.lua``, in order, each with the names that it defines."""
    parts = re.split(r"(?m)^(?=local )", _source("common", OWN))
    named = [(_DEFINED.match(part), part) for part in parts]
    return [(frozenset(names[1].split(", ")), part) for names, part in named if names]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@cache
def script(name: str, layout: RowLayout, package: str = OWN) -> Script:
    """A script from the folder ``lua`` of a package, preceded by the shared definitions and
    constants that it uses, and no others, since each call evaluates all definitions."""
    text = _source(name, package)
    used = _words(text)
    for names, part in reversed([] if name in _BARE else _common()):
        if names & used:
            text = part + text
            used |= _words(part)
    known = {**_CONSTANTS, **layout.constants}
    constants = "".join(f"local {key} = {value}\n" for key, value in known.items() if key in used)
    text = re.sub(r"(?m)^ +|^\n", "", text)
    raw = (constants + text).encode()
    return Script(raw, hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode())
