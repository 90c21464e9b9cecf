"""Evidence of a stored page: shows which words of another page are new, and where they are.

Evidence is a ribbon filter (:mod:`.ribbon`) of the hashes of the page's shingles and numerals and,
if the page is short, of its words and those of its title. Each shingle of another page is looked up
in it: words in no common shingle are new, however long the stored page is.

A filter reports 6 % of the shingles that a page lacks as held (false positives). A shingle is
therefore trusted only if one that continues it is common too: its neighbour, or the one that begins
just behind its words or ends just before them. Numerals are entered twice, which lowers their rate
of false positives to .4 %.

The bytes: a head, the filter, and the title words that :func:`.with_title` may add. The head has
the level of sampling (of a page of more than 8,192 shingles one in 2, 4, 8, ... is entered, chosen
by its hash) and four flags: the sample is of the right size even at levels above 6; words of a
short page's title are in the filter; title words follow the filter; the page has years.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, U8
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.exchanged import (
    TRIPLE,
    Compared,
    count_denied,
    count_exchanged,
    count_of_other_word,
    count_other_persons,
    count_other_subject,
    count_renamed,
    count_swapped,
    count_swapped_numbers,
    is_another_number,
    is_put_in,
)
from dedup_middleware.signature.held import (
    LEVEL,
    SAMPLED_BY_ALL_BITS,
    SAMPLED_BY_SIX_BITS,
    TITLE,
    VALUE,
    filter_bytes,
    holds_twice,
    is_sampled,
    joined,
    mark_common,
    mark_sure,
)
from dedup_middleware.signature.ribbon import (
    BITS_EACH,
    MISTAKEN,
    SLACK,
    TURNS,
    Filter,
    count_bytes,
    enter,
    equation,
    is_filter,
    solve,
)
from dedup_middleware.signature.titles import Values, count_new_subject
from dedup_middleware.text.datelines import HEADLINE
from dedup_middleware.text.hashing import mix
from dedup_middleware.text.stamps import BRACKETED, DATED, STAMP, YEAR
from dedup_middleware.text.wording import NAME, NO_NEWS, WORD

# Columns of the result of :func:`examine`.
(
    COMMON,
    NEW,
    LONGEST,
    NEW_FRAME,
    NEW_VALUES,
    LOOSE_VALUES,
    NEW_TITLE,
    FALSE_POSITIVES,
    NEW_SUBJECT,
    LONGEST_OF_ALL,
    EXCHANGED,
    RENAMED,
    PUT_IN,
    OTHER_WORD,
    OTHER_SUBJECT,
    NEW_HEADLINE,
    OTHER_AT,
) = range(17)
COLUMNS: Final = 17
MOST: Final = 8192  # shingles of a page that are entered
LEAD: Final = 16  # most words at the beginning of a page that may say where it comes from
TAIL: Final = 10  # most words at the end of a page that may do so
TITLED: Final = 24  # words; the title of a page is entered only if its text has fewer
# A page has few words if it holds shingles of another page with the same words by chance: the cube
# of the number of distinct words is less than `VOCABULARY` times the number of all words, and the
# cube of their effective number (see `_are_few`) less than `FEW` times that number.
VOCABULARY: Final = 320
FEW: Final = 8
VARIED: Final = 128  # distinct words; with fewer, names on a page of repeats are not compared
FRAME: Final = 6  # lead and tail have at most one sixth of the page's words each
_ROOM: Final = 16  # a filter has room for a sample that is a sixteenth larger than expected
_STAMPED: Final = 60  # words; from this length on, time stamps in lead and tail are ignored
_MISTAKEN: Final = round(1e6 * MISTAKEN)
_NUMERAL: Final = np.uint8(2)  # flag of a new word that is a numeral
_TITLE_ENTERED: Final = np.uint8(0x40)  # flag of the head: words of the title are in the filter
_YEARS: Final = np.uint8(0x80)  # flag of the head: the page has years
_SPREAD: Final = np.uint64(0x9E3779B1)
_ONE, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)
_R32I: Final = types.Array(types.int32, 1, readonly=True)


def make_evidence(wording: Wording) -> bytes:
    """Make the evidence of a page; empty if the page has more than ``MOST`` values.

    Such a page would take too much space in an index; only an equal text is then a copy of it.
    """
    if len(wording.values) > MOST:
        return b""
    order = wording.order
    if len(order) > MOST:
        order = np.unique(order)  # without repeats the sample can be larger
    title = wording.title if wording.words < TITLED else wording.title[:0]
    made: bytes = fill_evidence(order, wording.values, wording.sorts, title).tobytes()
    return made


def examine(wording: Wording, evidence: Sequence[bytes]) -> NDArray[np.int64]:
    """Compare the wording of a page with the evidence of n others; int64[n, 17].

    The columns count, for the page and one of the others ("in halves": a word counts 2):

    * ``COMMON``: shingles that the other page holds
    * ``NEW``: new words between lead and tail, in halves, without numerals of a date line or time
      stamp. There is a lead only if the first word is new, and a tail only if the last one is
    * ``LONGEST``: length of the longest passage of mostly new words there, in halves: a new word
      that the page also says in a common shingle counts half, and a common shingle that another one
      continues cancels one word; at least three quarters of the length with each new word counted
      whole. A passage that ends in the tail counts two thirds
    * ``NEW_FRAME``: new words in lead and tail, in halves; words of a date line, of a source, of
      credits, or of the line at the end that names the editor are never counted
    * ``NEW_HEADLINE``: those of them that are in a headline above the text, in halves
    * ``NEW_VALUES``: numerals and new words of names that the other page has nowhere, and small
      numbers in place of another word
    * ``LOOSE_VALUES``: numerals between lead and tail in place of something: one new numeral, or
      two side by side, whose neighbours are not new; those of the date line are left out
    * ``NEW_TITLE``: words of the title that the other title lacks; -1 if either title is unknown
    * ``FALSE_POSITIVES``: expected false positives per million shingles that the other page lacks
    * ``NEW_SUBJECT``: distinct words of a short page that are also in its title and that the other
      page lacks; if the other page's words are unknown, words no occurrence of which is in two
      common shingles or in common shingles only
    * ``LONGEST_OF_ALL``: as ``LONGEST`` for passages anywhere in the page: one that begins in the
      lead or ends in the tail counts whole, less two words at the very beginning or end
    * ``EXCHANGED``: passages and names that have changed places inside their clauses, and negations
      that only one of the pages has (see :mod:`.exchanged`); one more for a page of few words
    * ``RENAMED``: how often the page says a name in place of something else, in halves (a name next
      to another one counts 3); the maximum over the names that the other page hardly says
    * ``PUT_IN``: years behind a day or month, and dates in brackets, that the other page has
      nowhere, between words that are adjacent there; ``NEW_VALUES`` leaves them out
    * ``OTHER_WORD``: shingles that the other page lacks, if one word is in all of them, between
      words that both pages have; -1 if editors put that word in place of others without saying
      more, or if it is a name
    * ``OTHER_AT``: the first of these shingles, times 8, and a bit for each of its words that is
      in all of them
    * ``OTHER_SUBJECT``: how many rows of new words say one word in place of others, less how often
      the page says it where the other page does; two less where capitals do not show names

    If the other page is short its words are known, and a shingle with a word that it lacks is never
    common. If fewer than half of the page's words are distinct, each new word counts whole, and a
    common shingle cancels half a word; with fewer than ``VARIED`` distinct ones, neither names that
    changed places, negations, ``OTHER_WORD`` nor ``RENAMED`` are counted. Without evidence, or with
    evidence of an impossible size, everything is new.
    """
    found: NDArray[np.int64] = _examine(
        wording.order, wording.words, wording.values, wording.positions, wording.sorts,
        wording.title, wording.word_hashes, wording.begins, wording.seeds, *joined(evidence),
    )  # fmt: skip
    return found


@kernel(U8(R64, R64, R8, R64))
def fill_evidence(order: Any, values: Any, sorts: Any, title: Any) -> Any:
    """Make the evidence of a page with at most `MOST` values, uint8[bytes]. Words of `title` are
    entered. If there are more than `MOST` shingles, repeated ones would make the sample smaller."""
    level, count = 0, np.int64(order.size)
    while count >> level > MOST:
        level += 1
    expected, sampled = count >> level, np.int64(0)
    for i in range(np.uint64(count)):
        sampled += np.int64(is_sampled(order[i], level))
    # An overfull filter would hold all shingles of any page. At levels of earlier versions the size
    # stays theirs, as long as the sample finds room.
    if level > SAMPLED_BY_SIX_BITS or sampled > expected + expected // _ROOM:
        expected = sampled
    size = count_bytes(expected + 2 * (values.size + title.size))
    positions = 8 * size // BITS_EACH
    out = np.zeros(1 + size, np.uint8)
    rows = np.zeros(positions + SLACK, np.uint64)
    # One more than is entered: a shingle outside the sample is written, too, and overwritten.
    capacity = sampled + 2 * (values.size + title.size) + TURNS
    equations = np.empty((2, capacity), np.uint64)
    starts, lefts = equations[0], equations[1]
    out[0] = np.uint8(level) | (_TITLE_ENTERED if title.size else np.uint8(0))
    if level > SAMPLED_BY_SIX_BITS:
        out[0] |= SAMPLED_BY_ALL_BITS
    found = np.uint64(0)
    for i in range(np.uint64(count)):
        starts[found], lefts[found] = equation(order[i], positions)
        found += np.uint64(is_sampled(order[i], level))
    for i in range(np.uint64(values.size)):
        for place in VALUE:
            starts[found], lefts[found] = equation(mix(values[i] ^ place), positions)
            found += _ONE
        out[0] |= _YEARS if sorts[i] == YEAR else np.uint8(0)
    for i in range(np.uint64(title.size)):
        for place in TITLE:
            starts[found], lefts[found] = equation(mix(title[i] ^ place), positions)
            found += _ONE
    for i in range(found, found + np.uint64(TURNS)):
        starts[i], lefts[i] = np.uint64(0), np.uint64(0)
    enter(rows, starts, lefts, found)
    solve(rows, out[1:])
    return out


@subkernel
def _knows_words(values: Any, other: Any) -> Any:
    """Whether the other page's words were entered: most words of this short page are held."""
    words, held = 0, 0
    for i in range(values.hashes.size):
        if values.sorts[i] >= NAME:
            words += 1
            held += np.int64(holds_twice(other, values.hashes[i], VALUE))
    return 2 * held > words


