"""The default rule."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware import Document, Fingerprinter, Options
from dedup_middleware.base.options import MEASURES, PRESETS
from dedup_middleware.methods.base import (
    COMMON,
    CONTAINED,
    EXACT,
    OTHER_FIGURES,
    OTHER_TITLE,
    TOO_LITTLE,
    TOO_SHORT,
    Judgement,
    content_record,
    probe_bucket_keys,
)
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content, required
from dedup_middleware.model.fingerprint import Fingerprint
from tests.methods.content_twin import judge as plainly_judged
from tests.methods.content_twin import standard_error
from tests.texts import article

RULE = Content(threshold=0.8, scan_distance=22, min_features=8)


# Made by the first test: no process that collects tests shall compile kernels for it.
@functools.cache
def fingerprinter() -> Fingerprinter:
    """The fingerprinter of the default options."""
    return Fingerprinter(Options())


def page(text: str, key: str = "one", title: str = "") -> Fingerprint:
    """The fingerprint of a page."""
    return fingerprinter()(Document(key=key, title=title, text=text))


def judged(new: Fingerprint, stored: Sequence[Fingerprint], **changes: Any) -> Judgement:
    """What the rule says of a page and some stored ones."""
    records = np.concatenate([content_record(other) for other in stored])
    return attrs.evolve(RULE, **changes).judge(new, records)


@pytest.mark.parametrize("measure", MEASURES)
@given(threshold=st.floats(0.05, 1.0), size=st.integers(1, 10**6), larger=st.integers(1, 10**6))
def test_what_is_required(measure: str, threshold: float, size: int, larger: int) -> None:
    """Never less than the threshold; a larger page may have no less of its own."""
    need = required(threshold, size, measure)
    assert threshold - 1e-12 <= need <= 1.0
    assert (1 - need) * size <= (1 - required(threshold, size + larger, measure)) * (
        size + larger
    ) + 1e-6


@given(st.integers(128, 10**6))
def test_novelty_bounds_what_is_lost(size: int) -> None:
    """However long a page is, at most a fifth of 128 shingles may be its own."""
    assert math.isclose((1 - required(0.8, size, "novelty")) * size, 0.2 * 128)


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("jaccard", [0.1, 0.5, 0.8, 0.95])
def test_standard_error_is_that_of_the_sketch(bits: int, jaccard: float) -> None:
    """Simulated sketches spread as the formula says."""
    minima = 512 // bits
    rng = np.random.default_rng(1)
    agreeing = rng.random((4000, minima)) < jaccard + (1 - jaccard) / 2**bits
    estimates = (agreeing.mean(axis=1) - 0.5**bits) / (1 - 0.5**bits)
    expected = standard_error(np.array([jaccard]), bits)[0]
    assert estimates.std() == pytest.approx(expected, rel=0.06)


def test_excerpts_and_longer_pages_by_measure() -> None:
    """Containment and novelty drop an excerpt; none drops a page that says much more."""
    long, excerpt = page(article(5, 60)), page(article(5, 30))
    for measure, dropped in (("containment", True), ("novelty", True), ("jaccard", False)):
        assert judged(excerpt, [long], measure=measure).duplicate.tolist() == [dropped]
        assert judged(long, [excerpt], measure=measure).duplicate.tolist() == [False]


def test_novelty_keeps_a_long_page_with_a_paragraph_of_its_own() -> None:
    """A tenth of a long page is within the containment, and more than a sentence."""
    text = article(5, 90)
    longer, stored = page(text + article(6, 10)), page(text)
    assert judged(longer, [stored]).duplicate.tolist() == [True]
    assert judged(longer, [stored], measure="novelty").duplicate.tolist() == [False]
    assert judged(longer, [stored], measure="jaccard").duplicate.tolist() == [True]


def test_judgement_says_how_much_is_shared() -> None:
    """The number of common shingles is estimated, that of places with other figures counted."""
    text = article(3, 40)
    one, other = page(text + "气温31度，水位12.5米。"), page(text + "气温28度，水位12.5米。")
    found = judged(one, [other, page(article(4, 40))])
    assert found.shared is not None
    assert found.figures is not None
    assert found.shared[0] == pytest.approx(one.size - 5, abs=8)
    assert found.shared[1] < one.size / 3
    assert found.figures.tolist() == [1, 0]
    assert found.reasons == (OTHER_FIGURES, TOO_LITTLE)


def test_punctuation_in_a_figure_is_no_copy() -> None:
    """The hash of the text leaves punctuation out, but 3.5 is not 35."""
    text = article(3, 40) + "水位{}米。"
    one, other = page(text.format("3.5")), page(text.format("35"))
    assert judged(one, [other]).reasons == (OTHER_FIGURES,)
    assert judged(one, [page(text.format("3.50"))]).reasons == (CONTAINED,)
    assert judged(one, [one]).reasons == (EXACT,)


NOTICE = article(9, 12) + "本网站所有内容未经许可不得转载，如有疑问请与客服中心联系。"
SITE = "https://one.example/{}"


def site(n: int, text: str, title: str = "") -> Fingerprint:
    """A page of one host."""
    return page(text, SITE.format(n), title)


def test_site_wide_text_under_other_titles() -> None:
    """Pages of one host that share all but a line, or all that was found, are kept apart by their
    titles; on another host, or under the same title, the same texts are near-duplicates."""
    one = site(1, "码头关闭一个月。" + NOTICE, "码头关闭")
    other = site(2, "中学扩大训练场。" + NOTICE, "中学扩建")
    assert judged(other, [one]).reasons == (OTHER_TITLE,)
    assert judged(site(2, "中学扩大训练场。" + NOTICE, "码头关闭"), [one]).duplicate.all()
    elsewhere = page("中学扩大训练场。" + NOTICE, "https://two.example/2", "中学扩建")
    assert judged(elsewhere, [one]).duplicate.all()


def test_a_short_text_under_another_title_is_no_copy_on_its_host() -> None:
    """All that extraction found may be a toolbar; a long text is a copy under any title."""
    toolbar = "首页 新闻 体育 财经 天气 视频 关于我们 联系方式 网站地图 加入收藏 设为首页"
    one, other = site(1, toolbar, "码头关闭"), site(2, toolbar, "中学扩建")
    assert one.size >= RULE.min_features
    assert judged(other, [one]).reasons == (OTHER_TITLE,)
    assert judged(page(toolbar, "https://two.example/", "中学扩建"), [one]).reasons == (EXACT,)
    long = article(4, 40)
    assert judged(site(2, long, "甲"), [site(1, long, "乙")]).reasons == (EXACT,)


def test_a_page_is_a_revisit_of_itself_under_a_new_title() -> None:
    """The rules for pages of one host do not hold for the page itself."""
    text = "码头关闭一个月。" + NOTICE
    found = judged(site(1, text + "又讯。", "新标题"), [site(1, text, "旧标题")])
    assert found.duplicate.all()


def test_what_three_pages_of_the_host_hold_is_no_evidence() -> None:
    """A template that stored pages share does not make the next page on it a duplicate."""
    template = article(9, 30)
    stored = [site(n, f"{template}第{n}期共{n + 20}页。{article(n, 5)}") for n in range(1, 5)]
    target = site(8, template + article(7, 5))
    new = site(9, f"{template}第9期共29页。{article(9, 5)}")
    assert judged(new, [target]).duplicate.all()
    assert judged(new, [target, *stored[:2]]).duplicate[0]
    found = judged(new, [target, *stored])
    assert found.reasons == (COMMON, *[OTHER_FIGURES] * 4)
    assert not found.duplicate.any()
    assert judged(attrs.evolve(new, host=0), [target, *stored]).duplicate[0]


def test_a_copy_of_a_page_on_a_template_is_found() -> None:
    """Beyond what three other pages hold, the copy says what its original says."""
    template = article(9, 15)
    stored = [site(n, f"{template}第{n}期共{n + 20}页。{article(n, 25)}") for n in range(1, 5)]
    copy = site(9, f"{template}第3期共23页。{article(3, 25)}编者按")
    assert judged(copy, stored).duplicate.tolist() == [False, False, True, False]


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1))
def test_hosts_and_titles_never_make_a_duplicate(host: int, title: int, other: int) -> None:
    """A page that is new without a host and a title is new with any."""
    texts = [article(9, 30) + article(100 + n, 9) for n in range(5)]
    pages = [
        attrs.evolve(page(text, str(n)), host=host, title=title) for n, text in enumerate(texts)
    ]
    new = attrs.evolve(page(article(9, 30), "new"), host=host, title=other)
    plain = [attrs.evolve(p, host=0, title=0) for p in pages]
    with_them = judged(new, pages).duplicate
    without = judged(attrs.evolve(new, host=0, title=0), plain).duplicate
    assert not (with_them & ~without).any()


def test_short_pages() -> None:
    """A page of few shingles equals only the same text; one word can be the news."""
    assert judged(page("一句话"), [page("一句话。")]).reasons == (EXACT,)
    assert judged(page("桥梁检查"), [page("码头检查")]).reasons == (TOO_SHORT,)
    text = article(2, 6)
    assert judged(page(text + "桥梁改造推迟，公布整修计划。"), [page(text)]).duplicate.tolist() == [
        False
    ]


@pytest.mark.parametrize(("preset", "threshold"), PRESETS.items())
def test_presets_name_thresholds(preset: str, threshold: float) -> None:
    """An explicit threshold wins over the preset."""
    rule = choose_method(Options(preset=preset))
    assert isinstance(rule, Content)
    assert rule.threshold == threshold
    rule = choose_method(Options(preset=preset, threshold=0.33))
    assert isinstance(rule, Content)
    assert rule.threshold == 0.33


@pytest.mark.parametrize("measure", MEASURES)
def test_measures_are_settings(measure: str) -> None:
    """The rule compares in the measure that the options name."""
    rule = choose_method(Options(measure=measure))
    assert isinstance(rule, Content)
    assert rule.measure == measure


@given(st.integers(0, 2**64 - 1), st.integers(0, 63))
def test_a_probe_is_where_the_flipped_simhash_stands(simhash: int, bit: int) -> None:
    """It is one of the four places of that SimHash, and none of the SimHash's own."""
    from dedup_middleware.model.buckets import simhash_bucket_keys

    (probe,) = probe_bucket_keys(simhash, [bit])
    (own,) = (
        bucket_key for bucket_key in simhash_bucket_keys(simhash) if bucket_key.table == probe.table
    )
    assert probe.suffix == own.suffix
    assert probe.bucket in {
        bucket_key.bucket for bucket_key in simhash_bucket_keys(simhash ^ 1 << bit)
    }
    assert probe.bucket not in {bucket_key.bucket for bucket_key in simhash_bucket_keys(simhash)}


