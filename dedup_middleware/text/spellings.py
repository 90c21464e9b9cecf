"""Brings numerals, times, measures and abbreviations, which sites spell in several ways, into one.

5 per cent is 5%, 5pm is 5 p.m., 6.30am is 6:30 a.m., U.S. is US, 23 km (14 miles) is 23 km.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.patterns import compiled_late

# Spellings of numerals that are made equal: 5 per cent is 5%, 5pm is 5 p.m., 6.30am is
# 6:30 a.m., в 16.40 is в 16:40 and 16.40 Uhr 16:40 Uhr.
_PER_CENT: Final = re.compile(r"(?<=\d) per ?cent\b")
_HAS_PER_CENT: Final = re.compile(r"per(?<=\d per) ?cent\b")  # a letter is looked for faster
_PERCENT: Final = re.compile(r"(?<=\d)(?:퍼센트|パーセント| (?:في |ب)(?:المئة|المائة))")
_NOON: Final = re.compile(r"(?<=\d)([ap])m\b")  # 5pm is 5 p.m.
_HAS_NOON: Final = re.compile(r"m(?<=\d[ap]m)\b")
# They begin with the point, which is found faster than a digit or a letter.
_INITIALS: Final = re.compile(  # U.S. is US
    r"\.(?<=[A-Z]\.)(?:(?=[A-Z]\.)(?<=\b[A-Z]\.)|(?<=\b[A-Z]\.[A-Z]\.))"
)
_POINTED: Final = re.compile(r"\.(?<=\d\.)[0-5]\d")
_CLOCK: Final = re.compile(r"\.(?<=[0-9]\.)([0-5][0-9]) ?([ap])(?:m\b|\.m\b\.?)")
_BEFORE_HOURS: Final = (
    "[ВКСвкс] до около после ore alle dalle le las às saat godz\\. godzinie godziny".split()
)
_DIGIT: Final = r"\d"


def _behind_hour(hour: str) -> str:
    words = "|".join(rf"(?<=\b{word} {hour}\.)" for word in _BEFORE_HOURS)
    # Their ends are looked at first: most prices follow other words.
    ends = "".join(word.strip("[]") if "[" in word else word[-1] for word in _BEFORE_HOURS)
    return rf"(?<=[{ends}] {hour}\.)(?:{words})"


_HOUR: Final = re.compile(
    r"\.(?<=\d\.)(?<![.\d]\d\d\.)(?<!\.\d\.)(?=[0-5]\d(?!\.?\d))(?:(?=\d\d ?(?:Uhr|uur|horas|h)\b)"
    rf"|{_behind_hour(_DIGIT)}|{_behind_hour(_DIGIT * 2)})"
)
# A timetable keeps its points: 6:40 is two numerals, of which few get places.
_MOST_HOURS: Final = 8
_CIRCLES: Final = re.compile("(?<=[一二三四五六七八九])○+")  # for zeros: 二○○六年
# A measure in other units behind it: 23 km (14 miles) is 23 km.
_UNIT: Final = (
    r"(?:miles?|km|kms|kilomet(?:er|re)s?|met(?:er|re)s?|feet|foot|ft|inch(?:es)?|cm|mm|yards?"
    r"|centimet(?:er|re)s?|millimet(?:er|re)s?|acres?|hectares?|pounds?|lbs?|kg|kilogram(?:me)?s?"
    r"|grams?|ounces?|oz|tons?|tonnes?|gallons?|lit(?:er|re)s?|mph|kph|km/h|kmh|°? ?[CF]"
    r"|(?:degrees? )?(?:Celsius|Fahrenheit))"
)
_MEASURE: Final = rf"\d[\d,.]*(?:[ -](?:million|billion|square|sq|cubic))*[ -]?({_UNIT})"
_CONVERTED: Final = re.compile(
    rf" \((?=[\da-s])(?:(?:about|around|roughly|approximately|nearly|some) )?{_MEASURE}\)"
)
# Spellings of one unit, in which a second measure is another fact: 90 kg (80 kg).
_UNITS: Final = {
    "kilomet": "km", "km": "km", "met": "m", "centimet": "cm", "millimet": "mm", "kilogram": "kg",
    "feet": "ft", "foot": "ft", "pound": "lb", "ounce": "oz", "kph": "km/h", "kmh": "km/h",
    "inche": "inch", "celsiu": "c", "fahrenheit": "f",
}  # fmt: skip
_IS_MEASURE: Final = re.compile(rf"\b{_MEASURE}$")
_LONGEST_MEASURE: Final = 40
_PER_HUNDRED: Final = re.compile(r"[Yy]üzde (?=\d)")  # Turkish
# Russian words behind a numeral are read in one form: 4,8 млн т is 4,8 миллионов тонн.
_BEHIND: Final = "behind-"
_SPELT: Final = {
    word: name.removeprefix(_BEHIND)
    for name, words in word_lists().items()
    if name.startswith(_BEHIND)
    for word in (*words, name.removeprefix(_BEHIND))
}
# A point stays where it may end a sentence.
_SHORT: Final = r"\b(?:\.(?= ?[^\sА-ЯЁA-Z«\"]))?"
_WORD: Final = rf"(?:{'|'.join(sorted(_SPELT))}){_SHORT}"
_MEASURED: Final = compiled_late(
    rf"[0-9] (?=[а-я])(?:(?:{_WORD} ){{0,2}}{_WORD}|(?<=\b[12]\d\d\d )г{_SHORT})"
)


def in_one_spelling(text: str) -> str:
    """A text with numerals and abbreviations in one spelling.

    >>> in_one_spelling("It ends at 5pm, 4 per cent later")
    'It ends at 5 p.m., 4% later'
    """
    if _HAS_PER_CENT.search(text):
        text = _PER_CENT.sub("%", text)
    if _HAS_NOON.search(text):
        text = _NOON.sub(r" \1.m.", text)
    if "(" in text:
        text = _CONVERTED.sub(_unless_converted, text)
    if "ü" in text and "üzde " in text:
        text = _PER_HUNDRED.sub("%", text)
    if "퍼" in text or "パ" in text or "ئ" in text:  # a letter of each: found faster
        text = _PERCENT.sub("%", text)
    if "." in text:  # many Chinese texts have none
        text = _INITIALS.sub("", text)
        if _POINTED.search(text):
            text = _CLOCK.sub(r":\1 \2.m.", text)
            hours, times = _HOUR.subn(":", text)
            text = hours if times <= _MOST_HOURS else text
    if "○" in text:
        text = _CIRCLES.sub(lambda found: "〇" * len(found[0]), text)
    return _MEASURED().sub(_spelt, text) if "о" in text else text


def _unless_converted(match: re.Match[str]) -> str:
    end = match.start()
    measure = _IS_MEASURE.search(match.string, max(0, end - _LONGEST_MEASURE), end)
    return match[0] if measure is None or _unit(measure[1]) == _unit(match[1]) else ""


def _unit(written: str) -> str:
    """A unit in one spelling.

    >>> [_unit(written) for written in ("kilometres", "km", "° C", "Celsius")]
    ['km', 'km', 'c', 'c']
    """
    unit = written.lower().removeprefix("degrees").strip("° ")
    stem = unit.rstrip("s").removesuffix("re").removesuffix("er").removesuffix("me")
    return _UNITS.get(stem, stem)


def _spelt(match: re.Match[str]) -> str:
    number, *words = match[0].split()
    return " ".join((number, *(_SPELT.get(word.strip("."), "года") for word in words)))
