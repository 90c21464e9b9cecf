"""Names of persons: which are found, where they stand, and which say who made the page."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.text import dictionary
from dedup_middleware.text.characters import NUMERAL, SEPARATES, word_classes
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, constants
from dedup_middleware.text.names import (
    CREDITS,
    GIVEN,
    GIVEN_NAMES,
    NAME,
    SURNAME,
    SURNAMES,
    kind_of,
)
from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.places import FREE, NAMES, REACH, SECONDS, WIDE, WIDTH
from dedup_middleware.text.shingle import Shingler
from tests.text.oracles import BLOCK, FRAGMENTS, MASK, folded_jieba, mix

KEYS = constants(0, 3)
HAN = re.compile("[\u4e00-\u9fd5]")


@pytest.fixture(scope="module")
def shingler() -> Shingler:
    """The default one."""
    return Shingler()


@functools.cache
def tags() -> dict[str, tuple[int, str]]:
    """Frequency and tag of each word of jieba's dictionary in normal form."""
    found: dict[str, tuple[int, str]] = {}
    for line in dictionary.jieba_dictionary().read_text("utf-8").splitlines():
        word, frequency, tag = line.split(" ")
        count = max(int(frequency), found.get(normalize(word), (0, ""))[0])
        found[normalize(word)] = count, tag
    return found


def tokens(text: str) -> list[tuple[int, int]]:
    """Twin: where jieba's tokens of normalised text begin and end, in blocks with a Han
    character."""
    found, begin = [], 0
    for part in BLOCK.split(text):
        place = begin
        begin += len(part)
        if HAN.search(part) and BLOCK.fullmatch(part):
            for token in folded_jieba().lcut(part, HMM=False):
                found.append((place, place + len(token)))
                place += len(token)
    return found


def is_person(word: str) -> bool:
    """Twin: whether a word of the dictionary is a name."""
    frequency, tag = tags().get(word, (0, ""))
    if not tag.startswith("nr") or not HAN.match(word):
        return False
    if len(word) == 2:
        return tag != "nrt" and word[0] in SURNAMES and frequency < 1000
    return len(word) > 3 or (len(word) == 3 and (tag == "nrt" or word[0] in SURNAMES))


def is_single(word: str) -> bool:
    """Twin: whether a token is one character of a given name."""
    rare = tags().get(word, (0, ""))[0] < 4000 or word in GIVEN_NAMES
    return len(word) == 1 and bool(HAN.match(word)) and rare and word not in "摄译绘撰"


def is_pair(word: str) -> bool:
    """Twin: whether a token is a given name of two characters."""
    return len(word) == 2 and tags().get(word, (0, ""))[1].startswith(("nr", "nz"))


def names(text: str) -> list[tuple[int, int]]:
    """Twin: where the names of normalised text begin and end."""
    found, cut, i = [], tokens(text), 0

    def following(end: int) -> str:
        return text[slice(*cut[i])] if i < len(cut) and cut[i][0] == end else ""

    while i < len(cut):
        begin, end = cut[i]
        word = text[begin:end]
        i += 1
        if is_person(word):
            if len(word) == 2 and is_single(following(end)):
                end, i = end + 1, i + 1
        elif word in tuple(SURNAMES):
            if is_pair(following(end)):
                end, i = end + 2, i + 1
            else:
                for _ in range(2):
                    if is_single(following(end)):
                        end, i = end + 1, i + 1
            if end == begin + 1:
                continue
        else:
            continue
        found.append((begin, end))
    return found


def separates(character: str) -> bool:
    """Whether a character is punctuation or white space."""
    return bool(word_classes()[ord(character)] & SEPARATES)


def is_credit(text: str, begin: int, end: int, before: int) -> bool:
    """Twin: whether the name text[begin:end] says who made the page; `before` is the end of a
    credit in front of it, or -1."""
    if text[:begin].endswith(tuple("([{【〔〖")):
        return True
    left = text[:begin]
    while len(left) > max(begin - 4, before, 0) and separates(left[-1]):
        left = left[:-1]
    if before >= 0 and len(left) <= before and all(map(separates, text[before:begin])):
        return begin - before <= 4
    if left.endswith(CREDITS):
        return True
    if left.endswith(tuple("文图摄译编圖攝譯編")) and text[len(left) : begin][:1] in ("/", ":"):
        return True
    right = text[end:]
    for _ in range(4):
        if right and separates(right[0]):
            right = right[1:]
    return right[:1] in ("摄", "攝")


def side(text: str, spans: list[tuple[int, int]], i: int, step: int) -> list[int]:
    """Twin: the letters from i on, outwards, with a numeral or a name as one letter."""
    letters: list[int] = []
    room, numeral = WIDTH, False
    last = i + step * REACH
    while 0 <= i < len(text) and room > 0 and (last - i) * step > 0:
        name = next(((a, b) for a, b in spans if a <= i < b), None)
        flags = int(word_classes()[ord(text[i])])
        if name:
            letters.append(0x110002)
            room -= WIDE
            i = name[0] if step < 0 else name[1] - 1
            numeral = False
        elif flags & NUMERAL:
            if not numeral:
                letters.append(0x110000)
                room -= WIDE
            numeral = True
        elif not flags & SEPARATES:
            letters.append(ord(text[i]))
            room -= WIDE if ord(text[i]) >= 0x2E80 else 1
            numeral = False
        i += step
    return letters


