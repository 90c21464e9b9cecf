"""The eight string hashes and the survey's collision experiment."""

from __future__ import annotations

import statistics

import pytest

from research.stringhashes import (
    DOCUMENTS,
    DUPLICATES,
    PUBLISHED,
    SLOTS,
    STRING_HASHES,
    CollisionRow,
    collision_table,
    collisions,
    documents,
    elf_hash,
    expected_collisions,
    ideal_hash,
    pjw_hash,
)

# What the functions in C give for these characters.
KEY = b"abcdefghijklmnopqrstuvwxyz1234567890"
VALUES = {
    "ELF": 126631744,
    "RS": 4097835502,
    "JS": 1651003062,
    "PJW": 126631744,
    "BKDR": 3153586616,
    "SDBM": 3449571336,
    "DJB": 729241521,
    "AP": 882643939,
}


@pytest.fixture(scope="module")
def table() -> list[CollisionRow]:
    """The experiment, done once."""
    return collision_table(seed=1)


@pytest.mark.parametrize("name", STRING_HASHES)
def test_hash_equals_the_function_in_c(name: str) -> None:
    """32-bit values are those of the published functions, and stay within 32 bits."""
    assert STRING_HASHES[name](KEY, 32) == VALUES[name]
    assert max(STRING_HASHES[name](KEY * i, 32) for i in range(40)) < 1 << 32


@pytest.mark.parametrize("name", STRING_HASHES)
def test_hash_of_64_bits_uses_them(name: str) -> None:
    """The wide variant goes far beyond 32 bits and stays in its word."""
    values = [STRING_HASHES[name](KEY * i, 64) for i in range(1, 40)]
    assert 1 << 48 < max(values) < 1 << 64


def test_elf_is_pjw_at_32_bits() -> None:
    """The two are one function, which is why the survey has 594 for both."""
    texts = documents(3, 100, 0)
    assert [elf_hash(text) for text in texts] == [pjw_hash(text) for text in texts]
    assert PUBLISHED["ELF"] == PUBLISHED["PJW"]


def test_documents_have_the_copies_of_the_survey() -> None:
    """1000 documents, 581 of them different; another seed gives others."""
    texts = documents(1)
    assert len(texts) == DOCUMENTS
    assert DOCUMENTS - len(set(texts)) == DUPLICATES
    assert documents(1) == texts
    assert not set(documents(2)) & set(texts)


@pytest.mark.slow
def test_ideal_hash_gives_557_in_1024_slots() -> None:
    """Formula and experiment agree: 557 +- 8."""
    mean, deviation = expected_collisions(SLOTS)
    assert mean == pytest.approx(557, abs=1)
    assert deviation == pytest.approx(8, abs=0.1)
    found = [collisions([ideal_hash(t) for t in documents(seed)], SLOTS) for seed in range(60)]
    assert statistics.mean(found) == pytest.approx(mean, abs=4)
    assert statistics.stdev(found) == pytest.approx(deviation, abs=3)


def test_table_of_1024_slots_explains_the_published_counts(table: list[CollisionRow]) -> None:
    """In 1024 slots each hash collides about as often as published, within a tenth, and as an
    ideal hash does, within five standard deviations."""
    mean, deviation = expected_collisions(SLOTS)
    for row in table:
        assert row.table == pytest.approx(mean, abs=5 * deviation)
        if row.published is not None:
            assert row.table == pytest.approx(row.published, rel=0.1)


def test_whole_hashes_have_no_excess(table: list[CollisionRow]) -> None:
    """With 64 bits only the copies collide, with each of the hashes."""
    assert [row.name for row in table] == [*STRING_HASHES, "ideal"]
    assert {row.whole_64 for row in table} == {DUPLICATES}
    assert all(row.whole_32 <= DUPLICATES + 1 for row in table)


def test_other_table_sizes_do_not_explain_them() -> None:
    """Half or twice as many slots are more than five standard deviations off every count."""
    for slots in (SLOTS // 2, SLOTS * 2):
        mean, deviation = expected_collisions(slots)
        assert all(abs(count - mean) > 5 * deviation for count in PUBLISHED.values())
