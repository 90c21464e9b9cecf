"""The Lua scripts of the Redis index, and the layout they share with it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

import attrs
import numpy as np

from dedup_middleware.index.growth import GUARD
from dedup_middleware.index.layout import BUCKET_LIMIT
from dedup_middleware.index.records import CONTENT, NUMBER_MASK, State

# A satellite as Redis keeps it. Its rows are packed into strings (chunks), so that a page costs
# no key of its own.
ROW = np.dtype(
    [
        ("content", CONTENT),
        ("state", "u1"),
        ("address_length", "<u2"),
        ("address_offset", "u1", (5,)),
    ]
)
# With Redis's own 6 bytes this fills a 32 KiB block of its allocator to the last 2 bytes.
ROWS = 273
ADDRESS_CHUNK = 32_762
# The key of counters holds five numbers of this many bytes: page numbers given, bytes of
# addresses, buckets, records left out of full buckets, and pages removed.
COUNTER = 6
COUNTERS = 5

_CONSTANTS = {
    "BUCKET_LIMIT": BUCKET_LIMIT,
    "GUARD": GUARD,
    "CONTENT_SIZE": CONTENT.itemsize,
    "ROW_SIZE": ROW.itemsize,
    "ROWS": ROWS,
    "ADDRESS_CHUNK": ADDRESS_CHUNK,
    "COUNTERS": "'<" + f"I{COUNTER}" * COUNTERS + "'",
    "LAST_NUMBER": NUMBER_MASK,
    "PENDING": int(State.PENDING),
    "COMMITTED": int(State.COMMITTED),
    "RELEASED": int(State.RELEASED),
}


@attrs.frozen
class Script:
    """A script as the server knows it."""

    text: bytes
    sha: bytes


@cache
def script(name: str) -> Script:
    """A script by the name of its file, with the common part before it."""
    folder = files("dedup_middleware.index")
    constants = "".join(f"local {key} = {value}\n" for key, value in _CONSTANTS.items())
    text = constants + "".join(
        (folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name)
    )
    raw = text.encode()
    return Script(raw, hashlib.sha1(raw, usedforsecurity=False).hexdigest().encode())