def plain_names(text: str) -> list[int]:
    """Twin: the entries of all names of normalised text without names of months."""
    spans = names(text)
    entries, before = [], -1
    for begin, end in spans:
        if is_credit(text, begin, end, before):
            before = end
            continue
        before = -1
        place, value = int(KEYS[FIGURE_START]), int(KEYS[0])
        letters = [*side(text, spans, begin - 1, -1), 0x110001, *side(text, spans, end, 1)]
        for letter in letters:
            place = (place * int(KEYS[TEXT_BASE]) + letter) & MASK
        for character in text[begin:end]:
            value = (value * int(KEYS[1]) + ord(character)) & MASK
        entry = (NAMES | mix(place) >> 50) << 8 | mix(value) >> 56
        entries.append(min(entry, FREE - 1))
    return sorted(entries)


def entries_of(shingler: Shingler, text: str) -> list[int]:
    """The entries of the names of a text."""
    return sorted(e for e in shingler(text).places.tolist() if NAMES <= e >> 8 < SECONDS)


PARTS = st.sampled_from(
    (
        *("王", "李", "林", "王明", "李强", "高明", "邓小平", "爱因斯坦", "约翰逊", "欧阳锋"),
        *("伟", "丽", "磊", "国", "华", "说", "在", "振东", "建国", "婷婷", "祎"),
        *("记者", "责任编辑", "通讯员", "作者", "文/", "图:", "摄", "（", "）", "、", " ", "，"),
        *("主席", "总理", "会见", "表示", "获得冠军", "5", "三十", "。", "abc", *FRAGMENTS[:40]),
    )
)


@settings(deadline=None, max_examples=500)
@given(st.lists(PARTS, max_size=14).map("".join))
def test_names_like_the_twin(text: str) -> None:
    """Any text gives the entries that the plain twin gives."""
    assert entries_of(Shingler(), text) == plain_names(normalize(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("主席邓小平会见了总理", ["邓小平"]),
        ("冠军林诗婷表示感谢", ["林诗婷"]),
        ("局长何伟国和王磊", ["何伟国", "王磊"]),
        ("物理学家爱因斯坦表示", ["爱因斯坦"]),
        ("阳光下的文明王朝", []),
        ("王说他在林间走", []),
        ("张在会上表示", []),
    ],
)
def test_known_names(text: str, found: list[str]) -> None:
    """Names of the dictionary and those it does not know; words that look like names are none."""
    assert [text[begin:end] for begin, end in names(text)] == found
    assert len(entries_of(Shingler(), text)) == len(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("今天总理王磊会见了来宾", "今天总理李强会见了来宾"),
        ("冠军是林诗婷。她表示感谢", "冠军是邓小平。她表示感谢"),
        ("王磊、李强、林诗婷出席会议", "何伟国、张丽、王磊出席会议"),
    ],
)
def test_other_names_stand_in_the_same_places(shingler: Shingler, one: str, other: str) -> None:
    """What a name is does not change its place, nor do the names beside it."""
    a, b = entries_of(shingler, one), entries_of(shingler, other)
    assert {e >> 8 for e in a} == {e >> 8 for e in b} != set()
    assert a != b


@pytest.mark.parametrize(
    "credit",
    [
        "记者王磊报道", "（记者 王磊 李强）", "（责任编辑：王磊）", "作者：王磊", "記者王磊",
        "通讯员王磊、李强", "文/王磊 图/李强", "图：王磊", "王磊摄", "王磊 摄", "（王磊）",
        "编辑 王磊，李强",
    ],
)  # fmt: skip
def test_credits_have_no_place(shingler: Shingler, credit: str) -> None:
    """Who wrote, edited or photographed says nothing of the report."""
    assert entries_of(shingler, f"会议今天闭幕。{credit}") == []
    assert len(entries_of(shingler, f"会议今天由王磊主持。{credit}")) == 1


def test_a_name_behind_a_credit_counts(shingler: Shingler) -> None:
    """Only names in a row with a credit belong to it."""
    assert len(entries_of(shingler, "记者王磊、李强报道：林诗婷获得冠军")) == 1


@pytest.mark.parametrize("segmenter", ["char", "words", "fmm"])
def test_other_segmenters_find_no_names(segmenter: str) -> None:
    """They leave no words to look at, or other ones."""
    assert entries_of(Shingler(segmenter=segmenter), "总理王磊会见了邓小平") == []


def test_users_add_names(tmp_path: Path) -> None:
    """A word of the user's dictionary with the tag nr is a name."""
    path = tmp_path / "names.txt"
    for tag, count in (("nr", 1), ("n", 0)):
        path.write_text(f"阿布拉德 5 {tag}\n", "utf-8")
        found = entries_of(Shingler(user_dictionary=path), "总统阿布拉德会见了来宾")
        assert len(found) == count


@pytest.mark.parametrize(
    ("word", "frequency", "tag", "kind"),
    [
        ("王", 10_000, "nr", SURNAME),
        ("林", 100, "ng", SURNAME | GIVEN),
        ("国", 30_000, "n", GIVEN),
        ("在", 200_000, "p", 0),
        ("王明", 10, "nr", NAME | GIVEN),
        ("王朝", 5000, "nr", GIVEN),
        ("文化", 10, "n", 0),
        ("阳光", 10, "nr", GIVEN),
        ("布什", 10, "nrt", GIVEN),
        ("欧元", 10, "nz", GIVEN),
        ("邓小平", 9000, "nr", NAME),
        ("托马斯", 10, "nrt", NAME),
        ("黑社会", 10, "nr", 0),
        ("贝克汉姆", 10, "nr", NAME),
        ("tom", 10, "nr", 0),
    ],
)
def test_kinds_of_words(word: str, frequency: int, tag: str, kind: int) -> None:
    """What tag, surname and frequency make of a word."""
    assert kind_of(word, frequency, tag) == kind
