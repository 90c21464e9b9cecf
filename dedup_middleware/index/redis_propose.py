"""Many pages proposed in one call of ``propose.lua``: what is sent, what is made of the answer."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import DedupError
from dedup_middleware.index.base import Claim, Proposal, Proposed
from dedup_middleware.index.records import (
    REMAINDER_BITS,
    WIDE_REMAINDER_BITS,
    Satellites,
    split_stamps,
)
from dedup_middleware.index.redis_link import Call, RedisLink
from dedup_middleware.index.redis_scripts import RowLayout, script, strange_stamps, text_of
from dedup_middleware.index.tables import NOBODY, SIMHASH_TABLES, Neighbours, Slots
from dedup_middleware.index.window import Moment, Window

TOKEN = 8  # bytes
_FIRST_WIDE = SIMHASH_TABLES[0] << 16
_BEHIND_WIDE = (SIMHASH_TABLES[-1] + 1) << 16
_NARROW_HEAD, _WIDE_HEAD = REMAINDER_BITS // 8, WIDE_REMAINDER_BITS // 8  # bytes
_ZERO, _PROBE = ord("0"), 16
_ONE, _TABLE, _BYTES = np.uint64(1), np.uint64(16), np.arange(8)
_READ_FOR_YOURSELF, _FULL = 6, 7  # bytes of an answer


@attrs.frozen(eq=False)
class Request:
    """Keys and arguments for some pages, and what it takes to understand the answers."""

    keys: list[bytes]
    arguments: list[bytes]
    heads: NDArray[np.uint64]  # of every wide bucket
    owners: list[int]  # of every wide bucket: its page
    bits: list[int]  # of every wide bucket: its table, as one bit
    tables: list[list[int]]  # of every page: the table of each of its slots, as one bit
    tokens: bytes


def request(
    pages: Sequence[Proposed], prefix: bytes, moment: Moment, layout: RowLayout, *, windowed: bool
) -> Request:
    """What to send for some pages; the slots of all are turned into bytes in one go.

    :param prefix: of every key of the namespace
    :param windowed: whether the names of buckets end with a generation
    """
    generations = len(moment.live)
    slots = [page.slots for page in pages]
    words = np.concatenate([Slots.of(one).words for one in slots])
    buckets, heads = words[::2], words[1::2]
    wide = (buckets >= _FIRST_WIDE) & (buckets < _BEHIND_WIDE)
    widths = np.where(wide, _WIDE_HEAD, _NARROW_HEAD)
    cuts = [0, *np.cumsum(widths).tolist()]
    # Big-endian numbers of 4 bytes, of which the last three are the name.
    raw = np.ascontiguousarray(buckets, ">u4").tobytes()
    keys = [prefix + raw[i + 1 : i + 4] for i in range(0, len(raw), 4)]
    wanted = widths[:, None] > _BYTES
    heads_raw = np.ascontiguousarray(heads, "<u8").view(np.uint8).reshape(-1, 8)[wanted].tobytes()
    sizes = (widths + _ZERO).astype(np.uint8).tobytes()
    tables = (_ONE << (buckets >> _TABLE)).tolist()
    tokens = secrets.token_bytes(TOKEN * len(pages))
    arguments: list[bytes] = []
    own: list[list[int]] = []
    counts: list[int] = []
    start = 0
    for i, page in enumerate(pages):
        entry, count = page.entry, len(slots[i])
        counts.append(count)
        stop = start + count
        size = sizes[start:stop]
        if page.probes:
            written = len(entry.slots)
            size = size[:written] + bytes(one + _PROBE for one in size[written:])
        arguments += (
            tokens[TOKEN * i : TOKEN * (i + 1)] + layout.record.pack_one(entry.content),
            size,
            heads_raw[cuts[start] : cuts[stop]],
            text_of(entry, layout.record),
        )
        own.append(tables[start:stop])
        start = stop
    of_page = np.repeat(np.arange(len(pages)), counts)[wide]
    if windowed:
        ends = [one.to_bytes(4, "big") for one in reversed(moment.live)]
        starts = np.cumsum([0, *counts]).tolist()
        keys = [
            name + end
            for start, count in zip(starts, counts, strict=False)
            for end in ends
            for name in keys[start : start + count]
        ]
    return Request(
        keys,
        arguments,
        np.repeat(heads[wide], generations),
        np.repeat(of_page, generations).tolist(),
        np.repeat(_ONE << (buckets[wide] >> _TABLE), generations).tolist(),
        own,
        tokens,
    )


async def propose(
    link: RedisLink,
    pages: Sequence[Proposed],
    prefix: bytes,
    moment: Moment,
    layout: RowLayout,
    window: Window,
) -> Sequence[Proposal | Exception] | int:
    """Propose some pages in one call.

    :returns: an answer for each (an error is everybody's), or the generation of the server's
        clock, if it is another one than that of ``moment``
    """
    sent = request(pages, prefix, moment, layout, windowed=bool(window.seconds))
    lease = max(1, round(pages[0].lease * 1000))
    ours = (lease, window.span_ms, moment.generation, len(moment.live))
    keys = [prefix + name for name in (b"leases", b"counters", b"generations")]
    call = Call((prefix, *ours, *sent.arguments), keys + sent.keys, script("propose", layout))
    try:
        answer = await link.submit(call)
    except DedupError as error:
        return [error] * len(pages)
    reply: int | list[list[bytes]] = answer.reply
    return reply if isinstance(reply, int) else proposals(reply, pages, sent, layout)


def proposals(
    answers: Sequence[Sequence[bytes]], pages: Sequence[Proposed], sent: Request, layout: RowLayout
) -> list[Proposal]:
    """What the answers of the server say of each page."""
    from dedup_middleware.index.scan import scan_answers  # numba stays lazy

    firsts = [answer[0] for answer in answers]
    made = [_claimed(raw, sent.tokens[TOKEN * i : TOKEN * (i + 1)]) for i, raw in enumerate(firsts)]
    numbers, buckets = scan_answers(firsts, sent.heads, pages[0].distance)
    near: dict[int, dict[int, int]] = {}  # page -> number of a neighbour -> its tables
    for number, bucket in zip(numbers, buckets, strict=True):
        masks = near.setdefault(sent.owners[bucket], {})
        masks[number] = masks.get(number, 0) | sent.bits[bucket]
    rows: list[bytes] = []
    told: list[_Told] = []
    for i, answer in enumerate(answers):
        one = made[i]
        if one is not None:
            if i in near:  # rows in the answer are of pages that came later
                made[i] = attrs.evolve(one, near=_neighbours(near[i], one.near.full))
        elif answer[0][_READ_FOR_YOURSELF]:
            made[i] = Proposal(None, whole=False)
        else:
            told.append(_tell(i, answer, sent.tables[i], near.get(i, {}), rows))
    _describe(made, told, rows, layout)
    return [one for one in made if one is not None]


@attrs.frozen
class _Told:
    """What the server said of the neighbours of a page; their rows are from ``start`` on."""

    page: int
    start: int
    numbers: list[int]
    masks: dict[int, int]
    addresses: dict[int, str | None]
    full: int  # buckets


def _tell(
    i: int,
    answer: Sequence[bytes],
    tables: Sequence[int],
    masks: dict[int, int],
    rows: list[bytes],
) -> _Told:
    start = len(rows)
    numbers: list[int] = []
    addresses: dict[int, str | None] = {}
    for at in range(1, len(answer), 2):
        raw, address = answer[at], answer[at + 1]
        number, end = int.from_bytes(raw[:5], "little"), 6 + raw[5]
        mask = masks.get(number, 0)
        for place in raw[6:end]:
            mask |= tables[place - 1]
        masks[number] = mask
        numbers.append(number)
        addresses[number] = address.decode("utf-8", "replace") if address else None
        rows.append(raw[end:])
    return _Told(i, start, numbers, masks, addresses, answer[0][_FULL])


def _describe(
    made: list[Proposal | None], told: Sequence[_Told], raw: list[bytes], layout: RowLayout
) -> None:
    """Put in the proposals of pages with neighbours; the rows of all are decoded in one go."""
    size = layout.row.itemsize
    whole = [row if len(row) == size else bytes(size) for row in raw]
    rows = np.frombuffer(b"".join(whole), layout.row)
    content, (states, times) = layout.content(rows), split_stamps(rows["stamp"])
    damaged = strange_stamps(rows["stamp"]) | (np.fromiter(map(len, raw), np.int64) != size)
    any_damaged = bool(damaged.any())
    numbers = np.array([number for one in told for number in one.numbers], np.uint64)
    found = [sorted(one.masks) for one in told]
    # Of all pages in one array each: to make a small one costs as much as to cut out ten.
    near = np.array([number for one in found for number in one], np.uint64)
    masks = [one.masks[number] for one, own in zip(told, found, strict=True) for number in own]
    tables = np.array(masks, np.uint64)
    start = 0
    for one, own in zip(told, found, strict=True):
        stop = start + len(own)
        beside = Neighbours(near[start:stop], tables[start:stop], full=one.full)
        start = stop
        part = slice(one.start, one.start + len(one.numbers))
        if any_damaged and damaged[part].any():  # a plain reading counts those
            made[one.page] = Proposal(None, whole=False)
            continue
        satellites = Satellites(numbers[part], content[part], states[part], times[part])
        made[one.page] = Proposal(None, beside, satellites=satellites, addresses=one.addresses)


def _claimed(raw: bytes, token: bytes) -> Proposal | None:
    number = int.from_bytes(raw[:5], "little")
    if not number:
        return None
    return Proposal(Claim(number, int.from_bytes(token, "little")), _neighbours({}, raw[_FULL]))


def _neighbours(masks: dict[int, int], full: int) -> Neighbours:
    if not masks:
        return attrs.evolve(NOBODY, full=full) if full else NOBODY
    numbers: NDArray[np.uint64] = np.array(sorted(masks), np.uint64)
    tables = np.array([masks[n] for n in sorted(masks)], np.uint64)
    return Neighbours(numbers, tables, full=full)


KEYS = 2000  # named by one call: twice as many values must fit on Lua's stack


def batches(pages: Sequence[Proposed], generations: int) -> list[list[Proposed]]:
    """Pages in groups of one lease, one distance and at most so many keys."""
    groups: list[list[Proposed]] = []
    room = 0
    alike: tuple[float, int] | None = None
    for page in pages:
        keys = len(page.slots) * generations
        if keys > room or (page.lease, page.distance) != alike:
            groups.append([])
            room, alike = KEYS, (page.lease, page.distance)
        groups[-1].append(page)
        room -= keys
    return groups
