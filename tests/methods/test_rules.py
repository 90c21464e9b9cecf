"""Rules, segments, text profile and random projection of the survey."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.methods.literature import digests
from dedup_middleware.methods.literature.base import MethodInput, SignatureMethod
from dedup_middleware.methods.literature.digests import (
    FeatureList,
    Rules,
    TextProfile,
    cut_bytes,
    description,
    feature_list,
    keywords,
    md5,
    quantum,
    text_profile,
    weight_distance,
)
from dedup_middleware.methods.literature.hashsets import Segments, segments
from dedup_middleware.methods.literature.simhashes import (
    SIGNS,
    RandomProjection,
    block_keys,
    blocks_for,
    projection_sums,
    sign_bits,
    token_bits,
)
from dedup_middleware.model.fingerprint import Signature
from tests.methods.inputs import frequencies, is_duplicate, method_input, page, share_key, table_of


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every term is equally rare."""
    monkeypatch.setattr(digests, "background", lambda: table_of([]))


def signed(method: SignatureMethod, page_input: MethodInput) -> Signature:
    """The signature of a page that has one."""
    signature = method.sign(page_input)
    assert signature is not None
    return signature


def similarity(method: SignatureMethod, a: str, b: str) -> float:
    """Similarity of two texts."""
    return method.compare(signed(method, method_input(a)), signed(method, method_input(b)))


@given(st.text(max_size=300), st.integers(0, 600))
def test_cut_is_at_a_character(text: str, limit: int) -> None:
    """The longest beginning that fits: one character more would not."""
    kept = cut_bytes(text, limit)
    size = len(kept.encode("utf-8", "surrogatepass"))
    assert text.startswith(kept)
    assert size <= limit
    if kept != text:
        assert size + len(text[len(kept)].encode("utf-8", "surrogatepass")) > limit


def test_cut_of_512_bytes_in_chinese() -> None:
    """170 characters of three bytes are 510; the 171st would be cut, so it is left out."""
    assert cut_bytes("灯" * 300, 512) == "灯" * 170
    assert cut_bytes("\ud800" * 300, 512) == "\ud800" * 170
    assert cut_bytes("🙂" * 300, 512) == "🙂" * 128


def test_description_comes_first() -> None:
    """R1 compares the page's own description, and the beginning of the text without one."""
    method = Rules(rule="R1")
    assert description(method_input("正文", description=" 摘要 ")) == "摘要"
    assert description(method_input("灯" * 300)) == "灯" * 170
    a, b = method_input("甲", description="摘要"), method_input("乙", description="摘要")
    assert method.compare(signed(method, a), signed(method, b)) == 1.0
    assert similarity(method, "灯" * 170 + "甲", "灯" * 170 + "乙") == 1.0


def test_keywords_by_tf_idf() -> None:
    """The heaviest first, ties by code point, at most N."""
    table = table_of([["的"]] * 99 + [["灯塔"]])
    found = keywords(["的"] * 3 + ["灯塔", "码头", "桥梁"], table, 3)
    assert [term for term, _ in found] == ["桥梁", "码头", "灯塔"]
    assert found[0][1] == pytest.approx(table.idf(["桥梁"])[0])


def test_distance_of_weights() -> None:
    """0 for equal weights, 1 for weights without a common term, 0 for none at all."""
    a = np.array([3.0, 4.0])
    assert weight_distance(a, a) == 0.0
    assert weight_distance(a, np.zeros(2)) == 1.0
    assert weight_distance(np.zeros(2), np.zeros(2)) == 0.0


# Same keywords; in the second their order by weight differs, in the third the weights too.
BASE = "灯塔" * 5 + "码头" * 4 + "桥梁" * 3
SWAPPED = "灯塔" * 4 + "码头" * 5 + "桥梁" * 3
UNBALANCED = "灯塔" * 50 + "码头" * 4 + "桥梁" * 3


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize(
    ("rule", "swapped", "unbalanced"),
    [
        ("R2", 0.0, 1.0),
        ("R3", 1.0, 1.0),
        ("R4", 0.0, 0.0),
        ("R5", 1.0, 0.0),
    ],
)
def test_what_each_rule_demands(rule: str, swapped: float, unbalanced: float) -> None:
    """R2 and R4 want the order by weight, R4 and R5 like weights, R3 only the keywords."""
    method = Rules(rule=rule)
    assert similarity(method, BASE, SWAPPED) == swapped
    assert similarity(method, BASE, UNBALANCED) == unbalanced
    assert similarity(method, BASE, BASE + "果园" * 9) == 0.0


