"""Russian and Ukrainian sentences and clauses that say which medium or body reported something.

Each site that reprints a report adds one of its own, or puts one for another: `Об этом сообщает
ТАСС.`, `, сообщили в прокуратуре`, `Как передает «Маяк»,`. They are not compared. Each of their
words is in a list, or is a name in quotation marks or in capitals, or of a place behind the word
for a body; those with a person's name or any other word are compared.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists


def _any_of(name: str) -> str:
    return "|".join(map(re.escape, word_lists()[name])).replace("е", "[её]")


# Not to whom something was told: сообщили в полицию, передает в районный отдел.
_TELLS: Final = (
    rf"(?:{_any_of('telling')})(?! (?:в|во|на|у) [а-яёіїєґ-]+(?=[ .,])(?<![еиіїхм])(?<!ой|ей))"
)
_PLACE: Final = "[А-ЯІЇЄҐ][а-яёіїєґ'’-]+"
_WHO: Final = (
    rf"(?:[«\"“][^«»\"“”.\n]{{2,40}}[»\"”]|[А-ЯЁІЇЄҐA-Z]{{2,}}(?:-[А-ЯЁІЇЄҐA-Z]+)?(?:\.(?:RU|COM))?"
    rf"|(?i:{_any_of('media')})|(?:{_any_of('bodies')})\w*(?: {_PLACE})?"
    rf"|(?i:{_any_of('tellers')})\w*(?:-канал\w*)?|{_PLACE}(?= (?:област|кра[йяюе]|район))"
    r"|прес{1,2}-?служб\w*(?: [а-яёіїєґ]{4,}){0,2}|в|во|на|со|с|по|из|у|із|з)(?=[ .,])"
)
_SOURCE: Final = rf"{_WHO}(?: {_WHO}){{0,9}}"
_BY: Final = rf"(?:{_SOURCE} )?{_TELLS} {_SOURCE}"
_STOP: Final = r"\.(?: |(?=\n)|$)"
_GOES_ON: Final = ', (?=[а-яёіїєґ«"])'
#: forms by what each begins with: capitals begin sentences
_FORMS: Final = tuple(
    (cue, re.compile(cue + form))
    for cue, form in (
        ("Об этом ", _BY + _STOP),
        ("Про це ", _BY + _STOP),
        ("Такие данные ", _BY + _STOP),
        (", ", rf"(?:[—–-] )?{_TELLS} {_SOURCE}(?=\.(?:\s|$)|, )"),
        (" — ", rf"{_TELLS} {_SOURCE}(?=\.(?:\s|$)|, )"),
        ("Как ", _BY + _GOES_ON),
        ("Як ", _BY + _GOES_ON),
        ("По ", rf"(?:данным|информации|сообщению) {_SOURCE}{_GOES_ON}"),
        ("За ", rf"(?:даними|інформацією) {_SOURCE}{_GOES_ON}"),
    )
)


def without_attributions(text: str) -> str:
    """The text without what says which medium or body reported it.

    >>> without_attributions("Мост закрыт до мая, сообщает ТАСС. Объезд найден.")
    'Мост закрыт до мая. Объезд найден.'
    >>> without_attributions("По данным полиции, мост закрыт. Об этом сообщил мэр.")
    'мост закрыт. Об этом сообщил мэр.'
    """
    for cue, form in _FORMS:
        text = form.sub("", text) if cue in text else text
    return text
