"""Agreeing on the parameters of the fingerprints when an index is opened."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from dedup_middleware.base.errors import IndexRefusedError, IndexReplacedError
from dedup_middleware.index.base import Parameters, differences
from dedup_middleware.index.record_layout import RECORD, record_parameter

#: layout of keys, tables and records, of every back end; an index keeps it and is refused by others
SCHEMA = 4
HASH_KEY = "hash_key"

# Warnings; they take the index as the user knows it, without its password.
EMPTIED = (
    "The index at %s was emptied, removed or replaced while it was in use; it goes on with the "
    "same key. Pages that are not in it any more are stored once more when they come again."
)
REPLACED = (
    "The index at %s is another one than before, with another key; the crawl goes on with it. "
    "Pages that are not in it are stored once more when they come again."
)


def replaced(where: str) -> IndexReplacedError:
    """What to say when another index was set up in the place of the one that was opened."""
    return IndexReplacedError(
        f"the index at {where} is another one than before, with another key: open it again"
    )


def complete(parameters: Parameters) -> dict[str, str]:
    """What a new index stores: the parameters, with a random ``hash_key`` unless one is given."""
    return {HASH_KEY: secrets.token_hex(16), **parameters}


def agree(stored: Mapping[str, str], wanted: Parameters, where: str) -> dict[str, str]:
    """The stored parameters, if the settings ask for the same ones.

    :param where: the index as the user knows it, without its password
    :raises IndexRefusedError: names each difference and the way out
    """
    _check_texts(stored, where)
    check_hash_key(stored, where)
    # The key is the index's own: one that is given counts for a new index only.
    lines = _lines(_keyless(stored), _keyless(wanted))
    if lines:
        raise IndexRefusedError(
            f"the index at {where} was made with other parameters:\n  "
            + "\n  ".join(lines)
            + "\nRestore these settings (what is none of them belongs to the version of "
            "dedup-middleware that made the index), or use another index (DEDUP_NAMESPACE or "
            "DEDUP_INDEX_URL), or remove the index. `scrapy dedup rebuild` makes another one of "
            "the pages that are stored; where the window alone differs, `scrapy dedup import "
            "ADDRESS`, with the address of this one, carries all pages over to another one."
        )
    return dict(stored)


def _lines(stored: Parameters, wanted: Parameters) -> list[str]:
    return [f"{line}{_setting_of(line.partition(':')[0])}" for line in differences(stored, wanted)]


def other_parameters(stored: Parameters, wanted: Parameters) -> list[str]:
    """Lines that name each parameter by which pages of two indexes can't be compared.

    Hash key, window, number of parts, and whether addresses are kept may differ.
    """
    return _lines(_of_pages(stored), _of_pages(wanted))


def _of_pages(parameters: Parameters) -> dict[str, str]:
    """Parameters of the pages, without those of one index."""
    found = {
        name: text
        for name, text in record_parameter(parameters).items()
        if name not in {HASH_KEY, "window", "parts"}
    }
    return {**found, RECORD: found[RECORD].removesuffix(" text")}


# What each parameter is made of; all others belong to the version.
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


def _setting_of(parameter: str) -> str:
    return f" ({_SETTINGS[parameter]})" if parameter in _SETTINGS else ""


def _check_texts(stored: Mapping[Any, Any], where: str) -> None:
    """Refuse parameters that are no texts; SQLite keeps values of any type in any column.

    :raises IndexRefusedError: names them and the way out; the value of the key is not shown
    """
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


def check_hash_key(parameters: Mapping[str, str], where: str) -> None:
    """Refuse parameters whose key can't be one; the message does not show it.

    :param where: the index or file as the user knows it, without its password
    :raises IndexRefusedError: says so
    """
    key = parameters.get(HASH_KEY, "")
    if not re.fullmatch("[0-9a-fA-F]{1,32}", str(key)):  # SQLite may hold bytes in its place
        raise IndexRefusedError(
            f"{where} has no usable hash_key ({HASH_KEY} is "
            f"{'not a hexadecimal number of 1 to 32 digits' if key else 'gone'}), so its pages "
            "can't be compared with new ones: it is damaged or was changed. Restore a copy, or "
            "begin a new index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)."
        )


def _keyless(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name != HASH_KEY}


def check_schema(found: str, where: str) -> None:
    """Refuse an index laid out in a way this version does not know.

    :raises IndexRefusedError: names both schemas and the way out
    """
    if found != str(SCHEMA):
        raise IndexRefusedError(
            f"the index at {where} has schema {found!r}, this version of dedup-middleware knows "
            f"schema {SCHEMA}: use the version that made it, or another index (DEDUP_NAMESPACE "
            "or DEDUP_INDEX_URL)."
        )


def missing(where: str) -> IndexRefusedError:
    """What to say when an index that should exist does not."""
    return IndexRefusedError(
        f"there is no index at {where}: name the one that a crawl has made (DEDUP_INDEX_URL)"
    )
