"""The patent's pipeline, step by step."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.methods.literature.base import MethodInput
from dedup_middleware.methods.literature.csu import (
    FINGERPRINT_SEED,
    Csu,
    class_keys,
    equal_positions,
    fingerprint,
    fold16,
    sample,
    sampling_step,
    shingle_hashes,
)
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.signature.minhash import permutations
from dedup_middleware.text.shingle import Shingler
from tests.methods.inputs import is_duplicate, method_input, page, share_key


def tokens(count: int, seed: int = 0) -> list[str]:
    """Tokens that do not repeat."""
    rng = random.Random(seed)
    return [f"t{rng.randrange(10**9)}" for _ in range(count)]


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    """Jaccard index of two samples."""
    first, second = set(a.tolist()), set(b.tolist())
    return len(first & second) / len(first | second)


def minwise_fingerprint(
    sample: Collection[int], permutations: Sequence[Callable[[int], int]]
) -> list[int]:
    """The definition: ``F[j] = min(pi_j(s) for s in sample)``."""
    return [min(map(permute, sample)) for permute in permutations]


def test_worked_example_of_the_patent() -> None:
    """Omega = {1..5}, three permutations: F(S1) = {1,2,1}, F(S2) = {2,2,2}."""
    tables = ([3, 2, 1, 5, 4], [2, 3, 5, 4, 1], [5, 3, 1, 2, 4])
    pi = [lambda element, table=table: table[element - 1] for table in tables]
    assert minwise_fingerprint({1, 2, 3}, pi) == [1, 2, 1]
    assert minwise_fingerprint({1, 2, 4}, pi) == [2, 2, 2]
    one, two = (minwise_fingerprint(s, pi) for s in ({1, 2, 3}, {1, 2, 4}))
    equal = equal_positions(np.array([one], np.uint16), np.array(two, np.uint16))
    assert equal.tolist() == [1]


@given(
    st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=40, unique=True),
    st.integers(7, 10),
)
def test_fingerprint_is_the_definition(hashes: list[int], positions: int) -> None:
    """The kernel gives the minima of the definition, folded to 16 bits."""

    def mix32(value: int) -> int:
        value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        return value ^ value >> 16

    drawn = permutations(positions, FINGERPRINT_SEED).tolist()
    pi = [
        lambda h, a=a, b=b: (a * mix32(h & 0xFFFFFFFF) + b) & 0xFFFFFFFF
        for a, b in zip(*drawn, strict=True)
    ]
    expected = [mix32(minimum) >> 16 for minimum in minwise_fingerprint(hashes, pi)]
    assert fingerprint(np.array(hashes, np.uint64), positions).tolist() == expected


def test_folding_keeps_minima_apart() -> None:
    """Small minima, as those of large samples are, spread over all 16 bits."""
    folded = fold16(np.arange(4096, dtype=np.uint32))
    assert len(np.unique(folded)) > 3900
    assert folded.max() > 65_000


@pytest.mark.parametrize("width", [2, 3, 4])
def test_shingles_are_windows(width: int) -> None:
    """L tokens have L - w + 1 shingles, and equal windows have equal hashes."""
    words = tokens(20)
    hashes = shingle_hashes(words, width, 0)
    assert len(hashes) == 20 - width + 1
    assert hashes[3] == shingle_hashes(words[3 : 3 + width], width, 0)[0]
    swapped = [words[1], words[0], *words[2:]]
    assert shingle_hashes(swapped, width, 0)[0] != hashes[0]


def test_few_tokens_are_one_shingle() -> None:
    """Fewer tokens than w give one shingle of them all; no token gives none."""
    assert len(shingle_hashes(["甲", "乙"], 3, 0)) == 1
    assert len(shingle_hashes(["甲"], 3, 0)) == 1
    assert len(shingle_hashes([], 3, 0)) == 0


def test_no_shingle_crosses_from_title_to_body() -> None:
    """The shingles of a page are those of its title and those of its body."""
    title, body = tuple(tokens(5, 1)), tuple(tokens(9, 2))
    payloads = []
    for first, second in ((title, body), (body, title), ((), title + body)):
        page = MethodInput(title="", text="", title_tokens=first, tokens=second)
        signature = Csu().sign(page)
        assert signature is not None
        payloads.append(signature.payload)
    assert payloads[0] == payloads[1] != payloads[2]


@pytest.mark.parametrize(("wanted", "step"), [(166, 2), (83, 4), (41, 8)])
def test_one_token_at_the_front_ruins_positional_samples(wanted: int, step: int) -> None:
    """The Jaccard index 0.997 of the pages becomes 0.000 of positional samples; hash sampling
    keeps it."""
    words = tokens(335)
    before = shingle_hashes(words, 3, 0)
    after = shingle_hashes(["新", *words], 3, 0)
    assert sampling_step(len(before), wanted) == sampling_step(len(after), wanted) == step
    assert round(jaccard(before, after), 3) == 0.997
    similarity = {
        mode: jaccard(sample(before, wanted, mode), sample(after, wanted, mode))
        for mode in ("position", "hash")
    }
    assert similarity["position"] == 0.0
    assert similarity["hash"] > 0.97


@given(st.integers(1, 2000), st.integers(1, 500), st.sampled_from(["hash", "position"]))
def test_samples_are_parts_of_the_page(shingles: int, wanted: int, mode: str) -> None:
    """A sample is never empty, holds shingles of the page alone, and all of them at step 1."""
    hashes = np.random.default_rng(shingles).integers(0, 1 << 63, shingles).astype(np.uint64)
    chosen = sample(hashes, wanted, mode)
    assert len(chosen) > 0
    assert set(chosen.tolist()) <= set(hashes.tolist())
    if sampling_step(shingles, wanted) == 1:
        assert len(chosen) == shingles


def equal_by_numpy(rows: NDArray[np.uint16], query: NDArray[np.uint16]) -> list[int]:
    """The twin of the kernel."""
    counts: list[int] = np.count_nonzero(rows == query, axis=1).tolist()
    return counts


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 1 << 30))
def test_kernel_counts_like_numpy(count: int, positions: int, seed: int) -> None:
    """For any number of fingerprints of any length, whole registers or not."""
    rng = np.random.default_rng(seed)
    # Few values, 0 among them, so that equal positions are common and padding could show.
    rows = rng.integers(0, 3, (count, positions)).astype(np.uint16)
    query = rng.integers(0, 3, positions).astype(np.uint16)
    found = equal_positions(rows, query)
    assert found.dtype == np.uint8
    assert found.tolist() == equal_by_numpy(rows, query)


def test_kernel_compares_all_16_bits() -> None:
    """One bit of difference makes a position unequal, whichever bit it is."""
    query = np.full(8, 0x5555, np.uint16)
    rows = np.array([[0x5555 ^ 1 << bit] + [0x5555] * 7 for bit in range(16)], np.uint16)
    assert equal_positions(rows, query).tolist() == [7] * 16


def test_kernel_refuses_other_shapes() -> None:
    """Fingerprints of another length are an error that names both shapes."""
    with pytest.raises(ValueError, match=r"\(2, 7\) and \(8,\)"):
        equal_positions(np.zeros((2, 7), np.uint16), np.zeros(8, np.uint16))


def test_classes_of_one_position_or_of_any() -> None:
    """A value at another position makes a class only if any position counts."""
    a, b = np.array([1, 2, 3], np.uint16), np.array([3, 5, 6], np.uint16)
    assert set(class_keys(a)).isdisjoint(class_keys(b))
    assert class_keys(a, any_position=True) == ((0, 1 << 48), (0, 2 << 48), (0, 3 << 48))
    assert not set(class_keys(a, any_position=True)).isdisjoint(class_keys(b, any_position=True))


def overlapping(shared: int, own: int, seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """Two sets of hashes with a Jaccard index of shared / (shared + 2 own)."""
    drawn = np.random.default_rng(seed).integers(0, 1 << 63, shared + 2 * own).tolist()
    return drawn[: shared + own], drawn[:shared] + drawn[shared + own :]


def test_share_of_candidates_is_as_computed() -> None:
    """Of 400 pairs of Jaccard index 0.2 as many share a class as 1 - (1 - J)^M says."""
    expected = 1 - (1 - 0.2) ** 8
    found = 0
    for seed in range(400):
        a, b = overlapping(40, 80, seed)
        keys = [set(class_keys(fingerprint(np.array(s, np.uint64), 8))) for s in (a, b)]
        found += not keys[0].isdisjoint(keys[1])
    assert found / 400 == pytest.approx(expected, abs=0.06)


def test_unrelated_class_mates_fail_verification() -> None:
    """Pages of a low Jaccard index have similarity 0 however many positions agree."""
    a = method_input("".join(page(1).splitlines(keepends=True)[:3]))
    b = method_input(page(1))
    strict, lenient = Csu(), Csu(verify=0.0)
    first, second = strict.sign(a), strict.sign(b)
    assert first is not None
    assert second is not None
    assert lenient.compare(first, second) > 0
    assert strict.compare(first, second) == 0.0


def plain_similarity(method: Csu, a: bytes, b: bytes) -> float:
    """The twin of a comparison: equal values / M where the estimated Jaccard index is enough."""
    cut = 2 * method.positions
    bits = [int.from_bytes(payload[cut:], "little") for payload in (a, b)]
    agreement = 1 - int.bit_count(bits[0] ^ bits[1]) / 512
    if max(0.0, 2 * agreement - 1) < method.verify:
        return 0.0
    pairs = [(a[i : i + 2], b[i : i + 2]) for i in range(0, cut, 2)]
    return sum(x == y for x, y in pairs) / method.positions


@pytest.mark.parametrize("positions", [7, 8, 10])
def test_batch_compares_like_one_by_one(positions: int) -> None:
    """All candidates in one call of the kernel, bytes that are no signature in between."""
    method = Csu(positions=positions, verify=0.3)
    texts = [page(seed) + page(9) for seed in range(4)] + [page(9), page(9) + "补充。"]
    signed = [method.sign(method_input(text)) for text in texts]
    payloads = [signature.payload for signature in signed if signature is not None]
    mixed = [*payloads, b"", payloads[0][:-1], *payloads]
    for own in signed:
        assert own is not None
        one = [plain_similarity(method, own.payload, payload) for payload in payloads]
        found = method.similarities(own, method.gather(mixed)).tolist()
        assert found == [*one, 0.0, 0.0, *one]
        assert max(one) == 1.0


def test_edited_page_is_found() -> None:
    """One word more in a page of 24 sentences leaves it a duplicate in the same class."""
    method = Csu()
    a, b = method.sign(method_input(page(1))), method.sign(method_input(page(1) + "补充。"))
    assert a is not None
    assert b is not None
    assert share_key(a, b)
    assert is_duplicate(method, a, b)


def test_whole_pipeline_from_text() -> None:
    """Segmented by forward maximum matching as the method asks, without stop words, an edited
    page is a duplicate and another page is not."""
    shingler = Shingler(segmenter=Csu.segmenter or "")

    def read(title: str, text: str) -> Signature:
        words, title_words = tuple(shingler.tokens(text)), tuple(shingler.tokens(title))
        found = Csu().sign(MethodInput(title, text, words, title_words))
        assert found is not None
        return found

    first = read("港口的图书馆", page(1))
    edited = read("港口的图书馆", page(1).replace("。", "。\u3000", 3) + "（完）")
    other = read("山谷的博物馆", page(2))
    assert share_key(first, edited)
    assert is_duplicate(Csu(), first, edited)
    assert not is_duplicate(Csu(), first, other)


def test_one_register_holds_a_fingerprint() -> None:
    """M = 8 positions of 16 bits are 128 bits; the sketch for verification has 512 more."""
    signature = Csu().sign(method_input(page(1)))
    assert signature is not None
    assert len(signature.payload) == 128 // 8 + 512 // 8
    assert len(signature.keys) == 8


@pytest.mark.parametrize(
    ("field", "value"),
    [("positions", 6), ("positions", 11), ("width", 6), ("samples", 0), ("sampling", "random")],
)
def test_parameters_outside_the_patent_are_refused(field: str, value: int | str) -> None:
    """The error names the parameter and what it may be."""
    with pytest.raises(OptionsError, match=rf"csu\.{field}=.* can't be used: use"):
        Csu(**{field: value})  # type: ignore[arg-type]
