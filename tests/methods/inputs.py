"""Inputs for the tests of methods: made up, as the shingler would give them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from dedup_middleware.methods.literature.base import MethodInput, SignatureMethod
from dedup_middleware.methods.literature.frequencies import DocumentFrequencies
from dedup_middleware.model.fingerprint import Signature
from tests.texts import OBJECTS, SUBJECTS, TAILS, VERBS, article

_WORD = re.compile("|".join([*SUBJECTS, *VERBS, *OBJECTS, *TAILS, "[a-z0-9]+", r"\w"]))


def words(text: str) -> tuple[str, ...]:
    """The words of a made-up text."""
    return tuple(_WORD.findall(text.lower()))


def method_input(text: str, title: str = "", description: str = "") -> MethodInput:
    """A page with this body."""
    tokens = words(text)
    return MethodInput(
        title=title,
        text=text,
        tokens=tokens,
        title_tokens=words(title),
        description=description,
    )


def page(seed: int, sentences: int = 24) -> str:
    """A made-up body of several paragraphs, four sentences each, of its own for each seed."""
    lines = re.findall("[^。]*。", article(seed, sentences))
    rng = random.Random(seed)
    return "\n".join(
        "".join(line + f"编号{rng.randrange(10**6)}。" for line in lines[i : i + 4])
        for i in range(0, len(lines), 4)
    )


def table_of(documents: Iterable[Iterable[str]]) -> DocumentFrequencies:
    """The frequencies in documents, given as the terms of each."""
    each = [set(terms) for terms in documents]
    return DocumentFrequencies.of_counts(len(each), Counter(chain.from_iterable(each)))


def frequencies() -> DocumentFrequencies:
    """Document frequencies of made-up pages."""
    return table_of(words(page(seed)) for seed in range(40))


def share_key(a: Signature, b: Signature) -> bool:
    """Whether two pages are candidates of each other by their keys."""
    return not set(a.keys).isdisjoint(b.keys)


def is_duplicate(method: SignatureMethod, a: Signature, b: Signature) -> bool:
    """Whether the similarity of two pages reaches the threshold."""
    return method.compare(a, b) >= method.threshold


def similarity(method: SignatureMethod, a: str, b: str) -> float:
    """Similarity of two texts that have signatures."""
    first, second = method.sign(method_input(a)), method.sign(method_input(b))
    assert first is not None
    assert second is not None
    return method.compare(first, second)
