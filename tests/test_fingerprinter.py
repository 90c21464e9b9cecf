"""What a fingerprint holds, whether it was made at once or when it was read."""

from __future__ import annotations

import pickle

import attrs
import pytest

from dedup_middleware import Document, Fingerprinter, Options, OptionsError
from dedup_middleware.methods.base import content_bytes
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature.minhash import sketch
from dedup_middleware.signature.text import TextSigner
from dedup_middleware.text.relevant import LONGEST_TITLE
from dedup_middleware.text.shingle import Shingler
from tests.texts import article

TEXTS = (article(1), "玉兰花开了。", "", "a b " * 3000, "cafe\u0301 " * 9, article(2) * 40)


@pytest.mark.parametrize("num_perm", [128, 256, 512])
def test_minima_are_the_same_when_they_are_read(num_perm: int) -> None:
    """An index with evidence reads neither minima nor sketch; a user who does gets all of them."""
    make = Fingerprinter(Options(num_perm=num_perm), 5)
    signer = TextSigner(Shingler(hash_key=5), num_perm, 2, 3)
    for text in TEXTS:
        page, signed = make(Document("https://a/1", "title", text)), signer(text)
        assert page.minhash.tolist() == signed.minhash.tolist()
        assert page.sketch.tolist() == signed.sketch.tolist() == sketch(page.minhash).tolist()
        assert page.minhash is page.minhash


def test_lazy_minima_can_be_sent_and_replaced() -> None:
    """A fingerprint is a plain value: it goes to another process, and its fields can be given."""
    page = Fingerprinter(Options())(Document("https://a/1", text=article(1)))
    sent = pickle.loads(pickle.dumps(page))
    assert sent.sketch.tolist() == page.sketch.tolist()
    other = attrs.evolve(page, sketch=page.sketch + 1)
    assert other.minhash.tolist() == page.minhash.tolist()
    assert other.sketch.tolist() == (page.sketch + 1).tolist()


def test_record_without_sketch_is_the_same_but_for_it() -> None:
    """What an index with evidence keeps of a page does not depend on the sketch."""
    page = Fingerprinter(Options())(Document("https://a/1", text=article(1)))
    at = CONTENT.fields["sketch"][1] if CONTENT.fields else 0
    assert content_bytes(page, sketched=False) == content_bytes(page)[:at] + bytes(64)


def test_long_title_is_cut() -> None:
    """A text in the field of the title is read to the limit of titles in HTML: an index would
    refuse the words of all of it, and each of them would be looked for in the text."""
    make, text = Fingerprinter(Options(), 5), article(1, 3)
    title = " ".join(f"word{i}" for i in range(120_000))
    page = make(Document("https://a/1", title, text))
    assert page.payload == make(Document("https://a/1", title[:LONGEST_TITLE], text)).payload
    assert len(page.payload) < 10_000
    assert len(page.wording.headline) < LONGEST_TITLE // 5


@pytest.mark.parametrize("key", [-1, 1 << 64])
def test_key_out_of_range(key: int) -> None:
    """A key that is no number of 64 bits is refused at once, not by the first page."""
    with pytest.raises(OptionsError, match=f"hash_key={key} can't be used: use a number from 0 to"):
        Fingerprinter(Options(), key)
