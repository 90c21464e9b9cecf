"""Pairs that are not judged, because a few bits say that they are no duplicates."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware import Document, Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.pairing import COUNT, FIRST, HOST, WORDS, Blocks, pairs
from dedup_middleware.methods.base import content_bytes
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature.evidence import make_evidence
from dedup_middleware.spark.columns import EVERY_PAIR, NO_SIEVE, limit_of, make_sieve
from tests.spark.streams import stream

METHOD = choose_method(Options())


@cache
def fingerprints(pages: int) -> list[Fingerprint]:
    """Those of the pages of a stream that have a text."""
    make = Fingerprinter(Options(hash_key="5"), 5)
    rows = (row for row in stream(pages, seed=3) if row["text"])
    found = [make(Document(key=r["url"], text=r["text"], title=r["title"])) for r in rows]
    return [page for page in found if not page.is_empty]


def may_match(
    sieves: NDArray[np.uint64], pages: NDArray[np.int64], candidates: NDArray[np.int64],
    limit: float,
) -> NDArray[np.bool_]:  # fmt: skip
    """Which of m pairs have to be judged: each pair is a block of its own."""
    count = len(pages)
    rows = np.column_stack((candidates, pages)).ravel()
    nothing = np.zeros(2 * count, np.int64)
    orders = np.arange(2 * count)
    blocks = Blocks(
        2 * np.arange(count + 1), np.full(count, 6), nothing[:count], orders, orders,
        np.zeros(2 * count, np.uint64), nothing, nothing, np.empty((2 * count, 0), np.int64),
        sieves[rows],
    )  # fmt: skip
    ((found, _),) = pairs(blocks, 3, (2, 2), limit, count + 2)
    return np.isin(np.arange(count), found // 2)


def sieves_of(pages: list[Fingerprint]) -> NDArray[np.uint64]:
    """Their sieves as rows."""
    raw = b"".join(make_sieve(METHOD, page) for page in pages)
    return np.frombuffer(raw, np.uint64).reshape(-1, WORDS)


@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.9])
def test_all_duplicates_are_judged(threshold: float) -> None:
    """No pair that the rule calls a duplicate is left out, and nearly all unlike ones are."""
    method = choose_method(Options(threshold=threshold))
    pages = fingerprints(160)
    content = np.frombuffer(b"".join(map(content_bytes, pages)), CONTENT)
    evidence = [make_evidence(page.wording) for page in pages]
    sieves, rows = sieves_of(pages), np.arange(len(pages))
    duplicates = left_out = unlike = 0
    for row, page in enumerate(pages):
        judged = method.judge(page, content, evidence)
        kept = may_match(sieves, np.full(len(pages), row), rows, limit_of(method))
        assert kept[judged.duplicate].all()
        assert kept[content["host"] == page.host].all()
        duplicates += int(judged.duplicate.sum()) - 1
        far = (judged.shared < 0.1 * page.size) & (content["host"] != page.host)
        unlike += int(far.sum())
        left_out += int((far & ~kept).sum())
    assert duplicates > len(pages) / 4
    assert left_out > (0.8 if threshold >= 0.8 else 0.5) * unlike > 0


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 40)), st.integers(0, 2)), min_size=1, max_size=5),
    st.floats(0, 1.2),
)
def test_pairs_equal_a_plain_loop(drawn: list[tuple[set[int], int]], limit: float) -> None:
    """A pair is left out if a sieve proves too many missing shingles, on different hosts."""
    sieves = np.zeros((len(drawn), WORDS), np.uint64)
    for row, (bits, host) in enumerate(drawn):
        sieves[row, [HOST, COUNT]] = host, len(bits)
        for bit in bits:
            sieves[row, FIRST + bit % 16] |= np.uint64(1 << bit)
    pages, candidates = np.divmod(np.arange(len(drawn) ** 2), len(drawn))
    found = may_match(sieves, pages, candidates, limit).tolist()
    for page, candidate, is_kept in zip(pages.tolist(), candidates.tolist(), found, strict=True):
        (own, host), (others, their_host) = drawn[page], drawn[candidate]
        few = len(own - others) <= limit * len(own) + 0.5 * len(own) ** 0.5
        assert is_kept == (few or not others or (host == their_host and host > 0))


def test_pages_without_a_sieve_are_judged() -> None:
    """Those of an index have none, and other methods make none."""
    page = fingerprints(40)[0]
    sieves = np.frombuffer(make_sieve(METHOD, page) + NO_SIEVE, np.uint64).reshape(2, WORDS)
    assert may_match(sieves, np.array([0, 1]), np.array([1, 0]), 0.1).all()
    simhash = choose_method(Options(method="simhash"))
    assert make_sieve(simhash, page) == NO_SIEVE
    assert limit_of(simhash) == EVERY_PAIR


def test_a_sieve_counts_different_shingles() -> None:
    """Its number of shingles is that of its page's wording, each once."""
    for page, sieve in zip(fingerprints(40), sieves_of(fingerprints(40)), strict=True):
        assert sieve[COUNT] == len(np.unique(page.wording.order))
        assert 0 < np.bitwise_count(sieve[FIRST:]).sum() <= sieve[COUNT]