def test_probes_are_the_least_certain_bits() -> None:
    """As many of each block as the option says, and none without it or for a short page."""
    text = article(1, 20)
    for number in (0, 1, 5):
        options = Options(probes=number)
        found = Fingerprinter(options)(Document(key="a", text=text))
        probes = choose_method(options).probes(found)
        assert len(set(probes)) == 4 * number
        assert [bucket_key.table for bucket_key in probes] == [
            t for t in (2, 3, 4, 5) for _ in range(number)
        ]
    short = Fingerprinter(Options(probes=5))(Document(key="a", text="一句话"))
    assert choose_method(Options(probes=5)).probes(short) == ()


_SIDES = np.random.default_rng(5)
_SKETCH = _SIDES.integers(0, 1 << 64, 8, dtype=np.uint64)
_WORDS = ("no", "the", "old")


@functools.cache
def _figures() -> NDArray[Any]:
    return page("3 of 17 on 2024-05-06, 99 percent").figures


@functools.cache
def _clauses(word: str) -> NDArray[Any]:
    return page(f"They are {word} sailors, and rich.").clauses


def a_record(draw: st.DrawFn) -> Fingerprint:
    """A page of few values, so that everything happens to be equal now and then."""
    words = draw(st.integers(0, 8))
    sketch = _SKETCH.copy()
    sketch[:words] ^= np.uint64(draw(st.sampled_from((0, 1, 0xFF, (1 << 64) - 1))))
    others = page(f"{draw(st.integers(1, 4))} of 17 on 2024-05-06").figures
    return attrs.evolve(
        page(""),
        key_hash=draw(st.integers(0, 2)),
        exact=draw(st.integers(0, 2)),
        size=draw(st.sampled_from((1, 7, 8, 9, 100, 127, 128, 129, 1000, 100_000))),
        sketch=sketch,
        figures=draw(st.sampled_from((_figures(), others))),
        clauses=_clauses(draw(st.sampled_from(_WORDS))),
        host=draw(st.integers(0, 2)),
        title=draw(st.integers(0, 2)),
    )