@subkernel
def _unmark_unsaid(values: Any, other: Any, width: Any, common: Any) -> Any:
    """Unmark common shingles with a word that the other page lacks; return how many were marked."""
    mistakes = 0
    for i in range(values.hashes.size):
        if values.sorts[i] < NAME or holds_twice(other, values.hashes[i], VALUE):
            continue
        last = np.int64(values.positions[i])
        for shingle in range(max(0, last - width + 1), min(last + 1, common.size)):
            mistakes += np.int64(common[shingle])
            common[shingle] = np.uint8(0)
    return mistakes


@subkernel
def _is_replaced(is_new: Any, word: Any) -> Any:
    """Whether a numeral is new, alone or with one other new numeral next to it."""
    first, last = max(0, word - 2), min(is_new.size, word + 3)
    before, behind = word, word
    while before > first and is_new[before - 1]:
        before -= 1
    while behind + 1 < last and is_new[behind + 1]:
        behind += 1
    numerals = is_new[before] & is_new[behind] & _NUMERAL
    return is_new[word] != 0 and behind - before <= 1 and numerals != 0


@subkernel
def _is_of_date_line(values: Any, value: Any) -> Any:
    """Whether the date line has this numeral as well: the text may repeat the day of the report."""
    said = False
    for i in range(values.hashes.size):
        said |= values.sorts[i] == DATED and values.hashes[i] == value
    return said


