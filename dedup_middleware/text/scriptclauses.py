"""Clauses of texts in scripts without capitals: Japanese, Thai, Korean, Arabic, Hebrew, Hindi; and
of Vietnamese, whose words are written in syllables.

There a token is no word: kana and Thai letters stand without spaces, Korean and Arabic words carry
what other languages write as words of their own, and no capital letter shows a name. So clauses
(see :mod:`dedup_middleware.text.clauses`) are read from the letters, with the same list of words
and the same two numbers:

- **Japanese**: the longest word of the list at each place. Hiragana that are no such word are
  endings and count for nothing, so that できる and できない have the same words. A katakana word is
  a name, known by its first two kana, so that a misspelt one stays the same. So are a surname with
  the given name behind it, ideographs before a body (北浜市, 共栄銀行) or before katakana
  (東山クラブ), and a Chinese numeral.
- **Thai** and its neighbours: the longest word of the list at each place; what follows a title
  (นาย, บริษัท) is a name. A space between two letters ends a clause, as full stops are rare.
- **Korean**: the longest word of the list with which a word begins; of others the first two
  syllables, since the rest are endings. Three syllables that begin with a surname are a name, known
  by the surname, and so is what stands before a body in the same word (북천시는).
- **Arabic, Hebrew**: a word of the list, also with prefixes. Behind a title or a given name the
  next word is a name.
- **Hindi, Vietnamese**: words of the list, also of several syllables (một số).

A page is read so if nearly all of its letters are of one of these scripts: one with another
language in it is read as all others are, or that language would lose its words. Everything else
about it, its tokens, shingles and figures, is as in any other one.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.text.characters import (
    CLASS_MASK,
    EXTEND,
    NUMERAL,
    SEPARATES,
    SYMBOL,
)
from dedup_middleware.text.clauses import STOP, TURNS, WORDS
from dedup_middleware.text.hashing import (
    TOKEN_BASE,
    TOKEN_START,
    hash_prefixes,
    hash_slice,
    kind_of,
    mix,
)
from dedup_middleware.text.numerals import Codes, among, is_wrap
from dedup_middleware.text.polarity import (
    BODY,
    GIVEN,
    MARKS,
    NAME,
    PERSON,
    SURNAME,
    TITLE,
    polarity,
)

Flags = NDArray[np.uint8]
Hashes = NDArray[np.uint64]

NONE, JAPANESE, THAI, KOREAN, SEMITIC, INDIC, VIETNAMESE = range(7)
# One of so many characters at least is of the script: of Vietnamese those that no other one has,
# of Japanese kana, of all others letters.
_FEW, _SOME, _MANY = 12, 8, 3
# Letters of other scripts are at most one for so many, ideographs one for so many more, and of
# Japanese letters a third is kana.
_OTHERS, _HAN, _KANA_SHARE = 5, 20, 3
LONGEST: Final = 24  # characters of a word of the list, spaces included
_LONG: Final = 32  # characters of what is hashed at once
_SPACE, _HYPHEN = ord(" "), ord("-")
_KANA: Final = 2  # of a katakana word that count
_FAMILY: Final = 3  # characters of a Japanese name that count, and given ones at the most
_COMPOUND: Final = 4  # ideographs before katakana that are a name
_THAI_NAME: Final = 4  # letters of a Thai name that count
_THAI_FAMILY: Final = 12  # letters of a family name behind it
_SYLLABLES: Final = 2  # of a Korean word that count
_PERSON: Final = 3  # syllables of a Korean name
_PREFIXES: Final = np.array(sorted(map(ord, "وفبلكساהובלמשכ")), np.int64)
_WAW, _VAV = ord("و"), ord("ו")  # and
_PARTICLES: Final = np.array(sorted(map(ord, "은는이가을를의에와과도로씨님만")), np.int64)
_ENDINGS: Final = np.array(sorted(map(ord, "지는은을고게면기던다")), np.int64)
_NUMBERS: Final = np.array(sorted(map(ord, "일이삼사오육칠팔구십백천만억조")), np.int64)
_COUNTED: Final = np.array(sorted(map(ord, "원명년월일분초시개위번호차회층대살세")), np.int64)
_SURNAMES: Final = np.array(
    sorted(
        map(
            ord,
            "김이박최정강조윤장임한오서신권황안송류유홍전고문손양배백허남심노하곽성차주우구민진나지엄변원천방공현함석",
        )
    ),
    np.int64,
)
_MARK_JA, _MARK_VI = (np.uint64(ord(MARKS[name])) for name in ("ja", "vi"))
_FIRST_WIDE: Final = 0x2E80


def _reach(words: Iterable[str]) -> NDArray[np.uint8]:
    """The length of the longest word that begins with each code point below 2**16."""
    longest = np.zeros(1 << 16, np.uint8)
    for word in words:
        longest[ord(word[0])] = max(int(longest[ord(word[0])]), len(word))
    return longest


_REACH: Final = _reach([*polarity().words, *(word[1:] for word in polarity().own)])


@subkernel
def script_of(codes: Codes) -> int:
    """Which of the scripts above a text is written in; NONE if in another one."""
    kana, thai, hangul = np.uint32(0), np.uint32(0), np.uint32(0)
    semitic, indic, viet = np.uint32(0), np.uint32(0), np.uint32(0)
    latin, han = np.uint32(0), np.uint32(0)
    for i in range(np.uint64(codes.size)):  # no branch: many at once
        code = codes[i]
        kana += np.uint32(code - np.uint32(0x3041) < np.uint32(0xBF))
        thai += np.uint32(code - np.uint32(0x0E00) < np.uint32(0x100))
        thai += np.uint32(code - np.uint32(0x1000) < np.uint32(0xA0))
        thai += np.uint32(code - np.uint32(0x1780) < np.uint32(0x80))
        hangul += np.uint32(code - np.uint32(0xAC00) < np.uint32(0x2BA4))
        semitic += np.uint32(code - np.uint32(0x0591) < np.uint32(0x1EF))
        indic += np.uint32(code - np.uint32(0x0900) < np.uint32(0x80))
        viet += np.uint32(code - np.uint32(0x1EA0) < np.uint32(0x5A))
        viet += np.uint32((code == np.uint32(0x111)) | (code == np.uint32(0x1A1)))
        viet += np.uint32(code == np.uint32(0x1B0))
        latin += np.uint32(code - np.uint32(0x61) < np.uint32(26))
        latin += np.uint32(code - np.uint32(0xDF) < np.uint32(0x4AB))  # Greek and Cyrillic as well
        han += np.uint32(code - np.uint32(0x3400) < np.uint32(0x6C00))
    letters = np.int64(kana + thai + hangul) + np.int64(semitic + indic) + np.int64(latin + han)
    size = codes.size
    most = max(np.int64(thai), np.int64(hangul), np.int64(semitic), np.int64(indic))
    if np.int64(kana) * _SOME > size and np.int64(kana) * _KANA_SHARE >= np.int64(kana + han):
        nearly_all = (letters - np.int64(kana + han)) * _OTHERS <= np.int64(kana + han)
        return JAPANESE if nearly_all else NONE
    if np.int64(viet) * _FEW > size:
        nearly_all = (letters - np.int64(latin)) * _OTHERS <= np.int64(latin)
        nearly_all &= np.int64(han) * _HAN <= np.int64(latin)
        return VIETNAMESE if nearly_all else NONE
    if most * _MANY <= size or (letters - most) * _OTHERS > most or np.int64(han) * _HAN > most:
        return NONE
    script = INDIC
    script = SEMITIC if np.int64(semitic) == most else script
    script = KOREAN if np.int64(hangul) == most else script
    return THAI if np.int64(thai) == most else script


@subkernel
def _is_letter(flags: Flags, i: int) -> bool:
    return flags[i] & SEPARATES == 0 or flags[i] & CLASS_MASK == EXTEND


@subkernel
def _is_digit(code: np.uint32) -> bool:
    return code - np.uint32(0x30) < np.uint32(10)


@subkernel
def _is_katakana(code: np.uint32) -> bool:
    return code - np.uint32(0x30A1) < np.uint32(0x5F) and code != np.uint32(0x30FB)


@subkernel
def _is_kanji(code: np.uint32) -> bool:
    return np.uint32(0x3400) <= code < np.uint32(0xA000) or code == np.uint32(0x3005)


@subkernel
def _is_thai(code: np.uint32) -> bool:
    neighbour = code - np.uint32(0x1000) < np.uint32(0xA0)
    neighbour |= code - np.uint32(0x1780) < np.uint32(0x80)
    return code - np.uint32(0x0E00) < np.uint32(0x100) or neighbour


@subkernel
def _run_end(flags: Flags, i: int) -> int:
    """Where the letters and digits from i on end."""
    while i < flags.size and _is_letter(flags, i):
        i += 1
    return i


@subkernel
def _polarity(
    prefixes: Hashes, powers: Hashes, table: Hashes, start: np.uint64, first: int, last: int
) -> int:
    """The polarity of codes[first:last]; 0 if they are no word of the list."""
    value = hash_slice(prefixes, powers, np.uint64(first), np.uint64(last), start)
    return np.int64(kind_of(table, value) & np.uint64(511)) >> 1


@subkernel
def _longest(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[int, int]:
    """The end and the polarity of the longest word of the list that begins at `first`, ends at
    `last` at most, and not before a mark; `first` and 0 if there is none."""
    reach = np.int64(_REACH[min(np.uint64(codes[first]), np.uint64(0xFFFF))])
    end = min(last, first + reach)
    while end > first:
        whole = end == codes.size or flags[end] & CLASS_MASK != EXTEND
        found = _polarity(prefixes, powers, table, start, first, end) if whole else 0
        if found:
            return end, found
        end -= 1
    return first, 0


@subkernel
def _cuts(codes: Codes, flags: Flags, first: int, last: int, script: int) -> bool:
    """Whether a clause ends at the separators codes[first:last]."""
    if first == 0 or last == codes.size:
        return False
    if last == first + 1 and _is_digit(codes[first - 1]) and _is_digit(codes[last]):
        return False  # 1.7
    cuts, space = False, False
    for i in range(first, last):
        space |= codes[i] <= np.uint32(_SPACE)
        joins = codes[i] == np.uint32(_SPACE) or codes[i] == np.uint32(_HYPHEN)
        cuts |= flags[i] & SYMBOL == SEPARATES and not joins and not is_wrap(codes, i)
    if script == THAI:
        cuts |= space and _is_thai(codes[first - 1]) and _is_thai(codes[last])
    return cuts


@subkernel
def _name(prefixes: Hashes, powers: Hashes, start: np.uint64, first: int, last: int) -> np.uint64:
    """What a name adds to the turn of its clause."""
    last = min(last, first + _LONG - 1)
    return hash_slice(prefixes, powers, np.uint64(first), np.uint64(last), start)


@subkernel
def _weigh(polar: int, value: np.uint64) -> tuple[np.uint64, np.uint64]:
    """What a word of the list adds to the words and to the turn of its clause; `value` is its
    hash."""
    if polar >= BODY and polar != GIVEN:
        return value, np.uint64(0)
    if polar in (NAME, GIVEN):
        return WORDS[NAME], value
    return WORDS[polar], TURNS[polar]


@subkernel
def _foreign(
    codes: Codes,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[np.uint64, np.uint64]:
    """The same of a word in other letters. One of up to three letters, or with a digit, is a name
    (A型, X2) unless the list has it; digits alone are compared by their places."""
    digits = 0
    for i in range(first, last):
        digits += 1 if _is_digit(codes[i]) else 0
    if digits == last - first:
        return np.uint64(0), np.uint64(0)
    value = _name(prefixes, powers, start, first, last)
    polar = 0
    if last - first < _LONG:
        polar = _polarity(prefixes, powers, table, start, first, last)
    if polar:
        return _weigh(polar, value)
    if digits or last - first <= 3:
        return WORDS[NAME], value
    stop = kind_of(table, value) & np.uint64(STOP)
    return np.uint64(0) if stop else value, np.uint64(0)


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
def _given_end(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    end: int,
    last: int,
) -> int:
    """Where a given name behind a surname that ends at `end` ends."""
    most = min(last, end + _FAMILY)
    while end < most and _is_kanji(codes[end]):
        after, other = _longest(codes, flags, prefixes, powers, table, start, end, last)
        if other == BODY or after > end + 1:
            break
        end += 1
    return end


@subkernel
def _ideographs(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    i: int,
    last: int,
) -> tuple[int, np.uint64, np.uint64]:
    """Where the ideographs from i on that begin no word of the list end, and their weights; they
    are a name before a body."""
    end, polar, words = i, 0, np.uint64(0)
    while end < last and _is_kanji(codes[end]) and not flags[end] & NUMERAL:
        polar = _longest(codes, flags, prefixes, powers, table, start, end, last)[1]
        if polar:
            break
        words += mix(np.uint64(codes[end]))
        end += 1
    if polar == BODY:
        return end, WORDS[NAME], _name(prefixes, powers, start, i, end)
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
def _japanese(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    i: int,
    last: int,
) -> tuple[int, np.uint64, np.uint64]:
    """Where what stands at i ends, and what it adds to the words and to the turn; `last` is where
    the letters from i on end."""
    words, turn = WORDS[NAME], np.uint64(0)
    end, polar = _longest(codes, flags, prefixes, powers, table, start, i, last)
    compound = _compound_end(codes, i, last) if end <= i + 1 else i
    if _is_katakana(codes[i]):
        end, turn = _katakana(codes, i)
    elif polar == SURNAME:
        end = _given_end(codes, flags, prefixes, powers, table, start, end, last)
        turn = _name(prefixes, powers, start, i, min(end, i + _FAMILY))
    elif compound > i:
        end, turn = compound, _name(prefixes, powers, start, i, compound)
    elif polar:
        words, turn = _weigh(polar, _name(prefixes, powers, start, i, end))
    elif not _is_kanji(codes[i]):
        end, words = i + 1, np.uint64(0)
    elif flags[i] & NUMERAL:
        end, turn = i + 1, mix(np.uint64(codes[i]))
    else:
        end, words, turn = _ideographs(codes, flags, prefixes, powers, table, start, i, last)
    return end, words, turn


@subkernel
def _thai(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    i: int,
    last: int,
) -> tuple[int, np.uint64, np.uint64]:
    """The same of Thai."""
    end, polar = _longest(codes, flags, prefixes, powers, table, start, i, last)
    if not polar:
        return i + 1, mix(np.uint64(codes[i])), np.uint64(0)
    words, turn = _weigh(polar, _name(prefixes, powers, start, i, end))
    if polar not in (TITLE, PERSON):
        return end, words, turn
    if end + 1 < codes.size and codes[end] == np.uint32(_SPACE) and _is_thai(codes[end + 1]):
        end += 1
        last = _run_end(flags, end)
    begin = end
    while end < last and _is_thai(codes[end]):
        looked = end == begin or end > begin + 2
        if looked and _longest(codes, flags, prefixes, powers, table, start, end, last)[1]:
            break
        end += 1
    if end - begin < 2:
        return begin, words, turn
    name = _name(prefixes, powers, start, begin, min(end, begin + _THAI_NAME))
    if polar == PERSON and end + 1 < codes.size and codes[end] == np.uint32(_SPACE):
        after = end + 1
        while after < codes.size and _is_thai(codes[after]):
            after += 1
        size = after - end - 1
        spaced = after < codes.size and codes[after] == np.uint32(_SPACE)
        if spaced and 1 < size <= _THAI_FAMILY:
            return after, words + WORDS[NAME], turn + name
    return end, words + WORDS[NAME], turn + name


@subkernel
def _korean(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[np.uint64, np.uint64]:
    """What a Korean word that is not in the list adds to the words and to the turn."""
    none = np.uint64(0)
    end = first
    while end < last and among(np.int64(codes[end]), _NUMBERS):
        end += 1
    if end > first and (end == last or among(np.int64(codes[end]), _COUNTED)):
        return WORDS[NAME], _name(prefixes, powers, start, first, end)
    particle = last == first + 2 and among(np.int64(codes[first + 1]), _PARTICLES)
    least = first if particle else first + 1
    end = min(last - 1, first + LONGEST)
    while end > least:
        polar = _polarity(prefixes, powers, table, start, first, end)
        if polar and polar != BODY:
            return _weigh(polar, _name(prefixes, powers, start, first, end))
        end -= 1
    for i in range(first + 1, last):
        end, polar = _longest(codes, flags, prefixes, powers, table, start, i, last)
        if polar == BODY and (end == last or among(np.int64(codes[end]), _PARTICLES)):
            body = _name(prefixes, powers, start, i, end)
            return WORDS[NAME] + body, _name(prefixes, powers, start, first, i)
    family = among(np.int64(codes[first]), _SURNAMES)
    end = first + _PERSON
    if family and (last == end or (last > end and among(np.int64(codes[end]), _PARTICLES))):
        # Most such words are no names, so that a wrong letter in the others turns nothing.
        return WORDS[NAME], _name(prefixes, powers, start, first, first + 1)
    end = min(last, first + _SYLLABLES)
    if last > first + 1 and among(np.int64(codes[first + 1]), _ENDINGS):
        end = first + 1
    return _name(prefixes, powers, start, first, end), none


@subkernel
def _phrase(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[int, int]:
    """The end and the polarity of the longest of one, two and three words from codes[first:last]
    on that the list has; `last` and 0 if it has none."""
    two, three = last, last
    if last + 1 < codes.size and codes[last] == np.uint32(_SPACE) and _is_letter(flags, last + 1):
        two = three = _run_end(flags, last + 1)
        if two + 1 < codes.size and codes[two] == np.uint32(_SPACE) and _is_letter(flags, two + 1):
            three = _run_end(flags, two + 1)
    reach = first + np.int64(_REACH[min(np.uint64(codes[first]), np.uint64(0xFFFF))])
    for end in (three, two, last):
        polar = 0
        if end <= reach:
            polar = _polarity(prefixes, powers, table, start, first, end)
        if polar:
            return end, polar
    return last, 0


@subkernel
def _without_prefixes(
    codes: Codes,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[int, int]:
    """Where a word of the list begins behind one to three Arabic or Hebrew prefixes, and its
    polarity; `first` and 0 if there is none."""
    for i in range(first + 1, min(first + 4, last - 1)):
        if not among(np.int64(codes[i - 1]), _PREFIXES):
            break
        if last - i < _LONG:
            polar = _polarity(prefixes, powers, table, start, i, last)
            if polar:
                return i, polar
    return first, 0


@subkernel
def _spaced(
    codes: Codes,
    flags: Flags,
    script: int,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    plain: np.uint64,
    i: int,
    titled: int,
) -> tuple[int, np.uint64, np.uint64, int]:
    """The same of a script with spaces; and how many of the next words are names.

    Args:
        plain: what hashes of words without the script's mark begin with.
        titled: how many of the words from i on are names.
    """
    last = i
    while last < codes.size and _is_letter(flags, last) and not _is_digit(codes[last]):
        last += 1
    end, polar = _phrase(codes, flags, prefixes, powers, table, start, i, last)
    begin = i
    if script == SEMITIC and not polar:
        begin, polar = _without_prefixes(codes, prefixes, powers, table, start, i, last)
    if script == VIETNAMESE and not polar and last - i < _LONG:  # English, say
        polar = _polarity(prefixes, powers, table, plain, i, last)
    if polar and polar != BODY:
        words, turn = _weigh(polar, _name(prefixes, powers, start, begin, end))
        titled = 2 if polar == PERSON else 1 if polar in (TITLE, GIVEN) else 0
        return end, words, turn, titled
    whole = _name(prefixes, powers, start, i, last)
    if titled:
        return last, WORDS[NAME], whole, titled - 1
    if script == KOREAN:
        words, turn = _korean(codes, flags, prefixes, powers, table, start, i, last)
        return last, words, turn, 0
    if script == SEMITIC and last > i + 3 and codes[i] in (_WAW, _VAV):
        whole = _name(prefixes, powers, start, i + 1, last)
    return last, whole, np.uint64(0), 0


@subkernel
def _read(
    codes: Codes,
    flags: Flags,
    script: int,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    plain: np.uint64,
    i: int,
    last: int,
    titled: int,
) -> tuple[int, np.uint64, np.uint64, int]:
    """Where what stands at i ends, what it adds to the words and to the turn, and how many of the
    next words are names."""
    latin = codes[i] < np.uint32(0x250) and script != VIETNAMESE
    if latin or _is_digit(codes[i]):
        end = i
        while end < codes.size and _is_letter(flags, end) and codes[end] < np.uint32(0x250):
            end += 1
        words, turn = _foreign(codes, prefixes, powers, table, plain, i, end)
    elif script == JAPANESE and codes[i] >= np.uint32(_FIRST_WIDE):
        end, words, turn = _japanese(codes, flags, prefixes, powers, table, start, i, last)
    elif script == THAI and _is_thai(codes[i]):
        end, words, turn = _thai(codes, flags, prefixes, powers, table, start, i, last)
    else:
        return _spaced(codes, flags, script, prefixes, powers, table, start, plain, i, titled)
    return end, words, turn, titled


@allocating_subkernel
def script_clauses(codes: Codes, flags: Flags, script: int, table: Hashes, keys: Hashes) -> Hashes:
    """Words and turn of each clause, uint64[n, 2].

    Args:
        script: what `script_of` gives, not NONE.
        table: of the words with a kind.
    """
    size = codes.size
    prefixes, powers = np.empty(size + 1, np.uint64), np.empty(_LONG, np.uint64)
    hash_prefixes(codes, flags, keys, prefixes, powers)
    plain = keys[TOKEN_START]
    start = plain
    if script == JAPANESE:
        start = plain * keys[TOKEN_BASE] + _MARK_JA
    elif script == VIETNAMESE:
        start = plain * keys[TOKEN_BASE] + _MARK_VI
    clauses = np.empty((size // 2 + 1, 2), np.uint64)
    written, words, turn, titled, i, last = 0, np.uint64(0), np.uint64(0), 0, 0, 0
    while i < size:
        if not _is_letter(flags, i):
            end = i
            while end < size and not _is_letter(flags, end):
                end += 1
            if _cuts(codes, flags, i, end, script):
                clauses[written, 0], clauses[written, 1] = mix(words), turn
                written += 1 if words else 0
                words = turn = np.uint64(0)
                titled = 0
            i = end
            continue
        if i >= last:  # once for all letters in a row: they may be a whole page
            last = _run_end(flags, i)
        end, more, turned, titled = _read(
            codes, flags, script, prefixes, powers, table, start, plain, i, last, titled
        )
        words += more
        turn += turned
        i = end
    if words:
        clauses[written, 0], clauses[written, 1] = mix(words), turn
        written += 1
    return clauses[:written]
