"""All methods on labelled pairs."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from dedup_middleware import Document, Options
from dedup_middleware.base.errors import OptionsError
from dedup_middleware.evaluation.comparers import Comparer, methods_available
from dedup_middleware.evaluation.corpus import Pair, read_pairs
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.pairs import (
    A_NEW,
    B_NEW,
    EITHER,
    curves,
    groups_of,
    labels_of,
    missing_words,
    rows,
    run,
    wrong_pairs,
)
from dedup_middleware.text.shingle import Shingler
from tests.evaluation.lines import labelled, page, write_lines

NAMES = {
    "charset", "content", "csu", "feature-list", "feature-string", "idf", "jaccard", "luogang",
    "machine-code", "md5", "minhash", "random-projection", "rules", "segments", "simhash",
    "structure-tree", "text-profile", "weighted-simhash",
}  # fmt: skip


@pytest.fixture(scope="module")
def comparers() -> dict[str, Comparer]:
    """All methods."""
    return methods_available(Options())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Copies and other pages."""
    folder = tmp_path_factory.mktemp("pairs")
    return read_pairs(write_lines(folder / "pairs.jsonl", labelled(6)))


@pytest.mark.parametrize("name", ["md5", "jaccard", "content"])
def test_what_is_compared_is_what_a_crawl_compares(
    comparers: dict[str, Comparer], name: str
) -> None:
    """Lines about the page are left out, so a copy with some more of them is an equal text."""
    text, comparer = page(1), comparers[name]
    more = f"{text}\nAdvertisement\nFollow us on Facebook and subscribe to our newsletter."
    a, b = (comparer.sign(Document("k", "title", one)) for one in (text, more))
    assert comparer.compare(b, a).similarity == 1.0


def test_every_method_is_there(comparers: dict[str, Comparer]) -> None:
    """The default rule first, then the baselines and the literature."""
    assert set(comparers) >= NAMES
    assert next(iter(comparers)) == "content"
    assert list(methods_available(Options(), ["md5", "content"])) == ["md5", "content"]


def test_unknown_method_is_refused() -> None:
    """The message lists those there are."""
    with pytest.raises(OptionsError, match="use one of content, jaccard"):
        methods_available(Options(), ["sha1"])


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_method_finds_copies_and_spares_others(
    comparers: dict[str, Comparer], name: str
) -> None:
    """Every method calls a page a duplicate of itself, and not of an unrelated one; its verdict
    is that of its score at its threshold."""
    comparer = comparers[name]
    one, other = (comparer.sign(Document(key=str(i), text=page(i))) for i in (1, 2000))
    assert comparer.compare(one, one).duplicate
    assert comparer.score(one, one) >= comparer.threshold
    assert not comparer.compare(one, other).duplicate
    assert comparer.score(one, other) < comparer.threshold


@pytest.mark.parametrize("name", sorted(NAMES))
def test_score_is_where_the_verdict_changes(comparers: dict[str, Comparer], name: str) -> None:
    """Over copies of all degrees, a duplicate is what reaches the threshold with its score."""
    comparer = comparers[name]
    original = comparer.sign(Document(key="o", text=page(3)))
    for i, intensity in enumerate((0.002, 0.01, 0.02, 0.04, 0.08, 0.2, 0.5)):
        text = edit(page(3), "words-changed", intensity, i)
        copy = comparer.sign(Document(key="c", text=text))
        said = comparer.compare(copy, original).duplicate
        assert said == (comparer.score(copy, original) >= comparer.threshold)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_empty_pages_equal_nothing(comparers: dict[str, Comparer], name: str) -> None:
    """A page without text is no duplicate, not even of itself."""
    comparer = comparers[name]
    empty = comparer.sign(Document(key="e", text=" \n"))
    full = comparer.sign(Document(key="f", text=page(1)))
    assert not comparer.compare(empty, empty).duplicate
    assert not comparer.compare(empty, full).duplicate
    assert not comparer.compare(full, empty).duplicate