@subkernel
def _places_of_date(positions: Any, sorts: Any, i: Any) -> Any:
    """First and last word of the date in brackets to which value i belongs."""
    first, last = np.int64(positions[i]), np.int64(positions[i])
    if i > 0 and sorts[i - 1] == BRACKETED and positions[i - 1] == first - 1:
        first -= 1
    elif i + 1 < sorts.size and sorts[i + 1] == BRACKETED and positions[i + 1] == last + 1:
        last += 1
    return first, last


@subkernel
def _count_values(
    values: Any, page: Any, head: Any, is_new: Any, lead: Any, tail: Any, found: Any
) -> None:
    """Count numerals and names that the filter lacks, and new numerals that replace something."""
    positions, sorts = values.positions, values.sorts
    for i in range(sorts.size):
        if sorts[i] < NAME and is_new[positions[i]]:
            is_new[positions[i]] |= _NUMERAL
    for i in range(sorts.size):
        word = np.int64(positions[i])
        inside = lead <= word < tail
        # A year counts only if the other page has years, so that it may replace one of them.
        added = sorts[i] == YEAR and not head & _YEARS
        if sorts[i] == DATED or added:
            continue
        if sorts[i] == STAMP and not inside and is_new.size >= _STAMPED:
            continue
        if sorts[i] == WORD or (sorts[i] == NAME and not is_new[word]):
            continue
        put_in, of_date = False, i > 0 and sorts[i - 1] < NAME and positions[i - 1] == word - 1
        if (sorts[i] == BRACKETED or (sorts[i] == YEAR and of_date)) and page.seeds.size:
            first, last = word, word
            if sorts[i] == BRACKETED:
                first, last = _places_of_date(positions, sorts, i)
            put_in = is_put_in(page, first, last)
        column = PUT_IN if put_in else NEW_VALUES
        found[column] += np.int64(holds_twice(page.other, values.hashes[i], VALUE) == 0)
        if sorts[i] == NAME or put_in:
            continue
        if sorts[i] == 0 and page.seeds.size:
            found[NEW_VALUES] += np.int64(is_another_number(page, word))
        if inside and _is_replaced(is_new, word):
            found[LOOSE_VALUES] += np.int64(not _is_of_date_line(values, values.hashes[i]))


