"""Keyed hashes of names: without the key of an index, no one can aim at one of its buckets."""

from __future__ import annotations

from hashlib import blake2b


def keyed_hash(text: str, hash_key: int) -> int:
    """Keyed 64-bit hash of a name (BLAKE2b); lone surrogates are no error."""
    digest = blake2b(
        text.encode("utf-8", "surrogatepass"),
        digest_size=8,
        key=hash_key.to_bytes(8, "little"),
    )
    return int.from_bytes(digest.digest(), "little")


def short_hash(text: str, hash_key: int) -> int:
    """:func:`keyed_hash` in 16 bits, 1 to 65535; 0 for no text."""
    return max(1, keyed_hash(text, hash_key) & 0xFFFF) if text else 0
