"""Where the buckets of a namespace are.

Those of one table (and generation) are the fields of one hash. A field takes less of the server's
memory than a key and is found with fewer looks into it. A bucket of more than 4 KB is a key of its
own, named by hash and field, which can be appended to; its field is empty then.
"""

from __future__ import annotations

import attrs

FIELD = 2  # bytes of the name of a field: the prefix that names the bucket
_HASH = b"b"
_GENERATION = 4


def hash_of(prefix: bytes, table: int, end: bytes = b"") -> bytes:
    """The hash in which the buckets of a table are.

    :param prefix: of every key of the namespace
    :param end: see :func:`end_of`; empty in an index without window
    """
    return prefix + _HASH + bytes((table,)) + end


def end_of(generation: int) -> bytes:
    """What the name of a hash says of its generation."""
    return generation.to_bytes(_GENERATION, "big")


def field_of(bucket: int) -> bytes:
    """The field of a bucket in the hash of its table."""
    return (bucket & 0xFFFF).to_bytes(FIELD, "big")


@attrs.frozen
class Held:
    """What a key holds: all buckets of a table, or a large one (that of a field)."""

    table: int
    generation: int  # 0 in an index without window
    field: bytes = b""


def held_by(name: bytes, prefix: bytes, *, windowed: bool) -> Held | None:
    r"""What a key of the namespace holds; None: no buckets.

    >>> held_by(hash_of(b"{a}", 2, end_of(7)), b"{a}", windowed=True)
    Held(table=2, generation=7, field=b'')
    >>> held_by(hash_of(b"{a}", 2) + field_of(0x20041), b"{a}", windowed=False)
    Held(table=2, generation=0, field=b'\x00A')
    >>> held_by(b"{a}counters", b"{a}", windowed=False) is None
    True
    """
    rest = name[len(prefix) :]
    size = len(_HASH) + 1 + (_GENERATION if windowed else 0)
    if rest[:1] != _HASH or len(rest) not in (size, size + FIELD):
        return None
    return Held(rest[1], int.from_bytes(rest[2:size], "big"), rest[size:])
