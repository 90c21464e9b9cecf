"""MD5, structure tree and feature strings."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.methods.literature.digests import Md5
from dedup_middleware.methods.literature.hashsets import (
    LIMIT,
    FeatureString,
    StructureTree,
    feature_strings,
    jaccard,
    sentences,
    smallest,
    structure_leaves,
)
from tests.methods.inputs import method_input, page, similarity


def test_md5_is_that_of_the_body() -> None:
    """The payload is the MD5 of the text in UTF-8; one character more is another page."""
    signature = Md5().sign(method_input("正文。"))
    assert signature is not None
    assert signature.payload == hashlib.md5("正文。".encode()).digest()
    assert similarity(Md5(), "正文。", "正文！") == 0.0


@given(st.text(max_size=200))
def test_sentences_hold_the_whole_text(text: str) -> None:
    """Cutting into sentences loses nothing but white space."""
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_sentences_end_at_their_marks() -> None:
    """Closing quotation marks belong to the sentence; a decimal point ends none."""
    text = "他说：“走吧！”大家走了3.5公里。End of it. Next? 好……"
    assert sentences(text) == [
        "他说：“走吧！”",
        "大家走了3.5公里。",
        "End of it.",
        "Next?",
        "好……",
    ]


def test_leaves_are_first_and_last_sentences() -> None:
    """One leaf a paragraph, of both; what is between and the layout do not matter."""
    assert structure_leaves("一。二。三。\n四。") == structure_leaves("一。乙。三。\n\n  四。  ")
    assert structure_leaves("一。二。三。\n四。") == [
        hashlib.md5("一。\n三。".encode()).digest(),
        hashlib.md5("四。".encode()).digest(),
    ]
    assert structure_leaves("一。二。") != structure_leaves("一。三。")


def test_each_sentence_may_be_a_leaf() -> None:
    """The other reading: two leaves a paragraph, one if it has a single sentence."""
    leaves = structure_leaves("一。二。三。\n四。", "sentence")
    assert leaves == [hashlib.md5(s.encode()).digest() for s in ("一。", "三。", "四。")]
    a, b = "一。二。\n三。四。", "一。二。\n三。五。"
    assert similarity(StructureTree(), a, b) == pytest.approx(1 / 2)
    assert similarity(StructureTree(leaves="sentence"), a, b) == pytest.approx(3 / 4)
    with pytest.raises(OptionsError, match="use one of paragraph, sentence"):
        StructureTree(leaves="word")


def test_tree_survives_paragraphs_in_another_order() -> None:
    """Moved paragraphs are the same tree; of six paragraphs one may be replaced."""
    paragraphs = page(1).splitlines()
    method = StructureTree()
    assert len(paragraphs) == 6
    assert similarity(method, page(1), "\n".join(reversed(paragraphs))) == 1.0
    changed = [*paragraphs[:-1], "另一个开头。另一个结尾。"]
    assert similarity(method, page(1), "\n".join(changed)) == pytest.approx(5 / 6)
    assert similarity(method, page(1), "\n".join(changed)) >= method.threshold


def test_tree_is_blind_to_changed_ends() -> None:
    """Where every paragraph begins and ends anew the tree has nothing in common."""
    edited = "\n".join(f"新{i}。{line}再{i}。" for i, line in enumerate(page(1).splitlines()))
    assert similarity(StructureTree(), page(1), edited) == 0.0


def test_feature_strings_are_letters_around_full_stops() -> None:
    """Punctuation and space between do not count; ends of the text are shorter."""
    text = "据报道，桥已建成。今天，通车了！大家很高兴。"
    assert feature_strings(text, 3) == ["已建成。今天通", "很高兴。"]
    assert feature_strings("没有句号的标题") == ["有句号的标题"[1:] + "。"]
    assert feature_strings("Rose 3.5 percent. Then fell.", 4) == ["cent。then", "fell。"]
    assert feature_strings("。，！") == []


def test_feature_strings_survive_edits_between_full_stops() -> None:
    """Words changed far from full stops change no string, words next to them two."""
    method = FeatureString()
    text = "".join(f"第{i}座灯塔的看守人每天都要记录天气和过往船只的情况。" for i in range(10))
    inside = text.replace("每天都要记录天气", "常常记录")
    near = text.replace("第3座", "第三座")
    assert similarity(method, text, inside) == 1.0
    assert 0.5 < similarity(method, text, near) < 1.0


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_jaccard_is_exact_below_the_limit(a: set[int], b: set[int]) -> None:
    """Sets that are kept whole are compared exactly."""
    expected = len(a & b) / len(a | b) if a | b else 0.0
    assert jaccard(smallest(a, 400), smallest(b, 400), 400) == expected


def test_jaccard_is_estimated_beyond_the_limit() -> None:
    """Of sets of 3000 the 256 smallest tell the Jaccard index to a few points."""
    drawn = np.random.default_rng(5).integers(0, 1 << 63, 4000).tolist()
    estimate = jaccard(smallest(drawn[:3000]), smallest(drawn[1000:]), LIMIT)
    assert estimate == pytest.approx(0.5, abs=0.1)


@given(
    st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(min_value=1, max_value=40)
)
def test_jaccard_of_sets_that_were_cut(a: set[int], b: set[int], limit: int) -> None:
    """Of the union's smallest members, so many as are kept, the share that both sets have."""
    kept_a, kept_b = sorted(a)[:limit], sorted(b)[:limit]
    union = sorted({*kept_a, *kept_b})
    if limit in {len(kept_a), len(kept_b)}:
        union = union[:limit]
    shared = [member for member in union if member in kept_a and member in kept_b]
    expected = len(shared) / len(union) if union else 0.0
    assert jaccard(smallest(a, limit), smallest(b, limit), limit) == expected
