"""The kernel of the default rule against its plain twin; damaged evidence, and that of copies."""

from __future__ import annotations

import functools

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dedup_middleware import Document, Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import ContentByEvidence
from dedup_middleware.model.fingerprint import Fingerprint, Wording
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature import evidence
from dedup_middleware.signature.evidence import examine
from tests.methods.evidence_twin import weigh as plainly_weighed
from tests.texts import sentences

ARTICLE = sentences(1, 40)


@pytest.mark.parametrize("damage", [b"", b"\0" * 9, b"\xff" * 4])
def test_damaged_evidence_makes_no_duplicate(damage: bytes) -> None:
    """Of an edited copy; an exact one is recognised by the hash of its text."""
    options = Options(index_url="memory:")
    rule, fingerprint = choose_method(options), Fingerprinter(options, 1)
    stored = fingerprint(Document(key="https://one.example/", text=" ".join(ARTICLE)))
    edited = fingerprint(Document(key="https://two.example/", text=" ".join(ARTICLE[1:])))
    assert rule.judge(edited, content_record(stored), [stored.payload]).duplicate.all()
    assert not rule.judge(edited, content_record(stored), [damage]).duplicate.any()
    copy = attrs.evolve(stored, key_hash=5)
    assert rule.judge(copy, content_record(stored), [damage]).reasons == ("exact-copy",)


def test_many_candidates_are_judged_alone() -> None:
    """A candidate's judgement does not depend on the others, unless they are of one host."""
    options = Options(index_url="memory:")
    rule, fingerprint = choose_method(options), Fingerprinter(options, 1)
    texts = [" ".join(sentences(seed, 10) + ARTICLE[: 3 * seed]) for seed in range(12)]
    stored = [
        fingerprint(Document(key=f"https://host{n}.example/", text=text))
        for n, text in enumerate(texts)
    ]
    page = fingerprint(Document(key="https://new.example/", text=" ".join(ARTICLE[:30])))
    records = np.concatenate([content_record(one) for one in stored])
    together = rule.judge(page, records, [one.payload for one in stored])
    for i, one in enumerate(stored):
        alone = rule.judge(page, content_record(one), [one.payload])
        assert alone.reasons[0] == together.reasons[i]
        assert alone.similarity[0] == together.similarity[i]


@functools.cache
def some_page() -> Fingerprint:
    """A page; made late, since making it compiles kernels."""
    make = Fingerprinter(Options(index_url="memory:"), 1)
    return make(Document("https://a.example/1", "", "a b"))


