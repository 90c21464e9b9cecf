"""Proposals of many pages in one call of ``propose.lua``: encode the request, decode the reply."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import bytes_of
from dedup_middleware.index.redis.expiry import hash_of
from dedup_middleware.index.redis.scripts import (
    RowLayout,
    claimed_row,
    read_rows,
    split_text,
    text_or_none,
)
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    EXACT_TABLE,
    FIRST_BAND_TABLE,
    FIRST_SIMHASH,
    KEY_TABLE,
    LAST_SIMHASH,
    BucketKeys,
    Neighbours,
)
from dedup_middleware.model.claims import (
    MOST_KNOWN,
    NO_CANDIDATES,
    NOTHING_KNOWN,
    Candidates,
    Claim,
    Claimed,
    Proposed,
)
from dedup_middleware.model.records import (
    BAND_SUFFIX_BYTES,
    PAGE_ID_BYTES,
    PAGE_ID_MASK,
    SIMHASH_SUFFIX_BYTES,
    PageRecords,
    State,
    chosen,
    split_stamps,
)

TOKEN = 8  # bytes
_ZERO, _PROBE, _TWIN = ord("0"), 16, 32  # terms of the sizes sent, see propose.lua
_KEY = 1 << KEY_TABLE
_ONE, _TABLE, _BYTES = np.uint64(1), np.uint64(16), np.arange(8)
_PAGE_ID = np.uint64(PAGE_ID_MASK)
_MORE, _EXACT, _FULL_MOST = 64, 128, 63  # flags, and mask of the count, in the byte _HOW below
_WANTED = 128  # maximum number of page records requested with a proposal
PORTION = 32  # pages whose replies are decoded before control returns to the event loop
# Offsets in the eight bytes of a page in a reply, whose first five are the page id: number of rows;
# flags and number of full buckets; bytes that belong to no record.
_ROWS, _HOW, _CORRUPT = 5, 6, 7


@attrs.frozen(eq=False)
class Request:
    """Keys and arguments of a call for some pages, and the data needed to decode the reply."""

    keys: list[bytes]  # names of the bucket hashes
    arguments: list[bytes]
    suffixes: NDArray[np.uint64]  # for each SimHash bucket: suffix, table as one bit
    simhash_counts: NDArray[np.int64]  # number of SimHash buckets per page
    tables: NDArray[np.uint64]  # for each bucket key of all pages: its table, as one bit
    counts: list[int]  # number of bucket keys per page
    tokens: bytes


def new_tokens(pages: Sequence[Proposed]) -> bytes:
    """A random token for each page, by which a retried call finds the claim it made before."""
    return secrets.token_bytes(TOKEN * len(pages))


def request(
    pages: Sequence[Proposed],
    tokens: bytes,
    prefix: bytes,
    ends: Sequence[bytes],
    layout: RowLayout,
) -> Request:
    """Encode the proposals of some pages; NumPy encodes their bucket keys together.

    :param tokens: see :func:`new_tokens`
    :param ends: suffixes of the hashes' names, the newest generation first
    """
    every = [BucketKeys.of(page.bucket_keys).words for page in pages]
    words = np.concatenate(every)
    counts = [len(one) // 2 for one in every]
    buckets, suffixes = words[::2], words[1::2]
    table_numbers = buckets >> _TABLE
    of_simhashes = (table_numbers >= FIRST_SIMHASH) & (table_numbers <= LAST_SIMHASH)
    widths = np.where(of_simhashes, SIMHASH_SUFFIX_BYTES, BAND_SUFFIX_BYTES)
    wanted = widths[:, None] > _BYTES
    suffixes_raw = bytes_of(suffixes)[wanted].tobytes()
    kinds = table_numbers.astype(np.uint8).tobytes()
    held, places = _each_once(buckets)
    table_counts = np.bincount((held >> _TABLE).astype(np.int64))
    places -= (table_counts.cumsum() - table_counts)[table_numbers]
    own_tables = table_counts.nonzero()[0].tolist()
    own_raw = (np.searchsorted(own_tables, table_numbers) + 1).astype(np.uint8).tobytes()
    sizes_raw = (widths + _ZERO).astype(np.uint8).tobytes()
    record, settles_exact = layout.record, layout.settles_exact
    settles = False
    pages_sent: list[bytes] = []
    start = 0
    for page, count in zip(pages, counts, strict=True):
        entry = page.entry
        end = start + count
        kind, size, own = kinds[start:end], sizes_raw[start:end], own_raw[start:end]
        if page.probes:
            written = len(entry.bucket_keys)
            size = size[:written] + bytes(one + _PROBE for one in size[written:])
        if (
            settles_exact
            and entry.exact
            # The page is in the key table and the first band table, but not in the exact table.
            and (kind[0] == KEY_TABLE and FIRST_BAND_TABLE in kind and EXACT_TABLE not in kind)
        ):
            size = bytes((size[0] + _TWIN,)) + size[1:]
            settles = True
        row, text = claimed_row(entry, record)
        pages_sent += (row, size + own, text)
        start = end
    # Positions, counted from 1, of the tables by which exact copies are found.
    settling = (KEY_TABLE, FIRST_BAND_TABLE) if settles else ()
    anchored = [own_tables.index(one) + 1 for one in own_tables if one in ANCHOR_TABLES] or [0]
    special_tables = bytes(own_tables.index(one) + 1 for one in settling) or bytes(2)
    special_tables += bytes((anchored[0], anchored[-1]))
    behind = np.cumsum(counts)
    simhashes_before = np.concatenate(([0], np.cumsum(of_simhashes)))
    return Request(
        [hash_of(prefix, table, end) for end in ends for table in own_tables],
        [
            special_tables + table_counts[own_tables].astype("<u2").tobytes(),
            held.astype(">u2").tobytes(),
            tokens,
            suffixes_raw,
            places.astype("<u2").tobytes(),
            _known(pages, layout),
            *pages_sent,
        ],
        np.repeat(
            np.column_stack((suffixes[of_simhashes], _ONE << table_numbers[of_simhashes])),
            len(ends),
            0,
        ).ravel(),
        np.diff(simhashes_before[behind], prepend=0) * len(ends),
        _ONE << table_numbers,
        counts,
        tokens,
    )


def _each_once(buckets: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The distinct buckets, ascending, and the position of each input among them, from 1.

    >>> held, places = _each_once(np.array([7, 3, 7], np.uint64))
    >>> held.tolist(), places.tolist()
    ([3, 7], [2, 1, 2])
    """
    order = buckets.argsort()
    ascending = buckets[order]
    first = np.empty(len(buckets), np.bool_)
    first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    places = np.empty(len(buckets), np.int64)
    places[order] = first.cumsum()
    return ascending[first], places


