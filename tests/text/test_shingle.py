from __future__ import annotations

import functools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware import Fingerprinter, Options
from dedup_middleware.base import kernels
from dedup_middleware.base.errors import OptionsError
from dedup_middleware.text import hashing
from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.shingle import Shingler, Shingles
from tests.text.oracles import (
    MASK,
    hash_word,
    is_word_character,
    same_class,
    shingles,
    texts,
    words_with_signs,
)
from tests.text.scripttwins import STOPS

CHINESE = "研究生命起源的中国科学家在南京市长江大桥发现了1.5万年前的C++化石，增长百分之五。"


made = functools.cache(Shingler)


@kernels.kernel
def _kind(table: Any, value: Any) -> Any:
    return hashing.kind_of(table, value)


@settings(deadline=None, max_examples=400)
@given(texts, st.integers(1, 5))
def test_the_kernel_is_its_twin(text: str, width: int) -> None:
    """Normal form, segmentation, stop words, shingles and counts equal those computed with
    jieba, word boundaries and integers of Python."""
    form = normalize("".join(c for c in text if all(map(same_class, normalize(c)))))
    shingler = made(width=width, hash_key=7)
    every = words_with_signs(form)
    tokens = [token for token in every if token not in STOPS] or every
    assert shingler.tokens(form) == tokens
    found = shingler(form)
    expected = shingles(tokens, width, hashing.constants(7, width).tolist())
    assert found.features.tolist() == list(expected)
    assert found.counts.tolist() == list(expected.values())
    assert found.tokens == len(tokens)


letters = st.text("abcdefgh ", max_size=3000)


@settings(deadline=None, max_examples=200)
@given(
    letters | st.tuples(st.text("ab ", max_size=40), st.integers(1, 40)).map(lambda p: p[0] * p[1])
)
def test_few_letters(text: str) -> None:
    """Of texts that hold few different words the shingles are made as wide as the oracle's."""
    shingler = made(width=2, hash_key=7, segmenter="char", keeps_stop_words=True)
    found = shingler(text)
    expected = shingles(shingler.tokens(normalize(text)), 2, hashing.constants(7, 2).tolist())
    assert found.features.tolist() == list(expected)
    assert found.counts.tolist() == list(expected.values())


def _share(one: Shingles, other: Shingles) -> float:
    return len(set(one.features.tolist()) & set(other.features.tolist())) / one.features.size


def test_texts_of_eight_letters() -> None:
    """Two random texts of eight letters share few shingles; a copy with an edit shares most, and a
    text that is written twice shares all with the text written once."""
    drawn = random.Random(4)
    one, other = ("".join(drawn.choices("天地玄黄宇宙洪荒", k=2000)) for _ in range(2))
    shingler = made(segmenter="char", keeps_stop_words=True)
    assert _share(shingler(one), shingler(other)) < 0.1
    assert _share(shingler(one), shingler(one[:900] + "日" + one[901:])) > 0.9
    page = "".join(chr(0x4E00 + drawn.randrange(3000)) for _ in range(300))
    assert _share(shingler(page), shingler(page + page)) == 1.0


@settings(deadline=None, max_examples=200)
@given(texts)
@pytest.mark.parametrize("segmenter", ["jieba", "fmm", "words", "char"])
def test_any_string(segmenter: str, text: str) -> None:
    """No string raises; sizes agree; features are distinct; the call is a pure function."""
    shingler = made(segmenter=segmenter, hash_key=1)
    found = shingler(text)
    assert found.features.dtype == np.uint64
    assert found.counts.dtype == np.uint32
    assert found.figures.dtype == np.uint64
    assert len(set(found.features.tolist())) == found.features.size == found.counts.size
    assert found.counts.sum() == max(min(found.tokens, 1), found.tokens - 2)
    assert found.tokens == len(shingler.tokens(text))
    assert all(any(map(is_word_character, token)) for token in shingler.tokens(text))
    again = shingler(normalize(text))
    assert again.features.tolist() == found.features.tolist()
    assert again.exact == found.exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("中国科学家，发现化石。", "中国科学家 发现化石"),
        ("ＡＢＣ research", "abc RESEARCH"),
        ("can’t wait", "can't wait"),
        ("zero\u200bwidth", "zerowidth"),
        ("\ufeff研究\u00ad生命", "研究生命"),
        ("e\u0301te\u0301", "été"),
    ],
)
def test_what_hides_no_duplicate(one: str, other: str) -> None:
    """Width, case, punctuation, white space and invisible characters don't change a text."""
    shingler = Shingler(keeps_stop_words=True)
    assert shingler(one).exact == shingler(other).exact
    assert shingler.tokens(one) == shingler.tokens(other)
    assert shingler(one).features.tolist() == shingler(other).features.tolist()


