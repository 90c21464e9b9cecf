"""Signatures that are one digest: two pages are duplicates when it is equal."""

from __future__ import annotations

import hashlib

from dedup_middleware.fingerprint import keyed_hash
from dedup_middleware.methods.reading import Signature

DIGEST_BYTES = 16


def md5(text: str) -> bytes:
    """MD5 of the text in UTF-8, 16 bytes; lone surrogates are no error."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.md5(data, usedforsecurity=False).digest()


def digest_key(digest: bytes, hash_key: int) -> int:
    """64-bit key of a digest; who does not know ``hash_key`` can't aim at a bucket."""
    return keyed_hash(digest.hex(), hash_key)


def digest_signature(digest: bytes, hash_key: int, rest: bytes = b"") -> Signature:
    """One key in group 0; payload: the digest (16 bytes), then ``rest``."""
    return Signature(((0, digest_key(digest, hash_key)),), digest + rest)


def same_digest(a: Signature, b: Signature) -> float:
    """1.0 if the first 16 bytes of the payloads are equal, else 0.0."""
    return float(a.payload[:DIGEST_BYTES] == b.payload[:DIGEST_BYTES])
