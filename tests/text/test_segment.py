from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.text.boundaries import join_signs
from dedup_middleware.text.characters import CLASS_MASK, EXTEND, fold_text, load_characters
from dedup_middleware.text.shingle import Shingler
from tests.text.oracles import (
    cut,
    jieba,
    joined_signs,
    same_class,
    texts,
    tokenizer,
    uax29,
    words_and_fmm,
    words_and_jieba,
)

relaxed = settings(deadline=None, max_examples=400)


@pytest.mark.slow
@relaxed
@given(texts)
def test_jieba_is_jieba(text: str) -> None:
    """Blocks with a Han character are cut token for token as jieba cuts them without its hidden
    Markov model, all else by words."""
    known = "".join(filter(same_class, text))
    assert cut("jieba", known) == list(words_and_jieba(known, jieba()))


@pytest.mark.slow
@relaxed
@given(
    st.text("中华人民共和国大学生活动中心研究生命起源南京市长江大桥一二三的abAB1.#", max_size=200)
)
def test_jieba_on_dense_chinese(text: str) -> None:
    """Long runs without punctuation, where words overlap, are cut as jieba cuts them."""
    assert cut("jieba", text) == list(words_and_jieba(text, jieba()))


def test_jieba_on_long_runs() -> None:
    """Runs longer than any buffer of the kernel's first guess are cut as jieba cuts them."""
    text = "研究生命起源abc" * 2000 + "，" + "南京市长江大桥" * 1500 + "，。中国\r\n" * 2000
    assert cut("jieba", text) == list(words_and_jieba(text, jieba()))


@relaxed
@given(texts)
def test_fmm_is_the_dictionary_walk(text: str) -> None:
    """Forward maximum matching takes the longest entry at each position of a window."""
    known = "".join(filter(same_class, text))
    assert cut("fmm", known) == list(words_and_fmm(known))


def test_fmm_known_answers() -> None:
    """The textbook error of maximum matching, runs of letters, and windows."""
    assert cut("fmm", "研究生命起源") == ["研究生", "命", "起源"]
    assert cut("fmm", "abc123，中国") == ["abc123", "中国"]
    assert cut("fmm", "中，国") == ["中", "国"]


def test_dotted_ascii_in_pages_cut_by_fmm() -> None:
    """A page's windows without a Han character are cut as words, so numerals and addresses with a
    point stay whole there; next to a Han character the point ends the window."""
    tokens = Shingler(segmenter="fmm").tokens
    assert tokens("增长 3.6 个，见 example.com。")[1] == "3.6"
    assert "example.com" in tokens("增长 3.6 个，见 example.com。")
    assert tokens("增长3.6")[1:] == ["3", "6"]


@pytest.mark.slow
@relaxed
@given(texts)
def test_words_are_unicode_words(text: str) -> None:
    """Scripts with spaces are cut at the word boundaries of UAX #29."""
    known = "".join(filter(same_class, text))
    assert cut("words", known) == uax29(known)


def test_words_known_answers() -> None:
    """Numbers stay whole, apostrophes join, emoji and ideographs stand alone, marks follow."""
    assert cut("words", "can't stop 3.5 or 1,000!") == ["can't", "stop", "3.5", "or", "1,000"]
    assert cut("words", "中文カタカナひら 한국어") == ["中", "文", "カタカナ", "ひ", "ら", "한국어"]
    assert cut("words", "Привет, мир… _ __") == ["Привет", "мир"]
    assert cut("words", "\U0001f1e8\U0001f1f3\U0001f1e8中") == [
        "\U0001f1e8\U0001f1f3",
        "\U0001f1e8",
        "中",
    ]
    assert cut("words", "\U0001f600\U0001f44d\U0001f3fd") == ["\U0001f600", "\U0001f44d\U0001f3fd"]


def test_words_without_spaces() -> None:
    """Thai, Khmer, Lao and Burmese give overlapping groups of three letters with their marks."""
    assert cut("words", "สวัสดี") == ["สวัส", "วัสดี"]
    assert cut("words", "กข") == ["กข"]
    assert cut("words", "กขคง abc") == ["กขค", "ขคง", "abc"]


@settings(deadline=None, max_examples=300)
@given(st.text("cCgдβ한中あ1७_+#＋\u0301 .,-☃", max_size=30))
@example("C++β#")
@example("c#β#")
def test_signs_of_names(text: str) -> None:
    """The kernel's signs are those of regular expressions over kinds of characters."""
    codes, flags = fold_text(text, load_characters({}, ""))
    before = flags.tolist()
    there = join_signs(codes, flags)
    normal = codes.tobytes().decode("utf-32-le")
    joined = joined_signs(normal)
    assert there == any(sign in normal for sign in "+#")
    changed = {place for place in range(len(normal)) if flags[place] != before[place]}
    assert changed == joined
    assert all(flags[place] & CLASS_MASK == EXTEND for place in joined)


def test_names_with_signs() -> None:
    """C++, C# and C are three words, in Chinese text too; a sign between two words is in none."""
    tokens = Shingler(keeps_stop_words=True).tokens
    assert tokens("C++, C# or C") == ["c++", "c#", "or", "c"]
    assert tokens("用C++语言写") == ["用", "c++", "语言", "写"]
    assert tokens("Objective-C++ and libfern++.") == ["objective", "c++", "and", "libfern++"]
    assert tokens("AI+健康 a+b item# no#5") == ["ai", "健康", "a", "b", "item", "no", "5"]


def test_char() -> None:
    """Each character is a token, with its marks; white space and punctuation are none."""
    assert cut("char", "中a e\u0301，。") == ["中", "a", "e\u0301"]


@pytest.mark.parametrize("segmenter", ["jieba", "fmm", "words", "char"])
@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "中", "a", "\U0010ffff", "\u0301"])
def test_tiny_texts(segmenter: str, text: str) -> None:
    """A text of one character or none is no error in any segmenter."""
    assert "".join(cut(segmenter, text)) in ("", text)


@pytest.mark.slow
def test_user_dictionary_is_jiebas(tmp_path: Path) -> None:
    """A user's words, with and without frequency, change the cut as in jieba."""
    path = tmp_path / "user.txt"
    path.write_text(
        "\ufeff云计算 5\n李小福 2 nr\n创新办 3 i\neasy_install 3 eng\n石墨烯\n凱特琳 nz\n台中\n"
        "研究生命\nABC公司\n中 0\n",
        encoding="utf-8",
    )
    jiebas = tokenizer()
    with path.open("rb") as file:
        jiebas.load_userdict(file)
    text = "李小福是创新办主任也是云计算方面的专家，石墨烯和凱特琳在台中"
    text += "研究生命起源，ABC公司easy_install"
    assert cut("jieba", text, user_dictionary=path) == list(words_and_jieba(text, jiebas))
    assert "石墨烯" in cut("jieba", text, user_dictionary=path)