def test_order_and_repetition() -> None:
    """Shingles know the order of their tokens, and counts how often each occurs."""
    shingler = Shingler(segmenter="words", keeps_stop_words=True, width=2)
    assert set(shingler("red green").features) != set(shingler("green red").features)
    assert shingler("a b a b a").counts.tolist() == [2, 2]


def test_short_and_empty_texts() -> None:
    """Fewer tokens than the width are one shingle of them all; no token, no shingle."""
    shingler = Shingler(segmenter="words", keeps_stop_words=True)
    assert shingler("red green").features.size == 1
    assert shingler("red").features.tolist() != shingler("red green").features.tolist()
    for text in ("", "，。！ \n", "\u200b"):
        assert (shingler(text).features.size, shingler(text).tokens) == (0, 0)


def test_stop_words_alone() -> None:
    """A short text of nothing but stop words is no empty text: it has a shingle to compare."""
    shingler = Shingler()
    assert shingler.tokens("我们的") == ["我们", "的"]
    assert shingler.tokens("the of it") == ["the", "of", "it"]
    assert shingler("我们的").features.size == 1
    assert shingler("我们的").features.tolist() != shingler("the of it").features.tolist()
    assert shingler.tokens("我们的研究") == ["研究"]


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(st.integers(1, (1 << 50) - 1), st.integers(1, 16383), max_size=200),
    st.integers(1, (1 << 64) - 1),
)
def test_table_of_hashes(kinds: dict[int, int], other: int) -> None:
    """The table gives the kinds that were put in and 0 for all else, also where all hashes stand
    in the second or in the last bucket; the lowest 14 bits of a hash do not count."""
    second = {value >> 14 << 14 | 1: kind for value, kind in kinds.items()}
    last = {value | (1 << 14) - 1: kind for value, kind in kinds.items()}
    for wanted in (kinds, second, last):
        hashes = np.array([value << 14 | 7 for value in wanted], np.uint64)
        table = hashing.make_table(hashes, np.array(list(wanted.values()), np.uint64))
        assert table.ctypes.data % 64 == 0  # a bucket in one line of the cache
        for value in (*wanted, *(value ^ (1 << 49) or 1 for value in wanted), other >> 14 or 1):
            assert _kind(table, np.uint64(value << 14 | 9)) == wanted.get(value, 0)


@given(
    st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1),
    st.integers(0, MASK),
)
def test_words_hashed_at_once(words: list[str], key: int) -> None:
    """Each gets the hash that it has alone."""
    keys = hashing.constants(key, 3)
    assert hashing.hash_words(np.array(words), keys).tolist() == [hash_word(w, keys) for w in words]


def test_stop_words() -> None:
    """The shipped lists, or none."""
    text = "The cat sat on the mat，我们的研究"
    assert Shingler().tokens(text) == ["cat", "sat", "mat", "研究"]
    assert len(Shingler(keeps_stop_words=True).tokens(text)) > 6


def test_mixed_scripts() -> None:
    """One setting cuts every script: Chinese by the dictionary, the rest by its own rules."""
    tokens = Shingler(keeps_stop_words=True).tokens(
        "研究生命起源 Привет мир 3.5 カタカナ 한국어 สวัสดี don't"
    )
    assert tokens == [
        *("研究", "生命", "起源", "привет", "мир", "3.5", "カタカナ", "한국어"),
        *("สวัส", "วัสดี", "don't"),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("北京-5℃ 上海5℃", "北京5℃ 上海-5℃"),
        ("Ann got 3.5 and Bob got 35", "Ann got 35 and Bob got 3.5"),
        ("5% for Ann, 5 for Bob", "5 for Ann, 5% for Bob"),
        ("Give .5 mg at noon", "Give 5 mg at noon"),
        ("fiyatlar %5 arttı", "fiyatlar 5 arttı"),
    ],
)
def test_figures_count_in_their_order(one: str, other: str) -> None:
    """A text with the same letters and the same figures at other places is another one."""
    assert Shingler()(one).exact != Shingler()(other).exact


def test_max_chars() -> None:
    """What lies beyond the limit is ignored."""
    assert Shingler(max_chars=4).tokens("研究生命起源") == Shingler().tokens("研究生命")


