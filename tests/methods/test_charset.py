"""Character-set and machine-code vectors."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.methods.literature.base import SignatureMethod
from dedup_middleware.methods.literature.charset import (
    FREQUENT_OTHERS,
    SIZE,
    CharacterSet,
    MachineCode,
    Planes,
    level_1,
    machine_codes,
    pack,
)
from tests.methods.inputs import method_input, page, similarity

METHODS = [CharacterSet(), MachineCode(), MachineCode(encoding="gb2312")]


def varied(seed: int, characters: int = 400) -> str:
    """A text whose characters come from the whole list."""
    rng = random.Random(seed)
    return "".join(rng.choices(level_1(), k=characters))


def test_list_has_3764_characters() -> None:
    """GB2312 level 1, from its first to its last character, and nine that are not in it."""
    assert len(level_1()) == len(set(level_1())) == 3755
    assert (level_1()[0], level_1()[-1]) == ("啊", "座")
    assert len(FREQUENT_OTHERS) == 9
    assert not set(FREQUENT_OTHERS) & set(level_1())
    assert len(set(level_1() + FREQUENT_OTHERS)) == SIZE


def test_vector_counts_characters_by_their_place() -> None:
    """What is not in the list is not counted."""
    vector = CharacterSet().vector("啊阿啊 abc，妳鑫🙂")
    assert vector.dtype == np.int64
    assert {int(i): int(vector[i]) for i in np.flatnonzero(vector)} == {0: 2, 1: 1, SIZE - 1: 1}


@given(st.text(max_size=80))
def test_vector_equals_a_plain_count(text: str) -> None:
    """The table look-up gives what counting each character of the list gives."""
    expected = [text.count(character) for character in level_1() + FREQUENT_OTHERS]
    assert CharacterSet().vector(text).tolist() == expected


def machine_code_position(key: int) -> int:
    """Position of a 16-bit code by bisection from its low bit, as the paper defines it."""
    return sum(((key >> j & 1) * SIZE) >> (j + 1) for j in range(16))


def test_position_is_bisection_from_the_low_bit() -> None:
    """Each bit adds half of what the one below it added: 1882, 941, 470, ..."""
    assert [machine_code_position(1 << j) for j in range(13)] == [
        *(1882, 941, 470, 235, 117, 58, 29, 14, 7, 3, 1),
        *(0, 0),
    ]
    assert machine_code_position(0xFFFF) == 3757 < SIZE


def test_only_the_low_11_bits_matter() -> None:
    """UTF-16 uses 2048 of the 3764 positions."""
    assert all(machine_code_position(k) == machine_code_position(k & 0x7FF) for k in range(1 << 16))
    assert len({machine_code_position(key) for key in range(1 << 16)}) == 2048


def test_gb2312_uses_752_positions() -> None:
    """Its two bytes vary in 94 x 8 ways in the low 11 bits."""
    keys = [row << 8 | cell for row in range(0xA1, 0xF8) for cell in range(0xA1, 0xFF)]
    assert len({machine_code_position(key) for key in keys}) == 752
    text = "".join(bytes((k >> 8, k & 0xFF)).decode("gb2312", "ignore") for k in keys)
    assert np.count_nonzero(MachineCode(encoding="gb2312").vector(text)) == 752
    # The same characters in UTF-16.
    assert np.count_nonzero(MachineCode().vector(text)) > 2000


@given(st.text(max_size=60), st.sampled_from(["utf-16", "gb2312"]))
def test_machine_code_vector_equals_the_formula(text: str, encoding: str) -> None:
    """The table gives what the formula gives for each key; white space is not counted."""
    expected = [0] * SIZE
    for key in machine_codes("".join(text.split()), encoding).tolist():
        expected[machine_code_position(key)] += 1
    assert MachineCode(encoding=encoding).vector(text).tolist() == expected


@given(st.text(max_size=60))
def test_gb2312_keys_are_its_bytes(text: str) -> None:
    """A key a character, of one byte or of two, in order; what GB2312 lacks is left out."""
    codes = [character.encode("gb2312", "ignore") for character in text]
    expected = [int.from_bytes(code, "big") for code in codes if code]
    assert machine_codes(text, "gb2312").tolist() == expected


def unpack(data: bytes) -> NDArray[np.int64]:
    """The vector that ``pack`` made bytes of."""
    width, count = data[0], (len(data) - 1) // (2 + data[0])
    vector = np.zeros(SIZE, np.int64)
    positions = np.frombuffer(data, "<u2", count, 1)
    vector[positions] = np.frombuffer(data, f"<u{width}", count, 1 + 2 * count)
    return vector


def tanimoto(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """The definition: ``a.b / (a.a + b.b - a.b)``, 0 if both are zero."""
    product = int(a @ b)
    total = int(a @ a) + int(b @ b) - product
    return product / total if total else 0.0


counts = st.dictionaries(st.integers(0, SIZE - 1), st.integers(1, 1 << 20), max_size=30)


def vector_of(counts: dict[int, int]) -> NDArray[np.int64]:
    """A vector with these counts."""
    vector = np.zeros(SIZE, np.int64)
    vector[list(counts)] = list(counts.values())
    return vector


def by_planes(own: NDArray[np.int64], *others: NDArray[np.int64]) -> list[float]:
    """The coefficients by bit sets."""
    gathered = Planes.of([pack(other) for other in others])
    return Planes.of([pack(own)]).tanimoto(gathered).tolist()


@given(counts, st.lists(counts, max_size=4))
def test_bit_planes_give_the_tanimoto_coefficient(
    own: dict[int, int], others: list[dict[int, int]]
) -> None:
    """Exactly the coefficient of the definition, for one vector against any number of others."""
    vectors = [vector_of(other) for other in [*others, own]]
    expected = [tanimoto(vector_of(own), vector) for vector in vectors]
    assert by_planes(vector_of(own), *vectors) == expected


def test_tanimoto_of_large_counts_does_not_overflow() -> None:
    """Counts of a million a character, whose squares exceed 32 bits, compare exactly."""
    a = np.full(SIZE, 1_000_000, np.int64)
    assert by_planes(a, a, 2 * a, np.zeros(SIZE, np.int64)) == [1.0, pytest.approx(2 / 3), 0.0]


@pytest.mark.parametrize("counts", [[1 << 30], [(1 << 32) - 1] * 3, [1 << 29] * 8])
def test_counts_that_no_page_has(counts: list[int]) -> None:
    """Sums of their squares would not fit into 64 bits, so a damaged payload is like no page."""
    vector = np.zeros(SIZE, np.int64)
    vector[: len(counts)] = counts
    assert by_planes(vector, vector) == [0.0]


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_bytes_that_are_no_vector_are_like_no_page(damaged: list[bytes]) -> None:
    """A damaged payload has a similarity of 0 or that of the vector it happens to be; those
    around it are compared as without it."""
    method, text = CharacterSet(), varied(1)
    own = method.sign(method_input(text))
    assert own is not None
    found = method.similarities(own, method.gather([own.payload, *damaged, own.payload]))
    assert found[0] == found[-1] == 1.0
    assert all(value < 0.9 for value in found[1:-1])
    beyond = bytes([1, 0xFF, 0xFF, 1])  # a position that no vector has
    assert method.similarities(own, method.gather([beyond])).tolist() == [0.0]


@given(counts)
def test_packed_vector_comes_back(counts: dict[int, int]) -> None:
    """Vectors survive as bytes, whatever the width of their counts."""
    vector = vector_of(counts)
    assert unpack(pack(vector)).tolist() == vector.tolist()


def test_packed_vector_layout() -> None:
    """Width of a count, positions of two bytes, counts: little-endian."""
    vector = np.zeros(SIZE, np.int64)
    vector[[1, 258]] = [3, 300]
    assert pack(vector) == bytes([2, 1, 0, 2, 1, 3, 0, 44, 1])


@pytest.mark.parametrize("method", METHODS)
def test_reordered_and_edited_text_is_found(method: SignatureMethod) -> None:
    """Sentences in another order are identical; one of 24 sentences less is a duplicate."""
    lines = page(3).split("。")
    assert similarity(method, page(3), "。".join(reversed(lines))) == 1.0
    assert similarity(method, page(3), "。".join(lines[2:])) >= method.threshold


@pytest.mark.parametrize("method", METHODS)
def test_texts_of_other_characters_are_no_duplicates(method: SignatureMethod) -> None:
    """Random texts of 400 characters of the list are far below the threshold."""
    assert all(similarity(method, varied(2 * i), varied(2 * i + 1)) < 0.7 for i in range(20))


def test_zero_vectors_are_equal_only_with_equal_text() -> None:
    """Texts without a character of the list are compared in normal form."""
    method = CharacterSet()
    assert similarity(method, "Lighthouse keepers", "lighthouse  KEEPERS") == 1.0
    assert similarity(method, "lighthouse keepers", "harbour masters") == 0.0
    assert similarity(method, "lighthouse", "灯塔") == 0.0
    assert similarity(MachineCode(encoding="gb2312"), "한국어", "한국인") == 0.0
