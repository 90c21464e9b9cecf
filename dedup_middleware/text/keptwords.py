"""Hashes the words of a text: looks up kinds, leaves out stop words, and forms the clauses."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, kernel, prefetch, subkernel
from dedup_middleware.base.kerneltypes import I32, R64, U8, U32, U64, U64_2, Tuple, int64, uint64
from dedup_middleware.text.boundaries import without_signs
from dedup_middleware.text.characters import (
    FIRST_WIDE,
    NUMERAL,
    SEPARATES,
    SYMBOL,
    Codes,
    CutText,
    Flags,
    Hashes,
    Places,
    code_set,
    find_code,
)
from dedup_middleware.text.clauses import (
    BODY,
    ELIDED,
    FURTHER,
    LONG,
    NAME,
    NUMBER,
    POINTER,
    RESTYLED,
    SO,
    SPACE,
    SPAN,
    STOP,
    STYLE,
    TURNING,
    TURNS,
    WORDS,
    divides,
    elided,
    ends_turn,
    is_letter,
    kind_or_name,
    may_be_pair,
    may_end_body,
    name_hash,
    stem_hash,
    weigh_parts,
)
from dedup_middleware.text.hashing import (
    TEXT_BASE,
    TEXT_START,
    TOKEN_START,
    HashedText,
    bucket_of,
    hash_number,
    hash_prefixes,
    hash_slice,
    hash_token,
    kind_of,
    mix,
)
from dedup_middleware.text.names import NOUN
from dedup_middleware.text.numerals import among, at, is_wrap, spelt


@subkernel
def _ends_with_body(text: HashedText, first: np.uint64, last: np.uint64) -> bool:
    """Whether a word of more than two ideographs ends with one for a body (保险公司)."""
    if last - first <= np.uint64(2) or not may_end_body(text.codes[last - np.uint64(1)]):
        return False
    kind = kind_of(text.kinds, hash_slice(text, last - np.uint64(2), last))
    return kind & np.uint64(NUMBER - 2) == np.uint64(2 * BODY)


@subkernel
def _hash_tokens(
    text: HashedText, cut: CutText, keys: Hashes, hashes: Hashes, kinds: NDArray[np.uint16]
) -> None:
    """Write the hash and the kind of the first `kinds.size` tokens; a kind also says whether the
    end of the token reverses a clause. This is not done in the loop that uses the kinds, because
    its mispredicted branches would wait for each look-up. Long tokens are hashed letter by
    letter."""
    for token in range(np.uint64(kinds.size)):
        first, last = np.uint64(cut.starts[token]), np.uint64(cut.ends[token])
        if last - first < np.uint64(LONG):
            hashes[token] = hash_slice(text, first, last)
        else:
            hashes[token] = hash_token(text.codes, first, last, keys)
        prefetch(text.kinds, bucket_of(text.kinds, hashes[token]))
    pointed = np.uint64(0)
    for token in range(np.uint64(kinds.size)):
        first, last = np.uint64(cut.starts[token]), np.uint64(cut.ends[token])
        kind = kind_or_name(text.kinds, hashes[token], cut.sorts[token])
        end = without_signs(text.flags, first, last)
        if end < last and end - first < np.uint64(LONG):
            # "Red+" is a colour and "five+" a numeral, but "A+" is no stop word.
            kind = kind_of(text.kinds, hash_slice(text, first, end)) & ~np.uint64(STOP)
        begin = elided(text.codes, first, last)
        if kind == 0 and begin > first and last - begin < np.uint64(LONG):
            kind = kind_of(text.kinds, hash_slice(text, begin, last))
            kind = kind & ~np.uint64(STOP) if kind != STOP else np.uint64(2 * SO)  # n'a
        kind &= pointed | ~np.uint64(SPAN)
        if not text.flags[first] & SEPARATES:
            pointed = np.uint64(SPAN) if kind & np.uint64(POINTER) else np.uint64(0)
        turns = ends_turn(text.codes, first, last)
        turns &= kind & np.uint64(NUMBER - 1) == np.uint64(0)
        noun = (kind == np.uint64(0)) & (cut.sorts[token] & np.uint8(NOUN) != np.uint8(0)) & ~turns
        if noun and not _ends_with_body(text, first, last):
            kind = np.uint64(2 * NAME)
        kind = kind & ~np.uint64(POINTER) | np.uint64(ELIDED * (begin > first))
        kinds[token] = kind | (np.uint64(TURNING) if turns else np.uint64(0))
        if kind & np.uint64(NUMBER + SPAN) == np.uint64(NUMBER):  # eight is the same token as 8
            tenths = spelt(text.codes, np.int64(first), np.int64(last))
            whole = tenths and tenths % 10 == 0
            hashes[token] = hash_number(tenths // 10, keys) if whole else hashes[token]
    _name_bodies(text, cut, kinds)


_ZERO, _ONE, _TWO, _POLARITY = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(NUMBER - 1)
_NAME: Final = np.uint64(NAME)


@subkernel
def _name_bodies(text: HashedText, cut: CutText, kinds: NDArray[np.uint16]) -> None:
    """Make two single ideographs one word if the list has it (不敌, 醫院), and make the part before
    a body, or a longer word that ends with one (保险公司), a name."""
    for token in range(_ONE, np.uint64(kinds.size)):
        first, last, before = np.uint64(cut.starts[token]), np.uint64(cut.ends[token]), token - _ONE
        body = kinds[token] & np.uint16(NUMBER - 2) == np.uint16(2 * BODY)
        size, part = last - first, last - _TWO
        # Without a branch: few tokens are one of two single ideographs, or long and of no kind.
        alone = (size == _ONE) & (cut.starts[before] == part) & (cut.ends[before] == first)
        alone &= may_be_pair(text.codes[part], text.codes[first]) != 0
        long = (size > _TWO) & (kinds[token] == 0) & (may_end_body(text.codes[last - _ONE]) != 0)
        if not (alone | long | body):
            continue
        kind = kind_of(text.kinds, hash_slice(text, part, last)) & np.uint64(NUMBER - 2)
        if alone and kind:
            kinds[before] = kinds[before] & np.uint16(STOP) | np.uint16(kind)
            rest = 2 * NAME + FURTHER if kind == np.uint64(2 * NAME) else 2 * SO
            kinds[token] = kinds[token] & np.uint16(STOP) | np.uint16(rest)
            body = False
            if kind >> _ONE == np.uint64(BODY) and before:
                _name_body(cut, kinds, np.int64(before))
        elif long:
            body = kind >> _ONE == np.uint64(BODY)
        if body:
            _name_body(cut, kinds, np.int64(token))


# 两家公司 and 2家公司 are no names.
_FIRM, _COUNTED = ord("家"), code_set("一二两三四五六七八九十几数多各这那某")
_NEARBY: Final = np.uint64(32)  # clauses


@subkernel
def _name_body(cut: CutText, kinds: NDArray[np.uint16], body: int) -> None:
    """Make the part before 公司 or 小区 a name: a word, or up to three single characters."""
    first, size = body, 1
    while first > 0 and size == 1 and cut.ends[first - 1] == cut.starts[first]:
        begin, size = cut.starts[first - 1], cut.ends[first - 1] - cut.starts[first - 1]
        ends = kinds[first - 1] & (STOP | NUMBER) or cut.flags[begin] & SEPARATES
        counted = cut.codes[cut.ends[first - 1] - 1] == _FIRM and (
            size == 1 or (size == 2 and among(np.int64(cut.codes[begin]), _COUNTED))
        )
        if ends or counted or (size > 1 and first < body):
            break
        first -= 1
    before = np.int64(cut.starts[first]) - 1  # a line may end inside the name
    broken = before >= 0 and (cut.codes[before] == SPACE or is_wrap(cut.codes, before))
    for token in range(first, first if broken or body - first > 3 else body):
        kinds[token] = np.uint16(2 * NAME + (FURTHER if token > first else 0))


@subkernel
def _write_clause(
    clauses: NDArray[np.uint64], endings: Hashes, row: np.uint64, words: np.uint64,
    turn: np.uint64, ending: np.uint64,
) -> np.uint64:  # fmt: skip
    """Write a clause if it has words; return the next free row."""
    clauses[row, 0], clauses[row, 1], endings[row] = mix(words), turn, ending
    return row + np.uint64(words != 0)


@subkernel
def _part_stems(clauses: NDArray[np.uint64], endings: Hashes, count: np.uint64) -> None:
    """Add the endings to the turn of a clause if another one nearby has equal stems, but different
    endings: Петров agreed and Петровский did not, or the other way round."""
    ended = np.uint64(0)
    for row in range(count):
        ended |= endings[row]
    if ended == 0:  # as in most languages: all words count whole
        return
    for row in range(count):
        turn = clauses[row, 1]
        if turn == 0:
            continue
        for other in range(max(row, _NEARBY) - _NEARBY, min(row + _NEARBY, count)):
            if clauses[other, 0] == clauses[row, 0] and endings[other] != endings[row]:
                clauses[row, 1] = turn + endings[row]


@kernel(
    Tuple((int64, uint64, int64))(
        U32, U8, I32, I32, int64, U8, R64, R64, U64, U64_2, U8, U8
    )
)  # fmt: skip
def keep_words(
    codes: Codes, flags: Flags, starts: Places, ends: Places, count: int, sorts: NDArray[np.uint8],
    stops: Hashes, keys: Hashes, hashes: Hashes, clauses: Hashes, cuts: Flags, numbers: Flags,
) -> tuple[int, np.uint64, int]:  # fmt: skip
    """Hash the tokens that are neither punctuation nor stop words, and the clauses that they form.

    Moves the places of these tokens to the front of `starts` and `ends`; writes to `cuts` whether a
    clause begins before a token, to `numbers` whether it is a numeral written as a word (1) or a
    unit of time that says when (3), and to `clauses`, which has a row for each token, words and
    turn of each clause. `sorts` says which words the dictionary tags as nouns. Returns the number
    of tokens, the hash of the whole text, and the number of clauses. A text of stop words only
    keeps them, so that it can be compared.
    """
    size = LONG + codes.size + 1
    room = np.empty(size + count + count // 4 + 1, np.uint64)  # as in `tokenize`, one array
    powers, prefixes, endings, kinds = (
        room[:LONG], room[LONG:size], room[size : size + count],
        room[size + count :].view(np.uint16)[:count],
    )  # fmt: skip
    exact = hash_prefixes(codes, flags, keys, prefixes, powers)
    text = HashedText(codes, flags, prefixes, powers, stops, keys[TOKEN_START])
    begin, end = (starts[0], ends[0]) if count else (np.int32(0), np.int32(0))
    _hash_tokens(text, CutText(codes, flags, starts, ends, sorts), keys, hashes, kinds)
    earliest = hashes[0] if count else np.uint64(0)
    kept = written = np.uint64(0)
    for every in (False, True):
        written, words, turn, before = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(begin)
        cut, ending, spoken = np.uint8(0), np.uint64(0), np.uint64(0)
        for token in range(np.uint64(count)):
            first, last = np.uint64(starts[token]), np.uint64(ends[token])
            i = first
            while i < last and flags[i] & SEPARATES:
                i += np.uint64(1)
            value = hashes[token]
            # Always written, but overwritten if not counted: a branch would be mispredicted.
            hashes[kept] = value
            starts[kept] = starts[token]
            ends[kept] = ends[token]
            kind, says = np.uint64(kinds[token]), i < last
            numbers[kept] = np.uint8(kind // np.uint64(NUMBER) & np.uint64(3))
            turning, whole = kind & np.uint64(TURNING), np.uint64(kind & np.uint64(FURTHER) == 0)
            style = np.uint8(kind & np.uint64(STYLE) != 0) * np.uint8(RESTYLED)
            part = elided(codes, first, last) if kind & np.uint64(ELIDED) else first
            kind, ends_clause = kind & _POLARITY, says and divides(codes, flags, before, first)
            cut, cuts[kept] = cut | np.uint8(ends_clause), cut | np.uint8(ends_clause) | style
            counts = says & (every | (kind & np.uint64(STOP) == 0))
            kept += np.uint64(counts)
            cut = np.uint8(0) if counts else cut
            if ends_clause:
                written = _write_clause(clauses, endings, written, words, turn, ending)
                # A clause of one word that only has a turn ("No.") passes it on to the next clause.
                words, turn, ending, spoken = (
                    _ZERO, turn * np.uint64((words == 0) & (spoken == _ONE)), _ZERO, _ZERO,
                )  # fmt: skip
            before, spoken = last if says else before, spoken + np.uint64(says)
            # Numerals are compared by place, but 四川 is a name.
            plain = says & ((flags[first] & NUMERAL == 0) | (kind >> _ONE == _NAME))
            if turning != 0 and plain:
                more, turned = weigh_parts(text, first, last)
                words, turn = words + more, turn + turned
            else:  # no branch: it would be mispredicted
                known = kind >> np.uint64(1) if plain else np.uint64(0)
                counted = value if plain & (kind == 0) else np.uint64(0)
                stem = stem_hash(text, first, part, last, counted)
                words, ending = words + WORDS[known] * whole + stem, ending + counted - stem
                turn += name_hash(text, part, last, value) if known == _NAME else TURNS[known]
        if count:
            written = _write_clause(clauses, endings, written, words, turn, ending)
        if kept or not count:
            break
        # Restore the only place that was overwritten.
        starts[0], ends[0], hashes[0] = begin, end, earliest
    _part_stems(clauses, endings, written)
    return np.int64(kept), exact, np.int64(written)


_LINE, _COLON, _SLASH = map(np.uint32, map(ord, "\n:/"))
_NO_ROW, _ENDS = code_set(":@"), code_set(".!?。।؟")
_LETTERS: Final = 30  # most letters of a label and of a value; an ideograph counts for three
_REACH: Final = 3 * _LETTERS  # characters


@subkernel
def _part_of_row(codes: Codes, flags: Flags, first: int, last: int, keys: Hashes) -> np.uint64:
    """Hash of the letters of a label or a value; 0 if it is neither."""
    value, size = keys[TEXT_START], 0
    for i in range(first, last):
        if flags[i] & SYMBOL == NUMERAL or among(np.int64(codes[i]), _NO_ROW):
            return np.uint64(0)
        if is_letter(flags, i):
            value = value * keys[TEXT_BASE] + np.uint64(codes[i])
            size += 3 if codes[i] >= FIRST_WIDE else 1
    is_part = 0 < size <= _LETTERS and not among(np.int64(codes[last - 1]), _ENDS)
    return mix(value) if is_part else np.uint64(0)


@allocating_subkernel
def with_rows(codes: Codes, flags: Flags, clauses: Hashes, keys: Hashes) -> Hashes:
    """Return the clauses together with those of rows such as `Location: Ludlow`, where the value
    may be on the next line. The words of such a clause are the label, its turn is the value, which
    has no numeral and ends no sentence.

    Another value also changes an ordinary clause, whose part of the sketch is then not compared. So
    each row has two clauses, which are nearly always in two parts.
    """
    found, colons, count = find_code(codes, _COLON, 1), 0, clauses.shape[0]
    if found >= codes.size:
        return clauses
    for code in codes:
        colons += np.int64(code == _COLON)
    rows = np.empty((count + 2 * colons, 2), np.uint64)
    rows[:count] = clauses
    while found < codes.size:
        colon, found = found, find_code(codes, _COLON, found + 1)
        if at(codes, colon + 1) == _SLASH:
            continue
        first, last, end = colon, colon + 1, min(codes.size, colon + _REACH)
        while first > 0 and codes[first - 1] != _LINE and colon - first < _REACH:
            first -= 1
        while last < end and not is_letter(flags, last):
            last += 1
        while last < end and codes[last] != _LINE:
            last += 1
        if last < codes.size and codes[last] != _LINE:
            continue
        label = _part_of_row(codes, flags, first, colon, keys)
        value = _part_of_row(codes, flags, colon + 1, last, keys)
        if label and value:
            rows[count, 0], rows[count, 1] = label, value
            rows[count + 1, 0], rows[count + 1, 1] = mix(label), value
            count += 2
    return rows[:count]
