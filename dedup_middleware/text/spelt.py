"""Numerals and English months that are written as words: three is 3, Sept. is September.

A desk writes "three years" where another one writes "3 years", so such a word has the hash of the
digits as a token, and the value of the numeral. Only whole numbers up to 200 in one word are meant,
and no numerals of an order (third); words that mean something else in another language, such as
the French *sept*, are what they are in English.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.hashing import TOKEN_BASE, TOKEN_START, mix
from dedup_middleware.text.numerals import (
    among,
    at,
    look_up,
    pack,
    perfect_hash,
    word_after,
)

_NUMBERS: Final = {
    2: "two zwei deux dos dois два две двух двое",
    3: "three drei trois tres três три трех",
    4: "four vier quatre cuatro quattro quatro четыре четырех",
    5: "five fünf cinq cinco cinque пять пяти",
    6: "six sechs seis шесть шести",
    7: "seven sieben siete sette семь семи",
    8: "eight acht huit ocho otto oito восемь восьми",
    9: "nine neun neuf nueve девять девяти",
    10: "ten zehn diez dieci dez десять десяти",
    11: "eleven onze одиннадцать",
    12: "twelve zwölf douze doce двенадцать",
    13: "thirteen dreizehn treize тринадцать",
    14: "fourteen vierzehn quatorze catorce четырнадцать",
    15: "fifteen fünfzehn quinze пятнадцать",
    16: "sixteen sechzehn seize dieciséis шестнадцать",
    17: "seventeen siebzehn diecisiete семнадцать",
    18: "eighteen achtzehn dieciocho восемнадцать",
    19: "nineteen neunzehn diecinueve девятнадцать",
    20: "twenty zwanzig vingt veinte venti vinte двадцать",
    30: "thirty dreißig trente treinta trenta trinta тридцать",
    40: "forty vierzig quarante cuarenta quaranta quarenta сорок",
    50: "fifty fünfzig cinquante cincuenta cinquanta пятьдесят",
    60: "sixty sechzig soixante sesenta sessanta sessenta шестьдесят",
    70: "seventy siebzig setenta settanta семьдесят",
    80: "eighty achtzig ochenta ottanta oitenta восемьдесят",
    90: "ninety neunzig noventa novanta девяносто",
    100: "сто",
    200: "zweihundert двести",
}
_MONTHS: Final = (
    "january jan", "february feb", "april apr", "june jun", "july jul", "august aug",
    "september sept", "october oct", "november nov", "december dec",
)  # fmt: skip
#: short names of months, which are numerals in words as the long ones are
SHORT_MONTHS: Final = frozenset(names.split()[1] for names in _MONTHS)
NO_NUMBER: Final = 0  # of any other numeral in words, such as thousand
_FIRST_MONTH: Final = 1000
# Before a unit, a fraction or a multiplier a numeral is another one: "six pct" is not the 6 of
# "6-3/16 pct".
_MEASURES: Final = np.array(
    [
        pack(word)
        for word in (
            "pct percent per point points hundred thousand million billion trillion mln bln dlr "
            "dlrs dollar dollars euro euros pound pounds cts cent cents and"
        ).split()
    ],
    np.int64,
)
_SPACE, _HYPHEN, _SLASH = ord(" "), ord("-"), ord("/")
_PLACE: Final = 33  # of a polynomial of code points
_KEY: Final = (1 << 62) - 1


def _key(word: str) -> int:
    value = 0
    for letter in word:
        value = value * _PLACE + ord(letter) & _KEY
    return value


_MEANT: Final = {word: number for number, words in _NUMBERS.items() for word in words.split()} | {
    name: _FIRST_MONTH + month for month, names in enumerate(_MONTHS) for name in names.split()
}
_MULTIPLIER, _KEYS, _VALUES = perfect_hash(
    {_key(word): number for word, number in _MEANT.items()}, NO_NUMBER
)


@subkernel
def read_spelt(
    codes: NDArray[np.uint32], first: np.uint64, last: np.uint64, keys: NDArray[np.uint64]
) -> tuple[int, np.uint64]:
    """The number that a word says which is known as a numeral, and the hash of the token that it
    is taken for, 0 if it is no other one; of a month `NO_NUMBER`, and one hash for all its
    names."""
    key = np.int64(0)
    for i in range(first, last):
        key = key * np.int64(_PLACE) + np.int64(codes[i]) & np.int64(_KEY)
    meant = look_up(key, _MULTIPLIER, _KEYS, _VALUES, NO_NUMBER)
    behind = at(codes, np.int64(last))
    if behind == _SPACE and meant < _FIRST_MONTH:
        measured = among(word_after(codes, np.int64(last) + 1)[0], _MEASURES)
    else:
        measured = meant < _FIRST_MONTH and behind in (_HYPHEN, _SLASH)
    if meant == NO_NUMBER or measured:
        return NO_NUMBER, np.uint64(0)
    value, base = keys[TOKEN_START], keys[TOKEN_BASE]
    if meant >= _FIRST_MONTH:
        return NO_NUMBER, mix(value * base + np.uint64(0x110000 + meant))
    if meant >= 100:
        value = value * base + np.uint64(48 + meant // 100)
    if meant >= 10:
        value = value * base + np.uint64(48 + meant // 10 % 10)
    return meant, mix(value * base + np.uint64(48 + meant % 10))
