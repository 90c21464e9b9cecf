"""What holds for every method of the literature."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from functools import cache

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.methods.literature.base import SignatureMethod
from dedup_middleware.methods.literature.charset import CharacterSet, MachineCode, level_1
from dedup_middleware.methods.literature.csu import Csu
from dedup_middleware.methods.literature.digests import (
    RULES,
    FeatureList,
    Idf,
    Md5,
    Rules,
    TextProfile,
)
from dedup_middleware.methods.literature.hashsets import FeatureString, Segments, StructureTree
from dedup_middleware.methods.literature.simhashes import Luogang, RandomProjection, WeightedSimHash
from dedup_middleware.model.fingerprint import Signature
from tests.methods.inputs import is_duplicate, method_input, page, share_key

NAMES = {
    "charset",
    "csu",
    "feature-list",
    "feature-string",
    "idf",
    "luogang",
    "machine-code",
    "md5",
    "random-projection",
    "rules",
    "segments",
    "structure-tree",
    "text-profile",
    "weighted-simhash",
}


@cache
def methods() -> tuple[SignatureMethod, ...]:
    """Every method, in every variant that signs in its own way."""
    return (
        Csu(),
        Csu(positions=10, sampling="position", any_position=True),
        CharacterSet(),
        MachineCode(),
        MachineCode(encoding="gb2312"),
        Md5(),
        StructureTree(),
        StructureTree(leaves="sentence"),
        FeatureString(),
        Luogang(),
        Luogang(hash="string"),
        Luogang(hash="enumerated"),
        WeightedSimHash(),
        Segments(),
        *(Rules(rule=rule) for rule in RULES),
        FeatureList(),
        RandomProjection(),
        TextProfile(),
        Idf(),
    )


every = pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
# All but the lecture's own hashes, which have no key and are biased; test_simhash_families.py
# shows that they take different pages for one.
every_unbiased = pytest.mark.parametrize(
    "method",
    [m for m in methods() if not isinstance(m, Luogang) or m.hash == "keyed"],
    ids=lambda method: method.name,
)

NASTY = [
    "\ud800",
    "\x00\x01",
    "\u200b",
    "。。。。",
    "......",
    "((((((((",
    "🙂🙂",
    "\n" * 50,
    "ก็็็็็็็็็็",
    "한국어 문장입니다.",
    "a",
    "一",
    "3.5",
]


def signed(method: SignatureMethod, text: str, title: str = "") -> Signature:
    """The signature of a text that has one."""
    signature = method.sign(method_input(text, title))
    assert signature is not None
    return signature


def test_names_are_those_of_the_literature() -> None:
    """Every method of the list exists under its name."""
    assert {method.name for method in methods()} == NAMES


@every
def test_page_is_duplicate_of_its_copy(method: SignatureMethod) -> None:
    """A copy has similarity 1, and is a candidate by its keys where the method has keys."""
    a, b = (signed(method, page(1), "图书馆") for _ in range(2))
    assert method.compare(a, b) == 1.0
    assert is_duplicate(method, a, b)
    assert share_key(a, b) or not a.keys


@every_unbiased
def test_other_page_is_no_duplicate(method: SignatureMethod) -> None:
    """Of 30 made-up pages none is a duplicate of another that shares a key with it."""
    rng = random.Random(2)
    characters = level_1()
    texts = ["".join(rng.choices(characters, k=400)) for _ in range(30)]
    pages = [re.sub("(.{25})(.{25})", r"\1。\2。\n", text) for text in texts]
    signatures = [signed(method, text) for text in pages]
    for i, a in enumerate(signatures):
        for b in signatures[:i]:
            candidates = not a.keys or share_key(a, b)
            assert not (candidates and is_duplicate(method, a, b))


@every
def test_page_without_text_has_no_signature(method: SignatureMethod) -> None:
    """An empty page and one of white space have no fingerprint, so they equal nothing."""
    assert method.sign(method_input("")) is None
    assert method.sign(method_input(" \n\t\u3000")) is None


@every
def test_hostile_text_is_no_error(method: SignatureMethod) -> None:
    """Whatever the text, a page is signed or not, and equals itself if it is."""
    for text in NASTY:
        signature = method.sign(method_input(text, text, text))
        if signature is not None:
            assert method.compare(signature, signature) == 1.0, text


@every
@settings(max_examples=25, deadline=None)
@given(texts=st.tuples(st.text(max_size=60), st.text(max_size=60)))
def test_similarity_is_symmetric_and_between_0_and_1(
    method: SignatureMethod, texts: tuple[str, str]
) -> None:
    """For any two texts the order of comparison does not matter."""
    a, b = (method.sign(method_input(text)) for text in texts)
    if a is None or b is None:
        return
    similarity = method.compare(a, b)
    assert 0.0 <= similarity <= 1.0
    assert similarity == method.compare(b, a)


@every
def test_signature_survives_as_bytes(method: SignatureMethod) -> None:
    """What the index keeps is numbers and bytes: a rebuilt signature compares alike."""
    a, b = signed(method, page(1)), signed(method, page(1) + "另有一句。")
    assert all(0 <= value < 1 << 64 for _, value in a.keys)
    rebuilt = Signature(tuple(a.keys), bytes(bytearray(a.payload)))
    assert method.compare(rebuilt, b) == method.compare(a, b)


@pytest.mark.slow
@every
def test_signature_of_a_huge_page_is_small(method: SignatureMethod) -> None:
    """A page of a megabyte has at most 64 keys and 16 KB of payload."""
    text = "".join(page(seed) for seed in range(30)) + "\n".join(map(str, range(20_000)))
    signature = signed(method, text)
    assert len(signature.keys) <= 64
    assert len(signature.payload) <= 16_384


@every
def test_threshold_is_a_parameter_that_is_checked(method: SignatureMethod) -> None:
    """A threshold of another value decides; one outside 0..1 is refused by name."""
    a, b = signed(method, page(1)), signed(method, page(2))
    lowest = attrs.evolve(method, threshold=0.0)  # type: ignore[misc]
    assert is_duplicate(lowest, a, b)
    with pytest.raises(OptionsError, match=rf"{method.name}\.threshold=1\.5 can't be used"):
        attrs.evolve(method, threshold=1.5)  # type: ignore[misc]
    with pytest.raises(OptionsError, match="threshold=nan"):
        attrs.evolve(method, threshold=float("nan"))  # type: ignore[misc]


@every_unbiased
def test_hash_key_changes_the_keys(method: SignatureMethod) -> None:
    """Who does not know the key can't tell the buckets, where the source leaves the hash open."""
    if not hasattr(method, "hash_key"):
        assert method.name in {"charset", "machine-code"}
        return
    other = attrs.evolve(method, hash_key=7)
    assert signed(method, page(1)).keys != signed(other, page(1)).keys
    with pytest.raises(OptionsError, match=r"hash_key=<class 'int'> can't be used: use a whole"):
        attrs.evolve(method, hash_key=-1)


def test_methods_import_nothing_heavy() -> None:
    """Importing all methods loads neither numba nor jieba nor Scrapy."""
    modules = "base charset csu digests frequencies hashsets registry simhashes"
    code = "import sys\n" + "".join(
        f"import dedup_middleware.methods.literature.{name}\n" for name in modules.split()
    )
    code += "print([m for m in ('numba', 'jieba', 'scrapy', 'trafilatura') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