@pytest.mark.usefixtures("flat")
def test_distance_of_rules_is_a_parameter() -> None:
    """R5 with a larger a accepts other weights; D = 0.95 for the unbalanced page."""
    lenient = Rules(rule="R5", distance=0.9)
    assert similarity(lenient, BASE, UNBALANCED) == 1.0


@pytest.mark.usefixtures("flat")
def test_other_words_beyond_the_keywords_do_not_matter() -> None:
    """With N = 3 a fourth word is not looked at."""
    method = Rules(rule="R2", keyword_count=3)
    assert similarity(method, BASE, BASE + "果园") == 1.0


def test_unknown_rule_is_refused() -> None:
    """The error names the parameter and the rules."""
    with pytest.raises(OptionsError, match=r"rules\.rule='R6'.*R1, R2, R3, R4, R5"):
        Rules(rule="R6")


def test_feature_list_is_ordered_by_frequency() -> None:
    """The fingerprint is the MD5 of all words by falling frequency."""
    assert feature_list(["b", "a", "c", "c"]) == ["c", "a", "b"]
    assert signed(FeatureList(), method_input(BASE)).payload == md5("灯塔\n码头\n桥梁")
    assert similarity(FeatureList(), BASE, SWAPPED) == 0.0


def test_segments_follow_sentences() -> None:
    """Sentences are dealt out evenly, white space and width do not matter."""
    text = "".join(f"第{i}句。" for i in range(16))
    assert segments(text, 8) == [f"第{2 * i}句。第{2 * i + 1}句。" for i in range(8)]
    assert segments("第１句。 第2句。\n", 2) == ["第1句。", "第2句。"]


@given(st.text(max_size=200), st.integers(1, 12))
def test_segments_lose_nothing(text: str, count: int) -> None:
    """The pieces are the text; there are n of them if it has as many characters."""
    pieces = segments(text, count)
    joined = "".join(pieces)
    assert len(pieces) == min(count, len(joined))
    assert all(pieces)


def test_five_equal_segments_of_eight_are_a_duplicate() -> None:
    """Three of eight sentences may change, four may not; their order does not matter."""
    lines = [f"第{i}座灯塔的故事。" for i in range(8)]
    method = Segments()
    three = [*lines[:5], "改一。", "改二。", "改三。"]
    four = [*lines[:4], "改一。", "改二。", "改三。", "改四。"]
    assert similarity(method, "".join(lines), "".join(three)) == 5 / 8 == method.threshold
    assert similarity(method, "".join(lines), "".join(four)) == 4 / 8
    assert similarity(method, "".join(lines), "".join(reversed(lines))) == 1.0


def test_quantum_is_at_least_two() -> None:
    """1 % of the largest count, halves up; 2 as soon as any word repeats; 1 if none does."""
    assert [quantum(most) for most in (1, 2, 100, 249, 250, 1050)] == [1, 2, 2, 2, 3, 11]


def test_profile_rounds_down_and_drops() -> None:
    """Counts become multiples of the quantum, what is below it is dropped; ties by code point."""
    words = ["啊"] * 7 + ["b"] * 7 + ["a"] * 6 + ["x"] * 3 + ["y"]
    assert text_profile(words) == [("a", 6), ("b", 6), ("啊", 6), ("x", 2)]
    assert text_profile(["z", "a"]) == [("a", 1), ("z", 1)]
    assert text_profile([]) == []
    assert text_profile(["b"] * 250 + ["a"] * 5, rate=0.01) == [("b", 249), ("a", 3)]