@allocating_subkernel
def _first_places(word_hashes: Any, words: Any, positions: Any, sorts: Any) -> Any:
    """Index of the first occurrence of each word, int32[words]; -1 for a `NO_NEWS` word and for
    a numeral of a date line or time stamp."""
    size = np.uint64(2)
    while size < np.uint64(2 * words):
        size *= np.uint64(2)
    table, firsts = np.full(size, -1, np.int32), np.empty(words, np.int32)
    for word in range(words):
        if word_hashes[word] == np.uint64(NO_NEWS):
            firsts[word] = np.int32(-1)
            continue
        at = (word_hashes[word] & _LOW) * _SPREAD >> _HALF & (size - _ONE)
        while table[at] >= 0 and word_hashes[table[at]] != word_hashes[word]:
            at = (at + _ONE) & (size - _ONE)
        if table[at] < 0:
            table[at] = word
        firsts[word] = table[at]
    for i in range(positions.size):
        if sorts[i] == DATED or sorts[i] == STAMP:
            firsts[positions[i]] = np.int32(-1)
    return firsts


@subkernel
def _mark_new(sure: Any, firsts: Any, width: Any, repeats: Any, is_new: Any, known: Any) -> None:
    """Mark in `is_new` the words that are in no common shingle, and in `known`, at their first
    occurrence, the words that are in one anywhere (none if the page repeats its words)."""
    words, shingles = np.uint64(is_new.size), np.uint64(sure.size)
    for word in range(words):
        known[word] = np.uint8(0)
    until = np.uint64(0)
    for word in range(words):
        if word < shingles and sure[word]:
            until = word + np.uint64(width)
        held = word < until
        is_new[word] = not held
        if held and firsts[word] >= 0 and not repeats:
            known[np.uint64(firsts[word])] = np.uint8(1)