@given(st.integers(0, 1 << 32))
def test_kernel_is_the_plain_rule(seed: int) -> None:
    """Any counts of any candidates, many of them near the limits of the rule."""
    rng = np.random.default_rng(seed)
    measure = rng.choice(["containment", "jaccard", "novelty"])
    options = Options(
        index_url="memory:", measure=str(measure), min_features=int(rng.choice([1, 8]))
    )
    method = choose_method(options)
    assert isinstance(method, ContentByEvidence)
    count, words = int(rng.integers(1, 9)), int(rng.choice([4, 20, 50, 70, 130, 150, 2000]))
    order = np.arange(max(1, words - 2), dtype=np.uint64)
    values, sorts = np.arange(int(rng.choice([0, 8, 9])), dtype=np.uint64), np.zeros(9, np.uint8)
    wording = Wording(
        order,
        words,
        values,
        np.zeros(len(values), np.int32),
        sorts[: len(values)],
        order[: rng.integers(0, 9)],
        np.zeros(words, np.uint64),
    )
    size = int(len(order) * rng.choice([0.3, 1.0, 1.0])) or 1
    host, title = int(rng.integers(0, 2)), int(rng.integers(0, 3))
    page = attrs.evolve(some_page(), size=size, wording=wording, host=host, title=title)
    candidates = np.zeros(count, CONTENT)
    candidates["size"] = np.maximum(1, size * rng.choice([0.5, 0.95, 1.0, 1.1, 9.0], count))
    candidates["exact"] = page.exact + (rng.random(count) < 0.6)
    candidates["key"] = page.key_hash + (rng.random(count) < 0.9)
    candidates["host"], candidates["title"] = rng.integers(0, 2, count), rng.integers(0, 4, count)
    found = np.zeros((count, evidence.COLUMNS), np.int64)
    few = rng.choice([0.0, 0.05, 0.3])
    compared = int(len(order) * rng.choice([0.5, 1.0])) or 1
    found[:, evidence.COMMON] = compared * (1 - few * rng.random(count))
    for column, most in (
        (evidence.NEW, 0.28),
        (evidence.LONGEST, 0.1),
        (evidence.LONGEST_OF_ALL, 0.1),
        (evidence.NEW_FRAME, 0.2),
    ):
        found[:, column] = rng.integers(0, 2 + int(most * words * rng.random()), count)
    for column in (evidence.NEW_VALUES, evidence.LOOSE_VALUES):
        found[:, column] = rng.random(count) < 0.2
    found[:, evidence.NEW_TITLE] = rng.integers(-1, 5, count)
    found[:, evidence.NEW_SUBJECT] = rng.random(count) < 0.2
    found[:, evidence.OTHER_WORD] = rng.integers(-1, 5, count) * (rng.random(count) < 0.2)
    found[:, evidence.OTHER_SUBJECT] = rng.integers(-1, 5, count) * (rng.random(count) < 0.2)
    found[:, evidence.EXCHANGED] = 2 * (rng.random(count) < 0.1)
    found[:, evidence.RENAMED] = rng.integers(0, 5, count) * (rng.random(count) < 0.3)
    found[:, evidence.FALSE_POSITIVES] = rng.choice([0, 50_000], count)
    figures, turned = (rng.random((2, count)) < 0.1).astype(np.int64)
    judged = method.weigh(page, candidates, found, figures, turned, compared)
    plain = plainly_weighed(method, page, candidates, found, figures, turned, compared)
    # A sum that is one half, or a similarity that is the threshold, may be rounded either way.
    assert judged.shared is not None
    assert plain.shared is not None
    assert np.abs(judged.shared - plain.shared).max() <= 1
    assume(np.array_equal(judged.shared, plain.shared))
    assume((np.abs(plain.similarity - method.threshold) > 1e-9).all())
    assert judged.reasons == plain.reasons
    for name in ("duplicate", "shared", "figures", "held"):
        np.testing.assert_array_equal(getattr(judged, name), getattr(plain, name), name)
    for name in ("similarity", "jaccard"):
        np.testing.assert_allclose(getattr(judged, name), getattr(plain, name), atol=1e-12)


@pytest.mark.parametrize("words", [30, 400])
@pytest.mark.parametrize("title", ["", "One title", "Another gate"])
def test_evidence_of_exact_copies_changes_nothing(words: int, title: str) -> None:
    """All that is said of equal texts, on one host or two, with titles or without, is the same
    whether their evidence is looked at or not."""
    options = Options(index_url="memory:", hash_key="1")
    rule, fingerprint = choose_method(options), Fingerprinter(options)
    assert isinstance(rule, ContentByEvidence)
    text = " ".join(" ".join(ARTICLE).split()[:words])
    stored = [
        fingerprint(Document(key=f"https://{host}.example/{host}", title="One title", text=text))
        for host in ("one", "two")
    ]
    page = fingerprint(Document(key="https://one.example/new", title=title, text=text))
    records = np.concatenate([content_record(one) for one in stored])
    found = rule.judge(page, records, [one.payload for one in stored])
    examined = examine(page.wording, [one.payload for one in stored])
    nothing = np.zeros(2, np.int64)
    expected = rule.weigh(page, records, examined, nothing, nothing, len(page.wording.order))
    for name in ("duplicate", "similarity", "jaccard", "shared", "held"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert found.reasons == expected.reasons