def test_profile_forgives_single_words() -> None:
    """A word that occurs once more or once only leaves the profile, two more of one do not."""
    text = "灯塔" * 4 + "码头" * 2
    assert signed(TextProfile(), method_input(text)).payload == md5("灯塔 4\n码头 2")
    assert similarity(TextProfile(), text, text + "码头" + "果园") == 1.0
    assert similarity(TextProfile(), text, text + "码头" * 2) == 0.0


def plain_sums(counts: Counter[str], key: int) -> list[int]:
    """The twin of the matrix product: one bit after the other."""
    sums = [0] * SIGNS
    for token, count in counts.items():
        number = int.from_bytes(token_bits(token, key), "little")
        for bit in range(SIGNS):
            sums[bit] += count if number >> bit & 1 else -count
    return sums


@given(st.lists(st.text(max_size=3), max_size=30), st.integers(0, (1 << 64) - 1))
def test_sums_equal_a_plain_loop(tokens: list[str], key: int) -> None:
    """For any tokens and key."""
    counts = Counter(tokens)
    assert projection_sums(counts, key).tolist() == plain_sums(counts, key)


def test_sums_of_many_tokens() -> None:
    """More tokens than are added at a time give the same sums as their parts."""
    counts = Counter({str(i): i % 5 + 1 for i in range(9000)})
    parts = [Counter(dict(list(counts.items())[i : i + 1000])) for i in range(0, 9000, 1000)]
    together = np.sum([projection_sums(part, 3) for part in parts], axis=0)
    assert projection_sums(counts, 3).tolist() == together.tolist()


def test_vectors_are_balanced() -> None:
    """Half of the components of the tokens' vectors are +1."""
    ones = sum(int.from_bytes(token_bits(str(i), 0), "little").bit_count() for i in range(500))
    assert ones / (500 * SIGNS) == pytest.approx(0.5, abs=0.01)


@settings(deadline=None)  # the first comparison loads the kernel
@given(st.binary(min_size=48, max_size=48), st.sets(st.integers(0, 383), max_size=12))
def test_pages_within_twelve_signs_share_a_key(signs: bytes, flips: set[int]) -> None:
    """13 blocks find every page of which 372 of 384 signs agree, and it is a duplicate."""
    method = RandomProjection()
    count = blocks_for(method.threshold)
    number = int.from_bytes(signs, "little") ^ sum(1 << bit for bit in flips)
    a = Signature(block_keys(signs, count), signs)
    b_signs = number.to_bytes(48, "little")
    b = Signature(block_keys(b_signs, count), b_signs)
    assert count == 13
    assert share_key(a, b)
    assert method.compare(a, b) == 1 - len(flips) / 384
    assert is_duplicate(method, a, b)


def test_thirteen_signs_are_too_many() -> None:
    """371 of 384 are below the threshold."""
    method = RandomProjection()
    flipped = ((1 << 13) - 1).to_bytes(48, "little")
    assert not is_duplicate(method, Signature((), bytes(48)), Signature((), flipped))


def test_low_threshold_has_no_keys() -> None:
    """Blocks of less than 24 bits would be shared by chance: the common candidates serve."""
    assert len(signed(RandomProjection(threshold=369 / 384), method_input(page(1))).keys) == 16
    assert signed(RandomProjection(threshold=368 / 384), method_input(page(1))).keys == ()


def test_sign_of_zero_is_no_bit() -> None:
    """Bits are set by positive sums alone, lowest first."""
    sums = np.zeros(SIGNS, np.int64)
    sums[[0, 9]] = [5, 1]
    sums[1] = -5
    assert sign_bits(sums)[:3] == bytes([1, 2, 0])


def test_similar_pages_have_similar_projections() -> None:
    """A page with one sentence more is closer than another page."""
    method = RandomProjection()
    near = similarity(method, page(1), page(1) + "灯塔的看守人。")
    far = similarity(method, page(1), page(2))
    assert near > 0.9 > far


def test_frequencies_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which keywords a page has depends on the table."""
    payloads = []
    for table in (table_of([]), frequencies()):
        monkeypatch.setattr(digests, "background", lambda table=table: table)
        payloads.append(signed(Rules(rule="R2"), method_input(page(1))).payload)
    assert payloads[0] != payloads[1]
