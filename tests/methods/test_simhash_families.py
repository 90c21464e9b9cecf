"""The lecture's feature hashes and the weighted SimHash."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.methods.literature import simhashes
from dedup_middleware.methods.literature.base import MethodInput
from dedup_middleware.methods.literature.frequencies import background
from dedup_middleware.methods.literature.simhashes import (
    WITHIN_3_BITS,
    Luogang,
    WeightedSimHash,
    blocks,
    character_index,
    dictionary_features,
    enumerated_hash,
    simhash_of,
    simhash_signature,
    string_hash,
)
from tests.methods.inputs import is_duplicate, method_input, page, share_key

fingerprints = st.integers(0, (1 << 64) - 1)


def expansion(query: int, distance: int) -> Iterator[int]:
    """Query expansion: every fingerprint within a distance of the query."""
    for flips in range(distance + 1):
        for positions in combinations(range(64), flips):
            yield query ^ sum(1 << position for position in positions)


def test_expansion_linear_scan_and_four_tables_agree() -> None:
    """43,745 probes find what comparing all finds and what the block keys find."""
    rng = random.Random(1)
    query = rng.getrandbits(64)
    stored = [rng.getrandbits(64) for _ in range(500)]
    for distance in (0, 1, 2, 3, 4, 5):
        flips = [rng.sample(range(64), distance) for _ in range(60)]
        stored += [query ^ sum(1 << bit for bit in bits) for bits in flips]
    probes = set(expansion(query, 3))
    assert len(probes) == 1 + 64 + 2016 + 41_664 == 43_745
    by_probes = {value for value in stored if value in probes}
    by_scan = {value for value in stored if int.bit_count(value ^ query) <= 3}
    own = simhash_signature(query)
    by_tables = set()
    for value in stored:
        other = simhash_signature(value)
        if share_key(own, other) and Luogang().compare(own, other) >= WITHIN_3_BITS:
            by_tables.add(value)
    assert by_probes == by_scan == by_tables
    # Equal fingerprints are one.
    assert 1 + 50 + 50 + 50 < len(by_scan) <= 181


@given(fingerprints)
def test_signature_restores_the_fingerprint(value: int) -> None:
    """Payload and keys hold all 64 bits; the keys are the numbered blocks."""
    signature = simhash_signature(value)
    assert simhash_of(signature) == value
    assert [group for group, _ in signature.keys] == [0, 1, 2, 3]
    joined = 0
    for _, key in signature.keys:
        joined = joined << 16 | key >> 48
    assert joined == value
    assert len(blocks(value)) == 4


def test_similarity_is_one_minus_distance_by_64() -> None:
    """Three bits are the threshold, four are below it."""
    signatures = [simhash_signature(value) for value in (0, 0b111, 0b1111)]
    method = Luogang()
    assert method.compare(signatures[0], signatures[1]) == 1 - 3 / 64 == method.threshold
    assert is_duplicate(method, signatures[0], signatures[1])
    assert not is_duplicate(method, signatures[0], signatures[2])


def plain_enumerated_hash(ordinal: int, features: int) -> int:
    """The lecture's hash as one number in base 2**b, reduced at the end."""
    bits = max(1, math.ceil(math.log2(features)))
    return sum(ordinal * 2 ** (bits * i) for i in range(64 // bits + 1)) % 2**64


@given(st.integers(1, 1 << 40), st.data())
def test_enumerated_hash_is_that_of_the_lecture(features: int, data: st.DataObject) -> None:
    """The ordinal, then 64 // b times shifted by b and added, modulo 2**64."""
    ordinal = data.draw(st.integers(0, features - 1))
    assert enumerated_hash(ordinal, features) == plain_enumerated_hash(ordinal, features)


def test_enumerated_hash_repeats_the_ordinal() -> None:
    """b = ceil(log2 n) bits, 64 // b times; what is left over at the top has its low bits."""
    assert enumerated_hash(1, 5) == 0x9249_2492_4924_9249
    assert enumerated_hash(5, 8) == int("1" + "101" * 21, 2)
    assert enumerated_hash(1, 2) == (1 << 64) - 1
    assert enumerated_hash(0, 1) == 0
    ordinal = 0x5A5A5
    repeated = ordinal | ordinal << 20 | ordinal << 40 | (ordinal & 0xF) << 60
    assert enumerated_hash(ordinal, 1 << 19 | 1) == repeated
    with pytest.raises(ValueError, match=r"ordinal=8 must lie in 0\.\.7"):
        enumerated_hash(8, 8)


def plain_luogang(tokens: Sequence[str], vocabulary: Mapping[str, int], zero_sets: bool) -> int:
    """SimHash of the lecture, bit by bit with Python's numbers."""
    sums = [0] * 64
    for token in tokens:
        value = plain_enumerated_hash(vocabulary[token], len(vocabulary))
        for bit in range(64):
            sums[bit] += 1 if value >> bit & 1 else -1
    return sum(
        1 << bit for bit, total in enumerate(sums) if total > 0 or (zero_sets and total == 0)
    )


@given(
    st.lists(st.sampled_from(("灯塔", "码头", "桥梁", "果园", "展厅")), min_size=1, max_size=12),
    st.booleans(),
)
def test_luogang_is_the_lectures_simhash(words: list[str], zero_sets: bool) -> None:
    """With balanced sums set, as in the lecture and by default, and not set."""
    vocabulary = {"灯塔": 0, "码头": 1, "桥梁": 2, "果园": 3, "展厅": 4}
    method = Luogang(hash="enumerated", zero_sets=zero_sets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simhashes, "dictionary_features", lambda: vocabulary)
        signature = method.sign(MethodInput(title="", text="", tokens=tuple(words)))
    assert signature is not None
    assert simhash_of(signature) == plain_luogang(words, vocabulary, zero_sets)
    assert Luogang().zero_sets


def test_index_of_every_character_is_its_own() -> None:
    """Han characters of GB2312 have the indexes 0..6767 (five rows' ends are empty), bytes the
    next 117."""
    codes = [bytes((row, cell)) for row in range(176, 248) for cell in range(161, 255)]
    han = [code.decode("gb2312", "ignore") for code in codes]
    found = [character_index(character) for character in han if character]
    assert found == [i for i, character in enumerate(han) if character]
    assert len(found) == 6763
    singles = [character_index(chr(byte)) for byte in range(128)]
    assert singles[9:126] == list(range(6768, 6885))
    assert set(singles[:9] + singles[126:]) == {None}


def plain_string_hash(indexes: list[int]) -> int:
    """The lecture's hash with big numbers, reduced at the end."""
    original = sum(index * 6885**power for power, index in enumerate(reversed(indexes)))
    most_bits = 13 * len(indexes)
    value = original
    for _ in range(64 // most_bits + 1):
        value = value * 2 ** (most_bits & 63) + original
    return value % (1 << 64)


@given(st.lists(st.sampled_from("啊阿座吖鼾abzZ09"), min_size=1, max_size=9))
def test_string_hash_is_horners_rule(characters: list[str]) -> None:
    """For words of 1 to 9 characters, beyond 64 bits too."""
    indexes = [index for index in map(character_index, characters) if index is not None]
    assert string_hash("".join(characters)) == plain_string_hash(indexes)


def test_string_hash_repeats_short_words() -> None:
    """64 / 13 = 4 gives five rounds for one character, of which four stay within 64 bits."""
    assert string_hash("阿") == sum(1 << 13 * i for i in range(5))
    # 13 * 5 = 65 bits: the shift is 65 & 63 = 1, one round.
    word = "阿阿阿阿阿"
    original = sum(6885**i for i in range(5))
    assert string_hash(word) == 3 * original % (1 << 64)
    assert string_hash("啊") == 0


def test_characters_without_index_are_left_out() -> None:
    """Punctuation, other scripts and halves of surrogate pairs add nothing, not even length."""
    assert string_hash("阿，\ud800🙂") == string_hash("阿")
    assert string_hash("，。한") is None


def test_source_hashes_bias_bits() -> None:
    """Over single characters the string hash has bits that are rarely set, the keyed hash none;
    that is why it is not the default."""
    words = [bytes((row, cell)).decode("gb2312") for row in range(176, 215) for cell in (161, 200)]
    hashes = [string_hash(word) or 0 for word in words]
    shares = [sum(value >> bit & 1 for value in hashes) / len(hashes) for bit in range(64)]
    assert min(shares) < 0.1
    assert Luogang().hash == "keyed"


def test_vocabulary_of_the_enumerated_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words outside the vocabulary are left out; without any known word there is no SimHash."""
    words = {"灯塔": 0, "码头": 1, "桥梁": 2, "果园": 3}
    monkeypatch.setattr(simhashes, "dictionary_features", lambda: words)
    method = Luogang(hash="enumerated")
    signature = method.sign(method_input("码头"))
    assert signature is not None
    assert simhash_of(signature) == enumerated_hash(1, 4)
    assert method.sign(method_input("展厅")) is None


def test_default_vocabulary_is_the_dictionary() -> None:
    """The ordinals number the words of jieba's dictionary, so 19 bits three times."""
    known = dictionary_features()
    assert sorted(known.values()) == list(range(len(known)))
    assert (len(known) - 1).bit_length() == 19
    signature = Luogang(hash="enumerated").sign(method_input("灯塔"))
    assert signature is not None
    assert simhash_of(signature) == enumerated_hash(known["灯塔"], len(known))


def test_source_hashes_take_different_pages_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 made-up pages of few words the keyed hash keeps all apart, the lecture's own hashes do
    not. Balanced sums count as 0: set, they bring pages of few words closer with any hash."""
    vocabulary = {word: i for i, word in enumerate(sorted(set(method_input(page(0)).tokens)))}
    monkeypatch.setattr(simhashes, "dictionary_features", lambda: vocabulary)
    flagged = {}
    for variant in ("keyed", "string", "enumerated"):
        method = Luogang(hash=variant, zero_sets=False)
        signatures = [method.sign(method_input(page(seed))) for seed in range(30)]
        known = [signature for signature in signatures if signature is not None]
        assert len(known) == 30
        flagged[variant] = sum(is_duplicate(method, a, b) for a, b in combinations(known, 2))
    assert flagged["keyed"] == 0
    assert flagged["string"] > 0
    assert flagged["enumerated"] > 0


@pytest.mark.parametrize("variant", ["keyed", "string", "enumerated"])
def test_single_word_has_the_hash_of_its_feature(variant: str) -> None:
    """The SimHash of one word is the word's hash."""
    signature = Luogang(hash=variant).sign(method_input("图书馆"))
    assert signature is not None
    if variant == "string":
        assert simhash_of(signature) == string_hash("图书馆")
    repeated = Luogang(hash=variant).sign(method_input("图书馆图书馆"))
    assert repeated is not None
    assert simhash_of(repeated) == simhash_of(signature)


def test_weight_is_the_product_of_its_factors() -> None:
    """(1 + ln tf) * idf * length factor * title factor, in the order of the words."""
    table = background()
    method = WeightedSimHash(title_boost=3.0)
    weights = method.weights({"灯塔": 4, "的": 1}, title=("灯塔",))
    idf = table.idf(["灯塔", "的"])
    assert weights[0] == pytest.approx((1 + math.log(4)) * idf[0] * (1 + math.log(2)) * 3)
    assert weights[1] == pytest.approx(idf[1])


@pytest.mark.parametrize("factor", ["tf", "idf", "length", "title"])
def test_each_factor_can_be_switched_off(factor: str) -> None:
    """Without a factor the weights are those with it, divided by it."""
    table = background()
    counts = {"灯塔": 4, "供水管网": 2, "桥": 1}
    factors = {
        "tf": 1 + np.log([4, 2, 1]),
        "idf": table.idf(list(counts)),
        "length": 1 + np.log([2, 4, 1]),
        "title": np.array([1.0, 2.0, 1.0]),
    }
    whole = WeightedSimHash().weights(counts, ["供水管网"])
    without = WeightedSimHash(**{factor: False})  # type: ignore[arg-type]
    assert without.weights(counts, ["供水管网"]) == pytest.approx(whole / factors[factor])
    assert not np.allclose(factors[factor], 1.0)


def test_length_factor_ends_at_eight_characters() -> None:
    """Longer words than eight characters weigh no more, and no word weighs nothing."""
    method = WeightedSimHash(tf=False, idf=False, title=False)
    weights = method.weights(dict.fromkeys(["a" * 8, "a" * 80, ""], 1), ())
    assert weights.tolist() == pytest.approx([1 + math.log(8), 1 + math.log(8), 1.0])


def test_title_words_pull_the_fingerprint() -> None:
    """With a large boost the SimHash comes closer to that of the title's word alone."""
    alone = WeightedSimHash().sign(method_input("灯塔"))
    similarities = []
    for boost in (1.0, 100.0):
        method = WeightedSimHash(title_boost=boost)
        signature = method.sign(method_input(page(1) + "灯塔", "灯塔"))
        assert signature is not None
        assert alone is not None
        similarities.append(method.compare(alone, signature))
    assert similarities[0] < similarities[1]


def test_unknown_hash_is_refused() -> None:
    """The error names the parameter and the choices."""
    with pytest.raises(OptionsError, match=r"luogang\.hash='md5'.*keyed, enumerated, string"):
        Luogang(hash="md5")