def test_score_of_content_is_the_largest_threshold_that_drops() -> None:
    """At its score the default rule drops, a hundredth above it does not."""
    original = Document(key="o", text=page(3))
    copy = Document(key="c", text=edit(page(3), "sentences-inserted", 0.1, 1))
    first = methods_available(Options(), ["content"])["content"]
    score = first.score(first.sign(copy), first.sign(original))
    assert 0.5 < score < 1
    for threshold, dropped in ((score, True), (score + 0.01, False)):
        options = Options(threshold=round(threshold, 2))
        comparer = methods_available(options, ["content"])["content"]
        assert comparer.compare(comparer.sign(copy), comparer.sign(original)).duplicate == dropped


def test_rows_count_both_orders(comparers: dict[str, Comparer], pairs: list[Pair]) -> None:
    """A cut page is a duplicate of the whole one, the whole one is not one of the cut page."""
    text = page(5)
    cut = Pair("cut", Document(key="a", text=text), Document(key="b", text=text[:400]), True)
    result = run(comparers["content"], [*pairs, cut])
    assert result.said[B_NEW][-1]
    assert not result.said[A_NEW][-1]
    assert result.said[EITHER][-1]
    table = {row["order"]: row for row in rows([result], [*pairs, cut])}
    assert table[EITHER]["recall"].value == 1
    assert table[A_NEW]["recall"].value < 1
    assert table[EITHER]["precision"].value == 1
    assert table[EITHER]["pairs"] == len(pairs) + 1
    assert table[EITHER]["pair_seconds"] > 0


def test_better_methods_have_better_numbers(
    comparers: dict[str, Comparer], pairs: list[Pair]
) -> None:
    """MD5 finds the equal texts alone, content the edited ones too."""
    results = [run(comparers[name], pairs) for name in ("content", "md5")]
    table = {row["method"]: row for row in rows(results, pairs) if row["order"] == EITHER}
    assert table["content"]["f1"].value == 1
    assert table["md5"]["recall"].value == 0.5
    assert table["content"]["cv_f1"] == 1


def test_curve_ends_at_the_recall_of_the_lowest_threshold(
    comparers: dict[str, Comparer], pairs: list[Pair]
) -> None:
    """Thresholds fall, recall rises, and precision is 1 while copies score above others."""
    points = curves([run(comparers["jaccard"], pairs)], pairs)["jaccard"]
    thresholds, precision, recall = zip(*points, strict=True)
    assert list(thresholds) == sorted(thresholds, reverse=True)
    assert list(recall) == sorted(recall)
    assert precision[0] == 1
    assert recall[-1] == 1


def test_wrong_pairs_say_what_differs(comparers: dict[str, Comparer], pairs: list[Pair]) -> None:
    """Exactly the wrong ones are listed, with the words and figures that the other lacks."""
    text = page(7)
    a = Document(key="a", text=text)
    b = Document(key="b", text=text.replace("共7003人", "共99人灯塔花园"))
    mislabelled = Pair("x", a, b, True)
    result = run(comparers["md5"], [pairs[2], mislabelled])
    (wrong,) = wrong_pairs(result, [pairs[2], mislabelled])
    assert (wrong["pair"], wrong["duplicate"]) == ("x", True)
    assert wrong["figures only in a"] == ("7003",)
    assert wrong["figures only in b"] == ("99",)
    assert set(wrong["only in b"]) == {"灯塔", "99", "花园"}
    assert wrong["only in a"] == ("7003",)


def test_differences_count_repetitions() -> None:
    """A word that one text has more often is a difference."""
    shingler = Shingler()
    a, b = Document(key="a", text="灯塔 灯塔 花园"), Document(key="b", text="灯塔 花园")
    assert missing_words(a, b, shingler) == ("灯塔",)
    assert missing_words(b, a, shingler) == ()


def test_groups_hold_shared_documents_together(pairs: list[Pair]) -> None:
    """The three pairs of one page are one group."""
    assert groups_of(pairs) == [i for i in range(6) for _ in range(3)]
    assert labels_of(pairs).tolist() == [True, True, False] * 6


def test_runs_do_not_depend_on_each_other(
    comparers: dict[str, Comparer], pairs: list[Pair]
) -> None:
    """The same scores again, in another order of pairs too."""
    once, again = (run(comparers["content"], chosen) for chosen in (pairs, pairs[::-1]))
    assert np.array_equal(once.scores[EITHER], again.scores[EITHER][::-1])
    assert attrs.evolve(once, pair_seconds=0.0).reasons == again.reasons[::-1]
