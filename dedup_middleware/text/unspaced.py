"""Clauses of Japanese and Thai, which are written without spaces, see
:mod:`dedup_middleware.text.scriptclauses`."""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import NUMERAL, Codes
from dedup_middleware.text.clauses import SPACE, WORDS, longest_word, name_value, run_end, weigh
from dedup_middleware.text.hashing import HashedText, mix
from dedup_middleware.text.polarity import BODY, NAME, PERSON, SURNAME, TITLE

_KANA: Final = 2  # of a katakana word that count
_FAMILY: Final = 3  # characters of a Japanese name that count, and given ones at the most
_COMPOUND: Final = 4  # ideographs before katakana that are a name
_THAI_NAME: Final = 4  # letters of a Thai name that count
_THAI_FAMILY: Final = 12  # letters of a family name behind it


@subkernel
def _is_katakana(code: np.uint32) -> bool:
    return code - np.uint32(0x30A1) < np.uint32(0x5F) and code != np.uint32(0x30FB)


@subkernel
def _is_kanji(code: np.uint32) -> bool:
    return np.uint32(0x3400) <= code < np.uint32(0xA000) or code == np.uint32(0x3005)


@subkernel
def is_thai(code: np.uint32) -> bool:
    """Whether a code point is of Thai or of a script of its neighbours."""
    neighbour = code - np.uint32(0x1000) < np.uint32(0xA0)
    neighbour |= code - np.uint32(0x1780) < np.uint32(0x80)
    return code - np.uint32(0x0E00) < np.uint32(0x100) or neighbour


@subkernel
def _katakana(codes: Codes, first: int) -> tuple[int, np.uint64]:
    """Where the katakana word ends, and what it adds to the turn: its first kana, without the
    marks of voiced sounds and of long vowels."""
    value, count, i = np.uint64(_KANA), 0, first
    while i < codes.size and _is_katakana(codes[i]):
        code = codes[i]
        if code < np.uint32(0x30F5) and count < _KANA:
            # カガ to チヂ, ツヅ to トド, ハバパ to ホボポ
            if np.uint32(0x30AB) <= code <= np.uint32(0x30C2):
                code -= (code - np.uint32(0x30AB)) & np.uint32(1)
            elif np.uint32(0x30C4) <= code <= np.uint32(0x30C9):
                code -= (code - np.uint32(0x30C4)) & np.uint32(1)
            elif np.uint32(0x30CF) <= code <= np.uint32(0x30DD):
                code -= (code - np.uint32(0x30CF)) % np.uint32(3)
            value = mix(value + np.uint64(code))
            count += 1
        i += 1
    return i, value


@subkernel
def _given_end(text: HashedText, end: int, last: int) -> int:
    """Where a given name behind a surname that ends at `end` ends."""
    most = min(last, end + _FAMILY)
    while end < most and _is_kanji(text.codes[end]):
        after, other = longest_word(text, end, last)
        if other == BODY or after > end + 1:
            break
        end += 1
    return end


@subkernel
def _ideographs(text: HashedText, i: int, last: int) -> tuple[int, np.uint64, np.uint64]:
    """Where the ideographs from i on that begin no word of the list end, and their weights; they
    are a name before a body."""
    end, polar, words = i, 0, np.uint64(0)
    while end < last and _is_kanji(text.codes[end]) and not text.flags[end] & NUMERAL:
        polar = longest_word(text, end, last)[1]
        if polar:
            break
        words += mix(np.uint64(text.codes[end]))
        end += 1
    if polar == BODY:
        return end, WORDS[NAME], name_value(text, i, end)
    return end, words, np.uint64(0)


@subkernel
def _compound_end(codes: Codes, i: int, last: int) -> int:
    """Where two to four ideographs between i and katakana end; i if there are none."""
    if i > 0 and _is_kanji(codes[i - 1]):
        return i
    end = i
    while end < last and _is_kanji(codes[end]):
        end += 1
    joined = end < last and _is_katakana(codes[end]) and 2 <= end - i <= _COMPOUND
    return end if joined else i


@subkernel
def read_japanese(text: HashedText, i: int, last: int) -> tuple[int, np.uint64, np.uint64]:
    """Where what stands at i ends, and what it adds to the words and to the turn; `last` is where
    the letters from i on end."""
    words, turn = WORDS[NAME], np.uint64(0)
    end, polar = longest_word(text, i, last)
    compound = _compound_end(text.codes, i, last) if end <= i + 1 else i
    if _is_katakana(text.codes[i]):
        end, turn = _katakana(text.codes, i)
    elif polar == SURNAME:
        end = _given_end(text, end, last)
        turn = name_value(text, i, min(end, i + _FAMILY))
    elif compound > i:
        end, turn = compound, name_value(text, i, compound)
    elif polar:
        words, turn = weigh(polar, name_value(text, i, end))
    elif not _is_kanji(text.codes[i]):
        end, words = i + 1, np.uint64(0)
    elif text.flags[i] & NUMERAL:
        end, turn = i + 1, mix(np.uint64(text.codes[i]))
    else:
        end, words, turn = _ideographs(text, i, last)
    return end, words, turn


@subkernel
def read_thai(text: HashedText, i: int, last: int) -> tuple[int, np.uint64, np.uint64]:
    """The same of Thai."""
    end, polar = longest_word(text, i, last)
    if not polar:
        return i + 1, mix(np.uint64(text.codes[i])), np.uint64(0)
    words, turn = weigh(polar, name_value(text, i, end))
    if polar not in (TITLE, PERSON):
        return end, words, turn
    if (
        end + 1 < text.codes.size
        and text.codes[end] == np.uint32(SPACE)
        and is_thai(text.codes[end + 1])
    ):
        end += 1
        last = run_end(text.flags, end)
    begin = end
    while end < last and is_thai(text.codes[end]):
        looked = end == begin or end > begin + 2
        if looked and longest_word(text, end, last)[1]:
            break
        end += 1
    if end - begin < 2:
        return begin, words, turn
    name = name_value(text, begin, min(end, begin + _THAI_NAME))
    if polar == PERSON and end + 1 < text.codes.size and text.codes[end] == np.uint32(SPACE):
        after = end + 1
        while after < text.codes.size and is_thai(text.codes[after]):
            after += 1
        size = after - end - 1
        spaced = after < text.codes.size and text.codes[after] == np.uint32(SPACE)
        if spaced and 1 < size <= _THAI_FAMILY:
            return after, words + WORDS[NAME], turn + name
    return end, words + WORDS[NAME], turn + name
