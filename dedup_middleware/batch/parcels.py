"""Rows and fingerprints on their way between processes: many at once, and field by field.

An object a page would cost more to send than a page costs to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.batch.rows import Row
from dedup_middleware.batch.signing import Signed, Signer
from dedup_middleware.fingerprint import Fingerprint
from dedup_middleware.options import Options

_LEFT_OUT = "minhash"  # the minima have served their purpose, and would be most of it
_ARRAYS = ("sketch", "bands", "figures", "clauses")
_PLAIN = tuple(
    field.name for field in attrs.fields(Fingerprint) if field.name not in (_LEFT_OUT, *_ARRAYS)
)
_NO_MINIMA = np.empty(0, np.uint32)


@attrs.frozen
class Parcel:
    """What was made of the rows of a part.

    ``rows`` are key, title, text, error and whether there is a page, of each row; ``plain`` are
    the fields of all pages that are no arrays, ``arrays`` the others.
    """

    rows: list[tuple[str, str, str | None, str, bool]]
    plain: list[list[Any]]
    arrays: list[NDArray[Any]]


def raw_rows(rows: Sequence[Row]) -> list[Any]:
    """Rows as they are sent to a worker: what a row holds, or the row if that can't be read."""
    return [row if row.error else row.raw for row in rows]


def sent_row(raw: Any) -> Row:
    """A row as it came from :func:`raw_rows`; its number stays behind."""
    return raw if isinstance(raw, Row) else Row(0, raw)


def pack(signed: Sequence[Signed]) -> Parcel:
    """Rows that are understood, to be sent; the minima of their pages are left out."""
    pages = [one.page for one in signed if one.page is not None]
    return Parcel(
        [(one.key, one.title, one.text, one.error, one.page is not None) for one in signed],
        [[getattr(page, name) for page in pages] for name in _PLAIN],
        [np.array([getattr(page, name) for page in pages]) for name in _ARRAYS],
    )


def unpack(parcel: Parcel) -> list[Signed]:
    """The rows that were packed, in their order."""
    columns = (*parcel.plain, *map(list, parcel.arrays))
    names = (*_PLAIN, *_ARRAYS)
    pages = (
        Fingerprint(minhash=_NO_MINIMA, **dict(zip(names, values, strict=True)))
        for values in zip(*columns, strict=True)
    )
    return [
        Signed(key, title, text, next(pages) if has_page else None, error)
        for key, title, text, error, has_page in parcel.rows
    ]


@cache
def _signer(options: Options, hash_key: int, texts: bool) -> Signer:
    """One for each worker process: it loads the dictionary."""
    return Signer(options, hash_key, texts=texts)


def sign_rows(options: Options, hash_key: int, texts: bool, raws: Sequence[Any]) -> Parcel:
    """Called in a worker process for each part of the input.

    :param raws: rows as :func:`raw_rows` gives them
    """
    signer = _signer(options, hash_key, texts)
    return pack([signer(sent_row(raw)) for raw in raws])
