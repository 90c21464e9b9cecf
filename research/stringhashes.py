"""The eight string hashes of the survey, and how often they collide.

網頁排重演算法, a survey of fingerprint rules (2009), hashed 1000 documents, 419 of them copies of
others, and counted 543 to 601 collisions. A good 32-bit hash would give 419: each copy collides
with its original, and two of 581 texts collide once in 25,000 experiments. A table of 1024 slots,
in which an ideal hash gives 556.5 +- 8, explains three of the counts (JS, SDBM, AP); the other five
are 3.4 to 5.5 standard deviations above it, so the survey's table is not reproduced. The functions
are those of A. Partow's General Purpose Hash Function Algorithms.

Each takes bytes and the number of bits of its word, 32 or 64.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final

import attrs

DOCUMENTS: Final = 1000
DUPLICATES: Final = 419
SLOTS: Final = 1024

StringHash = Callable[[bytes, int], int]


def elf_hash(data: bytes, bits: int = 32) -> int:
    """ELF, of the object format of UNIX System V."""
    high = 0xF << bits - 4
    value = 0
    for byte in data:
        value = (value << 4) + byte & (1 << bits) - 1
        top = value & high
        value = (value ^ top >> bits - 8) & ~top
    return value


def rs_hash(data: bytes, bits: int = 32) -> int:
    """RS, of R. Sedgewick: Algorithms in C."""
    mask = (1 << bits) - 1
    value, factor = 0, 63689
    for byte in data:
        value = value * factor + byte & mask
        factor = factor * 378551 & mask
    return value


def js_hash(data: bytes, bits: int = 32) -> int:
    """JS, of J. Sobel."""
    mask = (1 << bits) - 1
    value = 1315423911
    for byte in data:
        value ^= (value << 5) + byte + (value >> 2) & mask
    return value


def pjw_hash(data: bytes, bits: int = 32) -> int:
    """PJW, of P. J. Weinberger."""
    eighth = bits // 8
    high = (1 << eighth) - 1 << bits - eighth
    value = 0
    for byte in data:
        value = (value << eighth) + byte & (1 << bits) - 1
        top = value & high
        if top:
            value = (value ^ top >> bits * 3 // 4) & ~high
    return value


def bkdr_hash(data: bytes, bits: int = 32) -> int:
    """BKDR, of B. Kernighan and D. Ritchie: The C programming language."""
    value = 0
    for byte in data:
        value = value * 131 + byte & (1 << bits) - 1
    return value


def sdbm_hash(data: bytes, bits: int = 32) -> int:
    """SDBM, of the database of that name: factor 65599."""
    value = 0
    for byte in data:
        value = byte + (value << 6) + (value << 16) - value & (1 << bits) - 1
    return value


def djb_hash(data: bytes, bits: int = 32) -> int:
    """DJB, of D. J. Bernstein: factor 33."""
    value = 5381
    for byte in data:
        value = (value << 5) + value + byte & (1 << bits) - 1
    return value


def ap_hash(data: bytes, bits: int = 32) -> int:
    """AP, of A. Partow."""
    mask = (1 << bits) - 1
    value = 0xAAAAAAAA
    for i, byte in enumerate(data):
        if i & 1:
            value ^= ~((value << 11) + (byte ^ value >> 5)) & mask
        else:
            value ^= (value << 7 ^ byte * (value >> 3)) & mask
    return value


def ideal_hash(data: bytes, bits: int = 64) -> int:
    """An ideal hash (BLAKE2b) for comparison."""
    return int.from_bytes(blake2b(data, digest_size=bits // 8).digest(), "little")


STRING_HASHES: Final[dict[str, StringHash]] = {
    "ELF": elf_hash,
    "RS": rs_hash,
    "JS": js_hash,
    "PJW": pjw_hash,
    "BKDR": bkdr_hash,
    "SDBM": sdbm_hash,
    "DJB": djb_hash,
    "AP": ap_hash,
}
PUBLISHED: Final = {
    "ELF": 594,
    "RS": 584,
    "JS": 546,
    "PJW": 594,
    "BKDR": 601,
    "SDBM": 546,
    "DJB": 595,
    "AP": 543,
}


def documents(seed: int, count: int = DOCUMENTS, duplicates: int = DUPLICATES) -> list[bytes]:
    """Return random texts in UTF-8, ``duplicates`` of them copies of others."""
    draw = random.Random(seed)
    originals = [
        "".join(
            chr(draw.randrange(0x4E00, 0x9FA6)) for _ in range(draw.randrange(60, 120))
        ).encode()
        for _ in range(count - duplicates)
    ]
    every = originals + draw.choices(originals, k=duplicates)
    draw.shuffle(every)
    return every


def collisions(hashes: Sequence[int], slots: int | None = None) -> int:
    """Return the number of documents whose slot in the table is taken.

    :param hashes: one per document
    :param slots: size of the table; None: one slot per hash value

    >>> collisions([1, 5, 9, 5], slots=4), collisions([1, 5, 9, 5])
    (3, 1)
    """
    values: Iterable[int] = hashes if slots is None else (value % slots for value in hashes)
    return len(hashes) - len(set(values))


def expected_collisions(
    slots: int, count: int = DOCUMENTS, duplicates: int = DUPLICATES
) -> tuple[float, float]:
    """Return mean and standard deviation of an ideal hash's collisions.

    n different texts leave a slot of m empty with probability (1 - 1/m)**n.

    >>> [round(value, 1) for value in expected_collisions(1024)]
    [556.5, 8.0]
    """
    texts = count - duplicates
    one = (1 - 1 / slots) ** texts
    two = (1 - 2 / slots) ** texts
    variance = slots * one + slots * (slots - 1) * two - (slots * one) ** 2
    return count - slots * (1 - one), math.sqrt(max(0.0, variance))


@attrs.frozen
class CollisionRow:
    """Collisions of one hash: published, in a table of 1024 slots, and of whole hash values.

    ``published`` is None for the ideal hash; a good hash has one ``whole`` collision per copy.
    """

    name: str
    published: int | None
    table: int
    whole_32: int
    whole_64: int


def collision_table(seed: int = 0) -> list[CollisionRow]:
    """Repeat the survey's experiment with our own documents; the ideal hash comes last."""
    texts = documents(seed)
    rows = []
    for name, function in {**STRING_HASHES, "ideal": ideal_hash}.items():
        short = [function(text, 32) for text in texts]
        long = [function(text, 64) for text in texts]
        row = CollisionRow(
            name=name,
            published=PUBLISHED.get(name),
            table=collisions(short, SLOTS),
            whole_32=collisions(short),
            whole_64=collisions(long),
        )
        rows.append(row)
    return rows
