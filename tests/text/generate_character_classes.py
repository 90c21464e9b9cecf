"""Writes `dedup_middleware/text/data/character_classes.txt` from the `regex` package.

    python tests/text/generate_character_classes.py

`regex` knows the Word_Break property of UAX #29; Python's unicodedata does not. The table is
shipped so that every Python and every machine cuts words alike.
"""

from __future__ import annotations

from pathlib import Path

import regex

# Order matters: the first pattern that matches names the class.
PATTERNS = (
    ("extend", r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"),
    (
        "sa",
        r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{New_Tai_Lue}\p{Tai_Le}\p{Tai_Tham}"
        r"\p{Tai_Viet}]&&\p{L}&&\p{WB=Other}]",
    ),
    ("letter", r"\p{WB=ALetter}"),
    ("hebrew", r"\p{WB=Hebrew_Letter}"),
    ("numeric", r"\p{WB=Numeric}"),
    ("katakana", r"\p{WB=Katakana}"),
    ("connector", r"\p{WB=ExtendNumLet}"),
    ("mid_letter", r"\p{WB=MidLetter}"),
    ("mid_number", r"\p{WB=MidNum}"),
    ("mid_both", r"\p{WB=MidNumLet}"),
    ("single_quote", r"\p{WB=Single_Quote}"),
    ("double_quote", r"\p{WB=Double_Quote}"),
    ("regional", r"\p{WB=Regional_Indicator}"),
    ("emoji", r"[\p{Extended_Pictographic}&&\p{So}&&[\U0001F000-\U0001FAFF]]"),
    ("single", r"[\p{L}\p{N}\p{WB=Other}&&[\p{L}\p{N}]]"),
    ("symbol", r"[[\p{So}\p{Sm}\p{Sc}\p{Co}]&&\p{WB=Other}]"),
)


def ranges() -> list[tuple[int, int, str]]:
    """Maximal runs of code points of one class, ascending; separators are left out."""
    names = ["separator"] * 0x110000
    everything = "".join(map(chr, range(0x110000)))
    for name, pattern in reversed(PATTERNS):
        for match in regex.finditer(pattern, everything, regex.V1):
            names[match.start()] = name
    found: list[tuple[int, int, str]] = []
    for code, name in enumerate(names):
        if name == "separator":
            continue
        if found and found[-1][1] == code - 1 and found[-1][2] == name:
            found[-1] = (found[-1][0], code, name)
        else:
            found.append((code, code, name))
    return found


def render() -> str:
    """The file's text: one `first last class` line a run, code points in hexadecimal."""
    head = (
        "# Word classes of Unicode code points, derived from the Word_Break, Script and\n"
        "# General_Category properties of the Unicode Character Database (Unicode licence v3,\n"
        "# see LICENSE.unicode). Written by tests/text/generate_character_classes.py.\n"
    )
    return head + "".join(f"{a:X} {b:X} {name}\n" for a, b, name in ranges())


if __name__ == "__main__":
    target = Path(__file__).parents[2] / "dedup_middleware/text/data/character_classes.txt"
    target.write_text(render(), encoding="utf-8")
