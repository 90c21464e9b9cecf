"""Plain Python twin of :mod:`dedup_middleware.text.scriptclauses`, by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from dedup_middleware.text import scriptclauses as module
from dedup_middleware.text.characters import CLASS_MASK, EXTEND, SEPARATES, SYMBOL, word_classes
from dedup_middleware.text.clauses import (
    BODY,
    GIVEN,
    MARKS,
    MONTHS,
    NAME,
    NUMBER_WORDS,
    PERSON,
    SURNAME,
    TITLE,
    TURNS,
    WORDS,
    polarity,
    stop_words,
)
from dedup_middleware.text.hashing import constants
from tests.text.nametwins import unwrapped
from tests.text.oracles import MASK, hash_word, mix

KANJI, KATAKANA = "[\u3400-\u9fff\u3005]", "[\u30a1-\u30fa\u30fc-\u30ff]"
THAI = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
CHINESE_NUMERALS = "〇零一二三四五六七八九十百千万亿两壹贰叁肆伍陆柒捌玖拾佰仟萬億兩貳參陸點廿卅"
PREFIXES, PARTICLES = "وفبلكساהובלמשכ", "은는이가을를의에와과도로씨님만"
# Of the first column the second.
VOICELESS = str.maketrans(
    "ガギグゲゴザジズゼゾダヂッヅデドバパビピブプベペボポカキクケコサシスセソタチツテトハヒフヘホ",
    "カキクケコサシスセソタチッツテトハハヒヒフフヘヘホホカキクケコサシスセソタチツテトハヒフヘホ",
)
SCRIPTS = {
    module.THAI: THAI,
    module.KOREAN: "[\uac00-\ud7a3]",
    module.SEMITIC: "[\u0591-\u077f]",
    module.INDIC: "[\u0900-\u097f]",
}
KANA, HAN, LATIN = "[\u3041-\u30ff]", "[\u3400-\u9fff]", "[a-z\u00df-\u0589]"
Weight = tuple[int, int]
#: the list, and numerals written as words, each of which excludes the others
STOPS = frozenset[str]().union(*stop_words().values())
KNOWN = {**dict.fromkeys(NUMBER_WORDS - MONTHS, NAME), **polarity().words}


def script_of(text: str) -> int:
    """Twin: the script that has its share of the characters and nearly all of the letters."""

    def number(letters: str) -> int:
        return len(re.findall(letters, text))

    parts = {script: number(letters) for script, letters in SCRIPTS.items()}
    kana, han, latin = number(KANA), number(HAN), number(LATIN)
    letters = sum(parts.values()) + kana + han + latin
    if kana * 8 > len(text) and kana * 3 >= kana + han:
        script, most = module.JAPANESE, kana + han
    elif number("[\u1ea0-\u1ef9đơư]") * 12 > len(text):
        script, most = module.VIETNAMESE, latin
    else:
        script = max(parts, key=lambda one: parts[one])
        most = parts[script]
        if most * 3 <= len(text):
            return module.NONE
    if script != module.JAPANESE and han * 20 > most:
        return module.NONE
    return script if (letters - most) * 5 <= most else module.NONE


def flags_of(letter: str) -> int:
    """Flags and word class of a character."""
    return int(word_classes()[ord(letter)])


def is_mark(letter: str) -> bool:
    """Whether a character extends the one before it."""
    return flags_of(letter) & CLASS_MASK == EXTEND


def is_letter(letter: str) -> bool:
    """Twin: whether a character is a part of a word."""
    return not flags_of(letter) & SEPARATES or is_mark(letter)


class Twin:
    """Reads the clauses of one text."""

    def __init__(self, text: str, key: int) -> None:
        self.text, self.script, self.keys = text, script_of(text), constants(key, 3)
        mark = {module.JAPANESE: MARKS["ja"], module.VIETNAMESE: MARKS["vi"]}
        self.mark = mark.get(self.script, "")
        shipped = polarity()
        self.list = shipped.own if self.mark else KNOWN
        beginnings: dict[str, int] = {}
        for word in [*shipped.words, *(own[1:] for own in shipped.own)]:
            beginnings[word[0]] = max(beginnings.get(word[0], 0), len(word))
        self.reach = beginnings
        self.titled = 0

    def hash(self, first: int, last: int) -> int:
        """What a word is known by in the turn of a clause."""
        return hash_word(self.mark + self.text[first : min(last, first + 31)], self.keys)

    def polar(self, first: int, last: int) -> int:
        """The polarity of a part of the text; 0 if it is no word of the list."""
        return self.list.get(self.mark + self.text[first:last], 0)

    def longest(self, first: int, last: int) -> tuple[int, int]:
        """The end and the polarity of the longest word of the list from a place on."""
        for end in range(min(last, first + self.reach.get(self.text[first], 0)), first, -1):
            whole = end == len(self.text) or not is_mark(self.text[end])
            if whole and self.polar(first, end):
                return end, self.polar(first, end)
        return first, 0

    def run_end(self, first: int) -> int:
        """Where the letters and digits from a place on end."""
        while first < len(self.text) and is_letter(self.text[first]):
            first += 1
        return first

    def match(self, pattern: str, first: int) -> int:
        """Where what a pattern matches from a place on ends, or the place."""
        found = re.compile(pattern).match(self.text, first)
        return found.end() if found else first

    def weigh(self, polar: int, first: int, last: int) -> Weight:
        """What a word of the list adds to the words and to the turn."""
        return self.weighed(polar, self.hash(first, last))

    def weighed(self, polar: int, value: int) -> Weight:
        """The same of a word by its hash."""
        if polar in (BODY, SURNAME, PERSON, TITLE):
            return value, 0
        if polar in (NAME, GIVEN):
            return int(WORDS[NAME]), value
        return int(WORDS[polar]), int(TURNS[polar])

    def foreign(self, first: int) -> tuple[int, Weight]:
        """The weight of a word in other letters."""
        end = first
        while end < self.run_end(first) and self.text[end] < "\u0250":
            end += 1
        word = self.text[first:end]
        if not re.search("[^0-9]", word):
            return end, (0, 0)
        value = hash_word(word[:31], self.keys)
        polar = KNOWN.get(word, 0)
        if polar:
            return end, self.weighed(polar, value)
        if re.search("[0-9]", word) or len(word) <= 3:
            return end, (int(WORDS[NAME]), value)
        return end, (0 if word[:31] in STOPS else value, 0)

    def given_end(self, end: int, last: int) -> int:
        """Where a given name behind a surname ends."""
        for most in range(end, min(last, end + 3)):
            after, other = self.longest(most, last)
            if not re.match(KANJI, self.text[most]) or other == BODY or after > most + 1:
                return most
        return min(last, end + 3)

    def ideographs(self, first: int, last: int) -> tuple[int, Weight]:
        """The weight of ideographs that begin no word of the list."""
        end, polar = first, 0
        while end < last and re.match(f"(?![{CHINESE_NUMERALS}]){KANJI}", self.text[end]):
            polar = self.longest(end, last)[1]
            if polar:
                break
            end += 1
        if polar == BODY:
            return end, (int(WORDS[NAME]), self.hash(first, end))
        return end, (sum(mix(ord(kanji)) for kanji in self.text[first:end]), 0)

    def japanese(self, first: int) -> tuple[int, Weight]:
        """The weight of what stands at a place, and where it ends."""
        words, turn, letter = int(WORDS[NAME]), 0, self.text[first]
        last = self.run_end(first)
        end, polar = self.longest(first, last)
        run = self.match(f"(?<!{KANJI}){KANJI}{{2,4}}(?={KATAKANA})", first)
        if re.match(KATAKANA, letter):
            end, turn = self.match(f"{KATAKANA}+", first), 2
            for kana in re.sub("[\u30f5-\u30ff]", "", self.text[first:end])[:2]:
                turn = mix((turn + ord(kana.translate(VOICELESS))) & MASK)
        elif polar == SURNAME:
            end = self.given_end(end, last)
            turn = self.hash(first, min(end, first + 3))
        elif end <= first + 1 and run > first:
            end, turn = run, self.hash(first, run)
        elif polar:
            words, turn = self.weigh(polar, first, end)
        elif not re.match(KANJI, letter):
            end, words = first + 1, 0
        elif letter in CHINESE_NUMERALS:
            end, turn = first + 1, mix(ord(letter))
        else:
            return self.ideographs(first, last)
        return end, (words, turn)

    def thai(self, first: int) -> tuple[int, Weight]:
        """The same of Thai."""
        end, polar = self.longest(first, self.run_end(first))
        if not polar:
            return first + 1, (mix(ord(self.text[first])), 0)
        words, turn = self.weigh(polar, first, end)
        if polar not in (TITLE, PERSON):
            return end, (words, turn)
        begin = end + 1 if re.match(f" {THAI}", self.text[end:]) else end
        last, end = self.run_end(begin), begin
        while end < last and re.match(THAI, self.text[end]):
            if end - begin not in (1, 2) and self.longest(end, last)[1]:
                break
            end += 1
        if end - begin < 2:
            return begin, (words, turn)
        name = self.hash(begin, min(end, begin + 4))
        if polar == PERSON:
            end = self.match(f" {THAI}{{2,12}}(?= )", end)
        return end, (words + int(WORDS[NAME]), turn + name)

    def korean(self, first: int, last: int) -> Weight:
        """The weight of a Korean word that is not in the list."""
        end = self.match("[일이삼사오육칠팔구십백천만억조]*", first)
        if end > first and (
            end == last or self.text[end] in "원명년월일분초시개위번호차회층대살세"
        ):
            return int(WORDS[NAME]), self.hash(first, end)
        particle = last == first + 2 and self.text[first + 1] in PARTICLES
        least = first if particle else first + 1
        for end in range(min(last - 1, first + module.LONGEST), least, -1):
            polar = self.polar(first, end)
            if polar and polar != BODY:
                return self.weigh(polar, first, end)
        for i in range(first + 1, last):
            end, polar = self.longest(i, last)
            if polar == BODY and (end == last or self.text[end] in PARTICLES):
                return int(WORDS[NAME]) + self.hash(i, end), self.hash(first, i)
        surname = ord(self.text[first]) in module._SURNAMES.tolist()
        end = first + 3
        if surname and (last == end or (last > end and self.text[end] in PARTICLES)):
            return int(WORDS[NAME]), self.hash(first, first + 1)
        ending = re.match("[지는은을고게면기던다]", self.text[first + 1 : last])
        return self.hash(first, min(last, first + (1 if ending else 2))), 0

    def spaced(self, first: int) -> tuple[int, Weight]:
        """The weight of a word of a script with spaces, or of up to three."""
        last = first
        while last < self.run_end(first) and not re.match("[0-9]", self.text[last]):
            last += 1
        ends = [last]
        for _ in range(2):
            if self.text[ends[-1] : ends[-1] + 1] == " ":
                ends.append(self.run_end(ends[-1] + 1))
        begin = first
        end, polar = next(
            ((e, p) for e in reversed(ends) if (p := self.polar(first, e))), (last, 0)
        )
        if self.script == module.SEMITIC and not polar:
            begin, end = first + 1, last
            while begin < min(first + 4, last - 1) and self.text[begin - 1] in PREFIXES:
                polar = self.polar(begin, last)
                if polar:
                    break
                begin += 1
        if self.script == module.VIETNAMESE and not polar:
            polar, end = KNOWN.get(self.text[first:last], 0), last
        if polar and polar != BODY and not (polar == GIVEN and self.titled in (1, 2)):
            definite = re.fullmatch("ה|.+ل", self.text[first:begin]) is not None
            self.titled = {PERSON: 2, GIVEN: 3, TITLE: 1 - definite}.get(polar, 0)
            return end, self.weigh(polar, begin, end)
        if self.titled:
            self.titled = 3 if self.titled == 2 else 0
            return last, (int(WORDS[NAME]), self.hash(first, last))
        if self.script == module.KOREAN:
            return last, self.korean(first, last)
        joined = self.script == module.SEMITIC and last > first + 3
        if joined and self.text[first] in "وו":
            first += 1
        return last, (self.hash(first, last), 0)

    def reader(self, letter: str) -> Callable[[int], tuple[int, Weight]]:
        """What reads a word by its first letter."""
        if "0" <= letter <= "9" or (letter < "\u0250" and self.script != module.VIETNAMESE):
            return self.foreign
        if self.script == module.JAPANESE and letter >= "\u2e80":
            return self.japanese
        return self.thai if self.script == module.THAI and re.match(THAI, letter) else self.spaced

    def cuts(self, first: int, last: int) -> bool:
        """Twin: whether a clause ends at the separators of a part of the text."""
        if not first or last == len(self.text):
            return False
        before, gap, after = self.text[first - 1], self.text[first:last], self.text[last]
        if len(gap) == 1 and re.match("[0-9]{2}", before + after):
            return False
        thai = self.script == module.THAI and re.match(f"{THAI}{{2}}", before + after)
        if thai and re.search("[\x00- ]", gap):
            return True
        joined = unwrapped(self.text)[first:last]
        return any(mark not in " -" and flags_of(mark) & SYMBOL == SEPARATES for mark in joined)

    def clauses(self) -> Iterator[list[int]]:
        """Words and turn of each clause."""
        words, turn, i = 0, 0, 0
        while i < len(self.text):
            if is_letter(self.text[i]):
                i, (more, turned) = self.reader(self.text[i])(i)
                words, turn = (words + more) & MASK, (turn + turned) & MASK
                continue
            end = i
            while end < len(self.text) and not is_letter(self.text[end]):
                end += 1
            if self.cuts(i, end):
                if words:
                    yield [mix(words), turn]
                words, turn, self.titled = 0, 0, 0
            i = end
        if words:
            yield [mix(words), turn]
