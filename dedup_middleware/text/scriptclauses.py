"""Clauses of texts in Vietnamese and in scripts without capitals, where a token is not a word.

Japanese and Thai have no spaces between words, Vietnamese writes each syllable by itself, and words
in Korean, Arabic and Hebrew include what is a separate word elsewhere. Only Vietnamese writes names
with capitals. So clauses are read from the letters, with the list of words and
the two numbers, words and turn, of :mod:`dedup_middleware.text.clauses`:

- **Japanese**: the longest listed word at each place. Other hiragana are endings and are ignored,
  so that できる and できない have the same words. A katakana word is a name, known by its first two
  kana, so that a misspelt one stays the same. Names are also a surname with the given name behind
  it, ideographs before a body (北浜市, 共栄銀行) or before katakana (東山クラブ), and Chinese
  numerals.
- **Thai** and its neighbours: the longest listed word at each place; a name follows a title (นาย,
  บริษัท). A space between two letters ends a clause, as full stops are rare.
- **Korean**: the longest listed word that begins a word; of other words the first two syllables,
  since the rest are endings. Three syllables that begin with a surname are a name, known by the
  surname, and so is the part before a body in the same word (북천시는).
- **Arabic, Hebrew**: listed words, also with prefixes. The word after a title or a given name is a
  name.
- **Hindi, Vietnamese**: listed words, also of several syllables (một số).

A page is read in this way if nearly all of its letters are of one of these scripts. A page in two
languages is read by its tokens, as the words of the other language would be lost. Tokens, shingles
and figures are the same either way.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.text.characters import (
    FIRST_WIDE,
    NUMERAL,
    SEPARATES,
    SYMBOL,
    Codes,
    Flags,
    Hashes,
    code_set,
    word_lists,
)
from dedup_middleware.text.clauses import (
    BODY,
    GIVEN,
    HYPHEN,
    LONG,
    MARKS,
    NAME,
    PERSON,
    SPACE,
    STOP,
    SURNAME,
    TITLE,
    WORDS,
    is_letter,
    listed,
    longest_word,
    name_value,
    reach,
    run_end,
    weigh,
)
from dedup_middleware.text.hashing import (
    TOKEN_BASE,
    TOKEN_START,
    HashedText,
    hash_prefixes,
    kind_of,
    mix,
)
from dedup_middleware.text.numerals import among, is_digit, is_wrap

_KANA: Final = 2  # kana of a katakana word that count
_FAMILY: Final = 3  # most characters of a Japanese name that count, and of a given name
_COMPOUND: Final = 4  # most ideographs before katakana that are a name
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
    """Whether a code point is of Thai or of a neighbouring script."""
    neighbour = code - np.uint32(0x1000) < np.uint32(0xA0)
    neighbour |= code - np.uint32(0x1780) < np.uint32(0x80)
    return code - np.uint32(0x0E00) < np.uint32(0x100) or neighbour


@subkernel
def _katakana(codes: Codes, first: int) -> tuple[int, np.uint64]:
    """The end of a katakana word, and what it adds to the turn: a hash of its first kana without
    marks of voiced sounds and long vowels."""
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
    """The end of the given name behind a surname that ends at `end`."""
    most = min(last, end + _FAMILY)
    while end < most and _is_kanji(text.codes[end]):
        after, other = longest_word(text, end, last)
        if other == BODY or after > end + 1:
            break
        end += 1
    return end


@subkernel
def _ideographs(text: HashedText, i: int, last: int) -> tuple[int, np.uint64, np.uint64]:
    """Read the ideographs from i on that begin no listed word: their end, and what they add to
    words and turn. Before a body they are a name."""
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
    """The end of two to four ideographs between i and katakana; i if there are none."""
    if i > 0 and _is_kanji(codes[i - 1]):
        return i
    end = i
    while end < last and _is_kanji(codes[end]):
        end += 1
    joined = end < last and _is_katakana(codes[end]) and 2 <= end - i <= _COMPOUND
    return end if joined else i


@subkernel
def read_japanese(text: HashedText, i: int, last: int) -> tuple[int, np.uint64, np.uint64]:
    """Read the word or character at i; return its end, and what it adds to the words and to the
    turn. `last` is the end of the letters from i on."""
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
    """As :func:`read_japanese`, for Thai."""
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


NONE, JAPANESE, THAI, KOREAN, SEMITIC, INDIC, VIETNAMESE = range(7)
# A text is of a script if more than one in n of its characters are letters that only Vietnamese has
# (_FEW), kana for Japanese (_SOME), or letters of the script for all others (_MANY).
_FEW, _SOME, _MANY = 12, 8, 3
# At most one letter of another script to _OTHERS of the script, and one ideograph to _HAN; of
# Japanese letters at least one in _KANA_SHARE is kana.
_OTHERS, _HAN, _KANA_SHARE = 5, 20, 3
LONGEST: Final = 24  # most characters of a listed word, spaces included
_SYLLABLES: Final = 2  # syllables of a Korean word that count
_PERSON: Final = 3  # syllables of a Korean name
_PREFIXES: Final = code_set("وفبلكساהובלמשכ")
_WAW, _VAV, _LAM, _HE = map(ord, ("و", "ו", "ل", "ה"))  # and; ends of "the"
_PARTICLES: Final = code_set("은는이가을를의에와과도로씨님만")
_ENDINGS: Final = code_set("지는은을고게면기던다")
_NUMBERS: Final = code_set("일이삼사오육칠팔구십백천만억조")
_COUNTED: Final = code_set("원명년월일분초시개위번호차회층대살세")
_SURNAMES: Final = code_set("".join(word_lists()["korean-surnames"]))
_MARK_JA, _MARK_VI = (np.uint64(ord(MARKS[name])) for name in ("ja", "vi"))


@subkernel
def script_of(codes: Codes) -> int:
    """The script or language, as numbered above, of nearly all letters of a text, else NONE."""
    some = False
    for i in range(np.uint64(codes.size)):  # most texts have no letter of any of them
        code = codes[i]
        some |= code - np.uint32(0x591) < np.uint32(0x1969)  # from Hebrew to Vietnamese
        some |= code - np.uint32(0x3041) < np.uint32(0xBF)
        some |= code - np.uint32(0xAC00) < np.uint32(0x2BA4)
        some |= (code == np.uint32(0x111)) | (code == np.uint32(0x1A1)) | (code == np.uint32(0x1B0))
    if not some:
        return NONE
    kana, thai, hangul = np.uint32(0), np.uint32(0), np.uint32(0)
    semitic, indic, viet = np.uint32(0), np.uint32(0), np.uint32(0)
    latin, han = np.uint32(0), np.uint32(0)
    for i in range(np.uint64(codes.size)):  # without a branch: vectorised
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
def _cuts(codes: Codes, flags: Flags, first: int, last: int, script: int) -> bool:
    """Whether a clause ends at the separators codes[first:last]."""
    if first == 0 or last == codes.size:
        return False
    if last == first + 1 and is_digit(codes, first - 1) and is_digit(codes, last):
        return False  # 1.7
    cuts, space = False, False
    for i in range(first, last):
        space |= codes[i] <= np.uint32(SPACE)
        joins = codes[i] == np.uint32(SPACE) or codes[i] == np.uint32(HYPHEN)
        cuts |= flags[i] & SYMBOL == SEPARATES and not joins and not is_wrap(codes, i)
    if script == THAI:
        cuts |= space and is_thai(codes[first - 1]) and is_thai(codes[last])
    return cuts


@subkernel
def _foreign(text: HashedText, first: int, last: int) -> tuple[np.uint64, np.uint64]:
    """What a word in other letters adds to the words and to the turn. Unless listed, one of up to
    three letters or with a digit is a name (A型, X2); a number does not count."""
    digits = 0
    for i in range(first, last):
        digits += 1 if is_digit(text.codes, i) else 0
    if digits == last - first:
        return np.uint64(0), np.uint64(0)
    value = name_value(text, first, last)
    polar = listed(text, first, last) if last - first < LONG else 0
    if polar:
        return weigh(polar, value)
    if digits or last - first <= 3:
        return WORDS[NAME], value
    stop = kind_of(text.kinds, value) & np.uint64(STOP)
    return np.uint64(0) if stop else value, np.uint64(0)


@subkernel
def _korean(text: HashedText, first: int, last: int) -> tuple[np.uint64, np.uint64]:
    """What an unlisted Korean word adds to the words and to the turn."""
    codes, none, end = text.codes, np.uint64(0), first
    while end < last and among(np.int64(codes[end]), _NUMBERS):
        end += 1
    if end > first and (end == last or among(np.int64(codes[end]), _COUNTED)):
        return WORDS[NAME], name_value(text, first, end)
    particle = last == first + 2 and among(np.int64(codes[first + 1]), _PARTICLES)
    least = first if particle else first + 1
    end = min(last - 1, first + LONGEST)
    while end > least:
        polar = listed(text, first, end)
        if polar and polar != BODY:
            return weigh(polar, name_value(text, first, end))
        end -= 1
    for i in range(first + 1, last):
        end, polar = longest_word(text, i, last)
        if polar == BODY and (end == last or among(np.int64(codes[end]), _PARTICLES)):
            return WORDS[NAME] + name_value(text, i, end), name_value(text, first, i)
    family = among(np.int64(codes[first]), _SURNAMES)
    end = first + _PERSON
    if family and (last == end or (last > end and among(np.int64(codes[end]), _PARTICLES))):
        # Most such words are no names; only the surname counts, so that misspelt ones stay equal.
        return WORDS[NAME], name_value(text, first, first + 1)
    end = min(last, first + _SYLLABLES)
    if last > first + 1 and among(np.int64(codes[first + 1]), _ENDINGS):
        end = first + 1
    return name_value(text, first, end), none


@subkernel
def _word_behind(text: HashedText, last: int) -> int:
    """The end of the next word if only a space is between it and `last`; else `last`."""
    codes, behind = text.codes, last + 1
    if behind < codes.size and codes[last] == np.uint32(SPACE) and is_letter(text.flags, behind):
        return run_end(text.flags, behind)
    return last


@subkernel
def _phrase(text: HashedText, first: int, last: int) -> tuple[int, int]:
    """End and polarity of the longest listed phrase of up to three words from `first` on; `last`,
    where the first word ends, and 0 if there is none."""
    two = _word_behind(text, last)
    three = _word_behind(text, two)
    most = first + reach(text.codes[first])
    for end in (three, two, last):
        polar = listed(text, first, end) if end <= most else 0
        if polar:
            return end, polar
    return last, 0


@subkernel
def _without_prefixes(text: HashedText, first: int, last: int) -> tuple[int, int]:
    """Begin and polarity of a listed word behind one to three prefixes, else (`first`, 0)."""
    for i in range(first + 1, min(first + 4, last - 1)):
        if not among(np.int64(text.codes[i - 1]), _PREFIXES):
            break
        polar = listed(text, i, last) if last - i < LONG else 0
        if polar:
            return i, polar
    return first, 0


@subkernel
def _spaced(
    text: HashedText, plain: HashedText, script: int, i: int, titled: int
) -> tuple[int, np.uint64, np.uint64, int]:
    """As :func:`_read`, for a script with spaces.

    :param plain: the text with hashes of words without the mark of their language.
    :param titled: whether the word at i is a name: 1 behind a title, 2 if the next word is one as
        well, 3 behind a given name or the first of two names; else 0.
    """
    codes, last = text.codes, i
    while last < codes.size and is_letter(text.flags, last) and not is_digit(codes, last):
        last += 1
    end, polar = _phrase(text, i, last)
    begin = i
    if script == SEMITIC and not polar:
        begin, polar = _without_prefixes(text, i, last)
    if script == VIETNAMESE and not polar and last - i < LONG:  # English, say
        polar = listed(plain, i, last)
    if polar and polar != BODY and not (polar == GIVEN and titled in (1, 2)):
        words, turn = weigh(polar, name_value(text, begin, end))
        definite = begin > i and codes[begin - 1] == (_LAM if begin > i + 1 else _HE)
        titled = 2 if polar == PERSON else 3 if polar == GIVEN else polar == TITLE and not definite
        return end, words, turn, np.int64(titled)
    if titled:
        return last, WORDS[NAME], name_value(text, i, last), 3 if titled == 2 else 0
    if script == KOREAN:
        words, turn = _korean(text, i, last)
        return last, words, turn, 0
    joined = script == SEMITIC and last > i + 3 and codes[i] in (_WAW, _VAV)
    return last, name_value(text, i + 1 if joined else i, last), np.uint64(0), 0


@subkernel
def _read(
    text: HashedText, plain: HashedText, script: int, i: int, last: int, titled: int
) -> tuple[int, np.uint64, np.uint64, int]:
    """Read the word or character at i; return its end, what it adds to the words and to the turn,
    and `titled` of the next word (see `_spaced`)."""
    codes = text.codes
    latin = codes[i] < np.uint32(0x250) and script != VIETNAMESE
    if latin or is_digit(codes, i):
        end = i
        while end < codes.size and is_letter(text.flags, end) and codes[end] < np.uint32(0x250):
            end += 1
        words, turn = _foreign(plain, i, end)
    elif script == JAPANESE and codes[i] >= np.uint32(FIRST_WIDE):
        end, words, turn = read_japanese(text, i, last)
    elif script == THAI and is_thai(codes[i]):
        end, words, turn = read_thai(text, i, last)
    else:
        return _spaced(text, plain, script, i, titled)
    return end, words, turn, titled


@allocating_subkernel
def script_clauses(codes: Codes, flags: Flags, script: int, table: Hashes, keys: Hashes) -> Hashes:
    """Words and turn of each clause, uint64[n, 2].

    :param script: result of `script_of`, not NONE.
    :param table: table of the words with a kind.
    """
    size = codes.size
    prefixes, powers = np.empty(size + 1, np.uint64), np.empty(LONG, np.uint64)
    hash_prefixes(codes, flags, keys, prefixes, powers)
    start = keys[TOKEN_START]
    plain = HashedText(codes, flags, prefixes, powers, table, start)
    if script == JAPANESE:
        start = start * keys[TOKEN_BASE] + _MARK_JA
    elif script == VIETNAMESE:
        start = start * keys[TOKEN_BASE] + _MARK_VI
    text = HashedText(codes, flags, prefixes, powers, table, start)
    clauses = np.empty((size // 2 + 1, 2), np.uint64)
    written, words, turn, titled, i, last = 0, np.uint64(0), np.uint64(0), 0, 0, 0
    while i < size:
        if not is_letter(flags, i):
            end = i
            while end < size and not is_letter(flags, end):
                end += 1
            if _cuts(codes, flags, i, end, script):
                clauses[written, 0], clauses[written, 1] = mix(words), turn
                written += 1 if words else 0
                words = turn = np.uint64(0)
                titled = 0
            i = end
            continue
        if i >= last:  # once for a whole row of letters, which may be as long as the page
            last = run_end(flags, i)
        i, more, turned, titled = _read(text, plain, script, i, last, titled)
        words += more
        turn += turned
    if words:
        clauses[written, 0], clauses[written, 1] = mix(words), turn
        written += 1
    return clauses[:written]
