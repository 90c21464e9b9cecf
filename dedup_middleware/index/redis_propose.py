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
from dedup_middleware.index.tables import NOBODY, SIMHASH_TABLES, Neighbours, Slot, Slots
from dedup_middleware.index.window import Moment, Window

TOKEN = 8  # bytes
_FIRST_WIDE = SIMHASH_TABLES[0] << 16
_BEHIND_WIDE = (SIMHASH_TABLES[-1] + 1) << 16
_NARROW_HEAD, _WIDE_HEAD = REMAINDER_BITS // 8, WIDE_REMAINDER_BITS // 8  # bytes
_ZERO, _PROBE = ord("0"), 16
_READ_FOR_YOURSELF, _FULL = 6, 7  # bytes of an answer


@attrs.frozen(eq=False)
class Request:
    """Keys and arguments for some pages, and what it takes to understand the answers."""

    keys: list[bytes]
    arguments: list[bytes]
    heads: list[int]  # of every wide bucket
    owners: list[tuple[int, int]]  # of every wide bucket: its page, its table
    tokens: bytes


def request(
    pages: Sequence[Proposed], prefix: bytes, moment: Moment, layout: RowLayout, *, windowed: bool
) -> Request:
    """What to send for some pages.

    :param prefix: of every key of the namespace
    :param windowed: whether the names of buckets end with a generation
    """
    keys: list[bytes] = []
    arguments: list[bytes] = []
    heads: list[int] = []
    owners: list[tuple[int, int]] = []
    generations = len(moment.live)
    ends = [one.to_bytes(4, "big") for one in reversed(moment.live)] if windowed else [b""]
    tokens = secrets.token_bytes(TOKEN * len(pages))
    for i, page in enumerate(pages):
        entry, slots = page.entry, page.slots
        numbers = iter(Slots.of(slots).words.tolist())
        sizes = bytearray()
        parts: list[bytes] = []
        for bucket, head in zip(numbers, numbers, strict=True):
            keys.append(prefix + bucket.to_bytes(3, "big"))
            if _FIRST_WIDE <= bucket < _BEHIND_WIDE:
                sizes.append(_ZERO + _WIDE_HEAD)
                parts.append(head.to_bytes(_WIDE_HEAD, "little"))
                for _ in range(generations):
                    heads.append(head)
                    owners.append((i, bucket >> 16))
            else:
                sizes.append(_ZERO + _NARROW_HEAD)
                parts.append(head.to_bytes(_NARROW_HEAD, "little"))
        if windowed:
            names = keys[-len(slots) :]
            del keys[-len(slots) :]
            keys += [name + end for end in ends for name in names]
        for place in range(len(entry.slots), len(slots)):
            sizes[place] += _PROBE
        token = tokens[TOKEN * i : TOKEN * (i + 1)]
        content = token + layout.record.pack_one(entry.content)
        text = text_of(entry, layout.record)
        arguments += (content, bytes(sizes), b"".join(parts), text)
    return Request(keys, arguments, heads, owners, tokens)


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
        page, table = sent.owners[bucket]
        masks = near.setdefault(page, {})
        masks[number] = masks.get(number, 0) | 1 << table
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
            told.append(_tell(i, answer, pages[i].slots, near.get(i, {}), rows))
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
    slots: Sequence[Slot],
    masks: dict[int, int],
    rows: list[bytes],
) -> _Told:
    told = _Told(i, len(rows), [], masks, {}, answer[0][_FULL])
    for raw, address in zip(answer[1::2], answer[2::2], strict=True):
        number, count = int.from_bytes(raw[:5], "little"), raw[5]
        mask = masks.get(number, 0)
        for place in raw[6 : 6 + count]:
            mask |= 1 << (slots[place - 1].bucket >> 16)
        masks[number] = mask
        told.numbers.append(number)
        told.addresses[number] = address.decode("utf-8", "replace") if address else None
        rows.append(raw[6 + count :])
    return told


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
    for one in told:
        part = slice(one.start, one.start + len(one.numbers))
        if any_damaged and damaged[part].any():  # a plain reading counts those
            made[one.page] = Proposal(None, whole=False)
            continue
        numbers = np.array(one.numbers, np.uint64)
        satellites = Satellites(numbers, content[part], states[part], times[part])
        near = _neighbours(one.masks, one.full)
        made[one.page] = Proposal(None, near, satellites=satellites, addresses=one.addresses)


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
