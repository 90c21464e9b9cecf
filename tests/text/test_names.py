"""Names of persons: which are found, where they stand, and which say who made the page."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.text.names import GIVEN, NAME, NOUN, PERSON, PROPER, SURNAME, kind_of
from dedup_middleware.text.places import NAMES, SECONDS
from dedup_middleware.text.shingle import Shingler
from tests.signature.differing import differing_figures, figure_sketch
from tests.text.nametwins import fold, persons, plain_names
from tests.text.oracles import FRAGMENTS

made = functools.cache(Shingler)


@pytest.fixture
def shingler() -> Shingler:
    """The default one."""
    return made()


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
@example("王55")  # 5 begins a word, 55 is none
@example("王磊说" + "年5月5日" * 9)  # letters and digits are no rare characters
@example("王磊" + "5龘" * 9)
def test_names_like_the_twin(text: str) -> None:
    """Any text gives the entries that the plain twin gives."""
    assert entries_of(made(), text) == plain_names(text)


def test_marks_of_words_of_names(shingler: Shingler) -> None:
    """Those of persons in Chinese that do not say who made the page, nor words of the dictionary
    that are seldom names."""
    text = "记者王磊 局长周伟国和 Anna Berg 会见林诗婷，许可彼得罗夫，杜绝浪费，王毅陈述"
    marked = [
        token
        for token, mark in zip(shingler.tokens(text), shingler(text).begins.tolist(), strict=True)
        if mark & PERSON
    ]
    assert "".join(marked) == "周伟国林诗婷彼得罗夫王毅"


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
    assert [text[n.begin : n.end] for n in persons(text, len(fold(text).tokens))] == found
    assert len(entries_of(made(), text)) == len(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("今天总理王磊会见了来宾", "今天总理李强会见了来宾"),
        ("冠军是林诗婷。她表示感谢", "冠军是邓小平。她表示感谢"),
        ("王磊、李强、林诗婷出席会议", "何伟国、张丽、王磊出席会议"),
    ],
)
def test_other_names_stand_in_the_same_places(shingler: Shingler, one: str, other: str) -> None:
    """What a name is does not change its place, nor do the names next to it."""
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


@pytest.mark.parametrize(
    ("one", "other"), [("冠军林诗婷在", "冠军林诗在"), ("冠军林诗婷说", "冠军林诗磊说")]
)
def test_the_last_of_three_characters_does_not_count(
    shingler: Shingler, one: str, other: str
) -> None:
    """A name that lost its last character or has another one there is the same."""
    assert entries_of(shingler, one) == entries_of(shingler, other) != []


def test_random_characters_have_no_names(shingler: Shingler) -> None:
    """In text that is no prose nothing is a name, nor do names differ from those of prose."""
    draw = random.Random(1)
    chance = "".join(chr(0x4E00 + draw.randrange(2500)) for _ in range(300))
    name = "会议今天由王磊主持。"
    prose = "会议今天在省会开幕，代表们讨论了今年的工作安排。" * 40
    assert entries_of(shingler, name + chance) == []
    assert len(entries_of(shingler, name + prose)) == 1
    one, other = (
        figure_sketch(shingler(text).places)
        for text in (name + prose, name.replace("王磊", "李强") + chance)
    )
    assert differing_figures(one, other[None]) == [0]


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
        ("文化", 10, "n", NOUN),
        ("富裕", 10, "a", NOUN),
        ("安全", 10, "ad", 0),
        ("杯", 10, "n", GIVEN),
        ("阳光", 10, "nr", GIVEN),
        ("布什", 10, "nrt", GIVEN),
        ("欧元", 10, "nz", PROPER | GIVEN),
        ("蒙古族", 10, "nz", PROPER),
        ("国防部", 10, "nt", PROPER),
        ("邓小平", 9000, "nr", NAME),
        ("托马斯", 10, "nrt", NAME),
        ("黑社会", 10, "nr", 0),
        ("武汉", 10, "ns", PROPER),
        ("联合王国的一部", 10, "ns", 0),
        ("武汉大学", 10, "nt", PROPER),
        ("新华社", 10, "nt", 0),
        ("电视台", 10, "nt", 0),
        ("贝克汉姆", 10, "nr", NAME),
        ("tom", 10, "nr", 0),
    ],
)
def test_kinds_of_words(word: str, frequency: int, tag: str, kind: int) -> None:
    """What tag, surname and frequency make of a word."""
    assert kind_of(word, frequency, tag) == kind
