"""The two papers' experiments on made-up documents."""

from __future__ import annotations

import attrs
import pytest

from dedup_middleware import Document, Options
from dedup_middleware.evaluation.comparers import methods_available
from dedup_middleware.evaluation.corpus import InputError, SourceDocument
from dedup_middleware.evaluation.edits import edit
from research import madeup
from research.protocols import (
    LI_EDITS,
    LIGHT,
    ZHOU_EDITS,
    ZHOU_METHODS,
    li,
    li_edit,
    li_pages,
    li_sizes,
    light_edit,
    touched,
    zhou,
    zhou_documents,
)

DOCUMENTS = [
    Document(key=f"d{i}", title=line["title"], text=line["text"])
    for i, line in enumerate(madeup.documents(120))
]
OPTIONS = Options(index_url="memory:")


def test_li_pages_are_samples_copies_and_others() -> None:
    """The first half of the copies is unchanged, the second edited in every way; the others are
    no sample."""
    pages = li_pages(DOCUMENTS, size=44)
    assert len(pages.samples) == len(pages.copies) == len(pages.others) == 44
    pairs = list(zip(pages.samples, pages.copies, strict=True))
    assert all(copy.text == sample.text for sample, copy in pairs[:22])
    assert all(copy.text != sample.text for sample, copy in pairs[22:])
    texts = {d.text for d in pages.samples}
    assert not texts & {d.text for d in pages.others}
    assert sum(kind == "first-sentences" for kind, _ in LI_EDITS) == 3
    assert len(LI_EDITS) == 13
    assert pages == li_pages(DOCUMENTS, size=44)


def test_edited_sentences_are_a_tenth_of_the_page() -> None:
    """One long sentence among short ones is not drawn; if all are long, the lightest draw counts,
    and edits of words and order are left as they come."""
    long = "山" * 120 + "。"
    text = long + "".join(
        f"{c}水流过第{chr(0x4E00 + i)}石桥。" for i, c in enumerate("甲乙丙丁戊" * 10)
    )
    for seed in range(20):
        for kind in ("sentences-changed", "sentences-deleted"):
            edited = light_edit(text, kind, 0.02, seed)
            assert edited.startswith(long)
            assert 0 < touched(text, edited) <= LIGHT
    assert touched(long + "水。", light_edit(long + "水。", "sentences-deleted", 0.5, 1)) < 0.1
    assert light_edit(long, "sentences-deleted", 0.5, 1) == ""
    assert light_edit(text, "words-changed", 0.1, 3) == edit(text, "words-changed", 0.1, 3)


def test_long_first_sentences_stay() -> None:
    """Where the first sentence is more than a tenth of the page, the next kind of edit is made."""
    turn = LI_EDITS.index(("first-sentences", 0.05))
    (kind, intensity) = LI_EDITS[turn + 1]
    short = "".join(f"甲水流过第{chr(0x4E00 + i)}石桥。" for i in range(20))
    long = "山" * 120 + "。" + short
    assert li_edit(long, turn, 7) == edit(long, kind, intensity, 7)
    assert li_edit(short, turn, 7) == edit(short, "first-sentences", 0.05, 7)
    assert li_edit(long, turn + len(LI_EDITS), 7) == li_edit(long, turn, 7)


def test_li_wants_enough_long_documents() -> None:
    """Copies of one text count once; the message says how many there are and what to lower."""
    with pytest.raises(InputError, match="1 different documents"):
        li_pages(DOCUMENTS[1:2] * 50, size=10)
    with pytest.raises(InputError, match="--min-chars"):
        li_pages(DOCUMENTS, size=10, min_chars=100_000)