def _known(pages: Sequence[Proposed], layout: RowLayout) -> bytes:
    """Encode the known pages of each proposal for ``propose.lua``."""
    parts: list[bytes] = []
    for own, page in enumerate(pages, 1):
        if page.known is NOTHING_KNOWN or not page.known:
            continue
        judged, wanted = page.known.pages, page.known.wanted[:_WANTED]
        suffix = (own, 2), (page.known.upto, PAGE_ID_BYTES), (len(judged), 2), (len(wanted), 2)
        parts += [value.to_bytes(size, "little") for value, size in suffix]
        if len(judged):
            kept = np.ascontiguousarray(layout.record.pack(judged.content)).view(np.uint8)
            tails = kept.reshape(len(judged), -1)[:, -layout.known_tail :]
            gone = (judged.states == State.RELEASED) | (judged.states == State.FREE)
            flags = (_ZERO + gone.astype(np.uint8))[:, None]
            parts.append(np.hstack((_ids(judged.page_ids), tails, flags)).tobytes())
        parts.append(_ids(wanted).tobytes())
    return b"".join(parts)


def _ids(page_ids: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return bytes_of(page_ids)[:, :PAGE_ID_BYTES]


def proposals(
    reply: Sequence[Any],
    pages: Sequence[Proposed],
    sent: Request,
    layout: RowLayout,
    note: Callable[[int, int], None] = lambda _damaged, _scanned: None,
) -> Iterator[Claimed | Candidates]:
    """Decode the server's reply lazily, one page at a time; calls ``note`` with the number of
    damaged page records and of SimHash records compared."""
    from dedup_middleware.index.scan import scan_answers  # numba stays lazy

    results, simhash_buckets, neighbour_rows = reply
    own = np.frombuffer(results, np.uint64) & _PAGE_ID
    places: list[bytes] = []
    rows: list[bytes] = []
    texts: list[bytes] = []
    at = 0
    for count in results[_ROWS::8]:
        if count:
            stop = at + 1 + 2 * count
            places.append(neighbour_rows[at])
            rows += neighbour_rows[at + 1 : stop : 2]
            texts += neighbour_rows[at + 2 : stop : 2]
            at = stop
        else:
            places.append(b"")
    found = scan_answers(
        own,
        simhash_buckets,
        sent.suffixes,
        sent.simhash_counts,
        places,
        sent.tables,
        np.array(sent.counts, np.int64),
        pages[0].distance,
    )
    starts, row_starts = found.starts, found.row_starts
    order = found.rows[: len(rows)]
    raw, damaged = read_rows(rows, layout)
    note(damaged, found.scanned)
    raw = raw[order]
    met = found.met[: len(rows)]
    described = PageRecords(met, layout.content(raw), *split_stamps(raw["stamp"]))
    split = [split_text(rows[row], texts[row], layout) for row in order.tolist()]
    for i, page_id in enumerate(own.tolist()):
        how, corrupt = results[8 * i + _HOW], results[8 * i + _CORRUPT]
        part = slice(starts[i], starts[i + 1])
        if how & _EXACT:  # equal texts have equal bucket keys in all tables but the key table
            end = sum(sent.counts[: i + 1])
            own_tables = sent.tables[end - sent.counts[i] : end]
            found.tables[part] = np.bitwise_or.reduce(own_tables) & ~np.uint64(_KEY)
        candidates = NO_CANDIDATES
        if part.stop > part.start or how or corrupt:
            rows_of = slice(row_starts[i], row_starts[i + 1])
            page_records = chosen(described, rows_of)
            known = pages[i].known
            page_ids, tables = found.page_ids[part], found.tables[part]
            if known and len(page_ids) > len(page_records):
                keep = ~np.isin(page_ids, known.pages.page_ids) & (page_ids > np.uint64(known.upto))
                keep |= np.isin(page_ids, page_records.page_ids)
                page_ids, tables = page_ids[keep], tables[keep]
            neighbours = Neighbours(page_ids, tables, corrupt, how & _FULL_MOST)
            texts_of = dict(zip(page_records.page_ids.tolist(), split[rows_of], strict=True))
            candidates = Candidates(
                neighbours,
                page_records,
                {one: text_or_none(address) for one, (address, _) in texts_of.items()},
                {one: payload for one, (_, payload) in texts_of.items()},
                more=bool(how & _MORE),
            )
        if page_id:
            token = int.from_bytes(sent.tokens[TOKEN * i : TOKEN * (i + 1)], "little")
            yield Claimed(Claim(page_id, token), candidates)
        else:
            yield candidates


BUCKETS = 2000  # maximum buckets per call: their fields and values must fit on Lua's stack


def batches(
    pages: Sequence[Proposed], generations: int, most: int = BUCKETS
) -> list[list[Proposed]]:
    """Split pages into groups with equal lease and distance and bounded buckets and known pages.

    :param generations: number of generations in which each bucket is read
    :param most: maximum number of buckets in a group
    """
    groups: list[list[Proposed]] = []
    buckets_left = known_left = 0
    alike: tuple[float, int] | None = None
    for page in pages:
        buckets = len(page.bucket_keys) * generations
        some = len(page.known.pages)
        full = buckets > buckets_left or some > known_left
        if full or (page.lease, page.distance) != alike:
            groups.append([])
            buckets_left, known_left, alike = most, MOST_KNOWN, (page.lease, page.distance)
        groups[-1].append(page)
        buckets_left -= buckets
        known_left -= some
    return groups