records = st.composite(a_record)()


@given(
    records,
    st.lists(records, min_size=1, max_size=12),
    st.sampled_from(MEASURES),
    st.sampled_from((1, 2, 4, 8)),
    st.floats(0.05, 1.0),
)
def test_same_as_plain_numpy(
    new: Fingerprint, stored: list[Fingerprint], measure: str, bits: int, threshold: float
) -> None:
    """The kernel says of every candidate what the rule in plain NumPy says."""
    rule = attrs.evolve(RULE, measure=measure, sketch_bits=bits, threshold=threshold)
    candidates = np.concatenate([content_record(other) for other in stored])
    found, expected = rule.judge(new, candidates), plainly_judged(rule, new, candidates)
    assert found.reasons == expected.reasons
    for name in ("duplicate", "shared", "figures"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("similarity", "jaccard"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)


@given(records, st.integers(0, (1 << 64) - 1), st.lists(st.integers(0, (1 << 64) - 1), max_size=9))
def test_key_array_equals_the_keys(new: Fingerprint, simhash: int, bands: list[int]) -> None:
    """The places of a page, long or short, are its bucket keys as numbers."""
    new = attrs.evolve(new, simhash=simhash, bands=np.array(bands, np.uint64))
    assert RULE.bucket_key_array(new) == RULE.bucket_keys(new)
    assert tuple(RULE.bucket_key_array(new)) == RULE.bucket_keys(new)


def test_content_record_holds_each_value_in_its_field() -> None:
    """What the record of a page says is what its fingerprint says."""
    new = page("Three of 17 words, and some more of them. " * 4, key="https://a/1", title="News")
    (record,) = content_record(new)
    assert (record["size"], record["host"], record["title"]) == (new.size, new.host, new.title)
    assert (record["simhash"], record["exact"]) == (new.simhash, new.exact)
    assert record["key"] == new.key_hash
    np.testing.assert_array_equal(record["figures"], new.figures)
    np.testing.assert_array_equal(record["clauses"], new.clauses)
    np.testing.assert_array_equal(record["sketch"], new.sketch)