def test_li_orders_the_methods_as_the_paper_does() -> None:
    """MD5 finds the unchanged half alone; the character vectors find all, and the default rule all
    but a page with a sentence of its own. Neither flags anything that is different."""
    pages = li_pages(DOCUMENTS, size=44)
    names = ("md5", "charset", "structure-tree", "content")
    rows = {row.method: row for row in li(pages, methods_available(OPTIONS, names))}
    assert (rows["md5"].identical, rows["md5"].edited, rows["md5"].recall) == (22, 0, 50.0)
    assert all(row.identical == 22 for row in rows.values())
    assert rows["charset"].edited == 22
    assert rows["content"].edited in (21, 22)
    assert rows["structure-tree"].edited > 0
    assert rows["content"].flagged == rows["md5"].flagged == 0
    assert rows["content"].accuracy == 100.0


def test_li_sizes_take_a_part_of_the_pages() -> None:
    """One row a size, as far as there are pages; half of the copies stay unchanged."""
    pages = li_pages(DOCUMENTS, size=44)
    part = pages.part(11)
    assert (len(part.samples), len(part.copies), len(part.others)) == (11, 11, 11)
    same = [s.text == c.text for s, c in zip(part.samples, part.copies, strict=True)]
    assert same == [True] * 5 + [False] * 6
    reported: list[str] = []
    table = li_sizes(pages, methods_available(OPTIONS, ["md5"]), (20, 88, 1000), reported.append)
    assert [(row["method"], row["pages"]) for row in table] == [("md5", 20), ("md5", 88)]
    assert [row["recall_percent"] for row in table] == [50.0, 50.0]
    assert all(float(row["seconds"]) > 0 for row in table)
    assert reported == ["md5, 20 pages", "md5, 88 pages"]


def sources() -> list[SourceDocument]:
    """Documents of three classes, 50, 40 and 30 of them."""
    return [
        SourceDocument(d, "a" if i < 50 else "b" if i < 90 else "c")
        for i, d in enumerate(DOCUMENTS)
    ]


def test_zhou_plants_copies_in_the_largest_classes() -> None:
    """So many documents a class, of which so many are edited copies behind their originals."""
    stream = zhou_documents(sources(), classes=2, size=40, planted=20)
    assert len(stream) == 80
    copies = [a for a in stream if a.document.key != a.story]
    assert len(copies) == 20
    assert not any(int(a.story[1:]) >= 90 for a in stream)
    keys = [a.document.key for a in stream]
    assert len(set(keys)) == 80
    assert all(keys.index(a.story) < keys.index(a.document.key) for a in copies)
    assert {a.document.key.partition("#")[2] for a in copies} == {kind for kind, _ in ZHOU_EDITS}


def test_zhou_wants_enough_documents() -> None:
    """The message names the class and how many it needs."""
    with pytest.raises(InputError, match="class 'a' has 50 different documents: give 190"):
        zhou_documents(sources(), classes=2, size=200, planted=20)


def test_zhou_counts_what_was_planted() -> None:
    """The default rule drops the planted copies and nothing else; MD5 finds the two of them that
    differ in a line about the page alone (声明：... 转载请注明出处), which is not compared."""
    stream = zhou_documents(sources(), classes=2, size=40, planted=20)
    comparers = methods_available(OPTIONS, ["content", "md5"])
    content, md5 = zhou(stream, comparers, OPTIONS)
    assert (content.documents, content.planted) == (80, 20)
    assert content.precision == 1
    assert content.recall > 0.8
    assert (md5.dropped, md5.precision, md5.recall) == (2, 1, 0.1)
    assert md5.f1 == pytest.approx(0.2 / 1.1)


@pytest.mark.slow
def test_ablation_leaves_out_factors() -> None:
    """All factors, one less each time, and none: no two variants sign all pages alike."""
    names = [name for name in ZHOU_METHODS if name.startswith("weighted")]
    variants = methods_available(OPTIONS, names)
    titled = [attrs.evolve(d, title=(d.text or "")[:12]) for d in DOCUMENTS]
    signed = {
        name: tuple(variant.sign(document).payload for document in titled)
        for name, variant in variants.items()
    }
    assert len(signed) == len(set(signed.values())) == 6