def test_hash_key() -> None:
    """Another key gives other hashes of the same number."""
    one, other = Shingler()(CHINESE), Shingler(hash_key=1)(CHINESE)
    assert one.features.size == other.features.size
    assert not set(one.features) & set(other.features)
    assert not set(one.figures) & set(other.figures)
    assert one.exact != other.exact


@pytest.mark.slow
def test_fingerprint_names_every_parameter(tmp_path: Path) -> None:
    """Every parameter, the dictionary included, shows in the name; the key only as a digest."""
    user = tmp_path / "user.txt"
    user.write_text("云计算\n", encoding="utf-8")
    different: list[dict[str, Any]] = [
        {},
        {"segmenter": "fmm"},
        {"segmenter": "words"},
        {"width": 4},
        {"keeps_stop_words": True},
        {"user_dictionary": user},
        {"hash_key": 99991},
        {"max_chars": 5},
        {"traditional": True},
    ]
    names = [Shingler(**options).fingerprint for options in different]
    assert len(set(names)) == len(names)
    assert not any("99991" in name for name in names)
    assert names[0].startswith("jieba-3w-zh")


def test_user_dictionary_is_normalised(tmp_path: Path) -> None:
    """A user's words are found although text is normalised before it is cut."""
    user = tmp_path / "user.txt"
    user.write_text("ＡＢＣ手机\n", encoding="utf-8")
    assert Shingler(user_dictionary=user).tokens("买Abc手机去") == ["买", "abc手机"]


def test_single_letters_are_words() -> None:
    """Vitamin B and vitamin C are two things; the article and the pronoun are stop words."""
    assert made().tokens("I ate a vitamin C") == ["ate", "vitamin", "c"]
    assert made().tokens("我吃维生素b") == ["吃", "维生素", "b"]


def test_traditional() -> None:
    """On demand a traditional page and its simplified twin are the same page."""
    pytest.importorskip("opencc")
    shingler = Shingler(traditional=True, keeps_stop_words=True)
    one, other = "漢語轉換為簡體中文網頁", "汉语转换为简体中文网页"
    assert shingler.tokens(one) == shingler.tokens(other)
    assert shingler(one).exact == shingler(other).exact
    assert Shingler()(one).exact != Shingler()(other).exact


def test_traditional_needs_opencc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without OpenCC the error says which extra to install."""
    from dedup_middleware.text import characters

    def missing(name: str) -> object:
        raise ImportError(name)

    characters.simplified.cache_clear()
    monkeypatch.setattr(characters, "import_module", missing)
    with pytest.raises(ImportError, match=r"dedup-middleware\[traditional\]"):
        Shingler(traditional=True)
    with pytest.raises(OptionsError) as caught:
        Fingerprinter(Options(fold_traditional=True), 0)
    assert str(caught.value).startswith("DEDUP_FOLD_TRADITIONAL=True can't be used: OpenCC is")


def test_large_page() -> None:
    """Ten megabytes are cut off at the limit, and a million characters are done."""
    text = (CHINESE * 100_000)[:10_000_000]
    found = Shingler()(text)
    short = Shingler()(text[:1_000_000])
    assert found.tokens == short.tokens > 100_000
    assert found.exact == short.exact


@pytest.mark.parametrize("letters", ["\u3042\u3044\u3046", "\u0e01\u0e02\u0e04", "\u6771\u306e"])
def test_a_million_letters_in_a_row(letters: str) -> None:
    """Letters without a mark between them, which no clause ends, cost no more each: by the square
    of their number this test would not end."""
    assert len(Shingler()(letters * (1_000_000 // len(letters))).clauses) <= 1


def test_threads() -> None:
    """Many threads share one shingler."""
    shingler = Shingler()
    expected = shingler(CHINESE).features.tolist()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(shingler, [CHINESE] * 200):
            assert found.features.tolist() == expected


def test_one_compilation() -> None:
    """Whatever the text and the segmenter, the kernel is compiled for one signature."""
    from dedup_middleware.text.shingle import read_text

    for segmenter in ("jieba", "fmm", "words", "char"):
        for text in ("", "a", CHINESE, "e\u0301"):
            Shingler(segmenter=segmenter)(text)
    assert len(read_text.signatures) == 1  # type: ignore[attr-defined]


def test_collisions() -> None:
    """A hundred thousand different tokens and shingles have different hashes."""
    text = " ".join(f"w{number}" for number in range(100_000))
    found = Shingler(segmenter="words", keeps_stop_words=True)(text)
    assert found.features.size == 100_000 - 2