@subkernel
def _leave_out_headline(begins: Any, firsts: Any, known: Any, counted: Any) -> None:
    """Set to -1 in `counted`, a copy of `firsts`, the words of a headline that are also in a
    passage that both pages have: another site puts another headline above the same report. But not
    the first word, which says whether there is a lead."""
    for word in range(1, begins.size):
        if not begins[word] & HEADLINE:
            break
        first = firsts[word]
        counted[word] = np.int32(-1) if first >= 0 and known[np.uint64(first)] else first


class _Passage(NamedTuple):
    """Running length of a passage of mostly new words, in halves and with each new word counted
    whole, and the longest length so far."""

    halves: Any
    words: Any
    longest: Any


@subkernel
def _follow(passage: Any, is_common: Any, gain: Any, width: Any, off: Any) -> Any:
    """The passage after one more shingle; a common shingle cancels a new word."""
    if is_common:
        return _Passage(max(0, passage.halves - off), max(0, passage.words - 1), passage.longest)
    halves, words = passage.halves + gain, passage.words + ((gain + 1) >> 1)
    length = max(halves - 2 * (width - 1), (words - width + 1) * 3 // 2)
    return _Passage(halves, words, max(passage.longest, length))


@subkernel
def _count_new(
    sure: Any, firsts: Any, is_new: Any, known: Any, begins: Any, width: Any, lead: Any, tail: Any,
    off: Any, found: Any,
) -> None:  # fmt: skip
    """Count the new words, and the words of the longest passages, in halves."""
    # Another site may begin the page with a source: without a new first word there is no lead.
    begin = 0
    while begin < lead and firsts[begin] < 0:
        begin += 1
    if begin < lead and not is_new[begin]:
        lead = np.int64(0)
    # Editors are named at the end: without a new last word there is no tail.
    ends = np.int64(is_new.size)
    if ends > 0 and is_new[ends - 1]:
        ends = tail
    frame, inner, above = 0, 0, 0
    for word in range(np.uint64(is_new.size)):
        halves = np.int64(2) * np.int64(is_new[word] & np.uint8(firsts[word] >= 0))
        is_inner = (np.int64(word) >= lead) & (np.int64(word) < ends)
        inner += halves if is_inner else 0
        frame += 0 if is_inner else halves
        in_headline = np.int64(word) < lead and begins.size and begins[word] & HEADLINE
        above += halves if in_headline else 0
    # The longest passage between lead and tail, behind the lead, and anywhere.
    first_inner = np.uint64(lead)
    end_inner = np.uint64(max(lead, min(sure.size, ends - width + 1)))
    inside = behind = anywhere = _Passage(0, 0, 0)
    for shingle in range(np.uint64(sure.size)):
        is_common, gain = sure[shingle] != 0, 2
        last = shingle + np.uint64(width) - _ONE
        if not is_common and is_new[last]:
            # A new word that is also said in a common passage counts half.
            first = firsts[last]
            gain = 0 if first < 0 else 2 - np.int64(known[np.uint64(first)])
        anywhere = _follow(anywhere, is_common, gain, width, off)
        if shingle >= first_inner:
            behind = _follow(behind, is_common, gain, width, off)
            if shingle < end_inner:
                inside = _follow(inside, is_common, gain, width, off)
    found[NEW], found[NEW_FRAME], found[NEW_HEADLINE] = inner, frame, above
    # A passage in the tail may name editors, so it counts less; a new sentence is longer than that.
    found[LONGEST] = max(inside.longest, (2 * behind.longest + 2) // 3)
    found[LONGEST_OF_ALL] = anywhere.longest


@allocating_subkernel
def _are_few(firsts: Any, distinct: Any) -> Any:
    """Whether the number of a page's distinct words is small by `VOCABULARY`, and the effective
    number, n**2 / sum of squared counts, by `FEW`: so it is in a table of many labels with "yes" or
    "no", as half of the words are one of two, but not in a bulletin that repeats one unit."""
    # Not in integers: the cube of three million has more than 64 bits.
    if np.float64(distinct) ** 3 >= VOCABULARY * firsts.size:
        return False
    counts, equal = np.zeros(firsts.size, np.int64), np.int64(0)
    for first in firsts:
        if first >= 0:
            equal += 2 * counts[first] + 1  # pairs of equal words, a word with itself included
            counts[first] += 1
    frequent = firsts.size * firsts.size / max(equal, np.int64(1))
    return frequent**3 < FEW * firsts.size


@kernel(types.I64_2(R64, types.int64, R64, _R32I, R8, R64, R64, R8, R64, R8, RI64))
def _examine(
    order: Any, words: Any, hashes: Any, positions: Any, sorts: Any, title: Any, word_hashes: Any,
    begins: Any, seeds: Any, data: Any, ends: Any,
) -> Any:  # fmt: skip
    count, values = ends.size - 1, Values(hashes, positions, sorts)
    found = np.zeros((count, COLUMNS), np.int64)
    shingles = np.int64(order.size)
    common, sure = np.empty(shingles, np.uint8), np.empty(shingles, np.uint8)
    is_new = np.empty(words, np.uint8)
    firsts, known = _first_places(word_hashes, words, positions, sorts), np.empty(words, np.uint8)
    counted, distinct = firsts.copy(), 0
    for word in range(words):
        distinct += np.int64(firsts[word] == word or word_hashes[word] == np.uint64(NO_NEWS))
    # If most words are repeated, only their order says something new.
    repeats = 2 * distinct < words
    off = 1 if repeats else 2
    is_of_few = repeats and _are_few(firsts, distinct)
    width = words - shingles + 1
    lead, tail = min(LEAD, words // FRAME), words - min(TAIL, words // FRAME)
    for row in range(count):
        size = filter_bytes(data, ends[row], ends[row + 1])
        other = Filter(data, np.uint64(ends[row]) + _ONE, size)
        if not is_filter(size):
            found[row, NEW], found[row, LONGEST] = 2 * words, 2 * words
            found[row, NEW_VALUES], found[row, NEW_TITLE] = hashes.size, -1
            continue
        head = data[ends[row]]
        level = np.int64(head & LEVEL)
        found[row, COMMON] = mark_common(order, other, level, common)
        is_known = _knows_words(values, other)
        if is_known:
            found[row, COMMON] -= _unmark_unsaid(values, other, width, common)
        found[row, FALSE_POSITIVES] = _MISTAKEN
        in_order = width == TRIPLE and level == 0
        page = Compared(common, word_hashes, begins, seeds if in_order else seeds[:0], other)
        # Not worth the time if the pages share little.
        if in_order and begins.size == words and 2 * found[row, COMMON] > shingles:
            found[row, EXCHANGED] = count_exchanged(page)
            if not is_of_few:
                found[row, OTHER_SUBJECT] = count_other_subject(page, firsts)
            if not repeats or distinct >= VARIED:
                found[row, EXCHANGED] += (
                    count_swapped(page) + count_swapped_numbers(page) + count_denied(page)
                )
                found[row, OTHER_WORD], found[row, OTHER_AT] = count_of_other_word(page)
                found[row, RENAMED] = count_renamed(page, firsts)
        found[row, EXCHANGED] += np.int64(is_of_few)
        mark_sure(common, width, sure)
        _mark_new(sure, firsts, width, repeats, is_new, known)
        _leave_out_headline(begins, firsts, known, counted)
        _count_new(sure, counted, is_new, known, begins, width, lead, tail, off, found[row])
        if in_order and begins.size == words:
            found[row, NEW_VALUES] += count_other_persons(page, is_new, firsts, known)
        _count_values(values, page, head, is_new, lead, tail, found[row])
        if title.size:
            found[row, NEW_SUBJECT] = count_new_subject(values, page, title, width, is_known)
        found[row, NEW_TITLE] = 0 if title.size and words < TITLED and head & _TITLE_ENTERED else -1
        if found[row, NEW_TITLE] == 0:
            for i in range(title.size):
                held = holds_twice(other, title[i], TITLE)
                found[row, NEW_TITLE] += np.int64(held == 0)
    return found
