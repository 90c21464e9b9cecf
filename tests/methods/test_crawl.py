"""Every method decides in a real crawl, on every kind of index."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import (
    Deduplicator,
    Document,
    Fingerprinter,
    IndexRefusedError,
    Options,
    OptionsError,
)
from dedup_middleware.base.options import METHODS
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.literature.base import BySignature
from dedup_middleware.methods.literature.registry import LITERATURE, settable
from tests.forks import run
from tests.methods.crawling import story, variants

ROOT = Path(__file__).parents[2]

# What the source of each method says of it: edits that it sees through, and edits that it does not.
# Of words in neither, one page more or less decides.
FINDS = {
    # Containment of shingles; other figures are another page.
    "content": "copy layout width word",
    # Three bits of 64.
    "simhash": "copy layout width word",
    "minhash": "copy layout width word",
    # Min-wise values of shingles, and their Jaccard index.
    "csu": "copy layout width word figures",
    # Frequencies of characters know no order, and no Latin digits.
    "charset": "copy layout width word order figures",
    # The same by machine code, where a full-width digit is another code.
    "machine-code": "copy layout word order figures",
    # First and last sentences of paragraphs: half of them may differ.
    "structure-tree": "copy width word",
    # Letters around full stops.
    "feature-string": "copy layout width word",
    # Letter for letter.
    "md5": "copy",
    # Frequencies of words know no order.
    "luogang": "copy layout width word order",
    "weighted-simhash": "copy layout width word order",
    # Five of eight pieces.
    "segments": "copy layout width word",
    # The ten heaviest keywords.
    "rules": "copy layout width word order",
    # The words by frequency; one more is another list.
    "feature-list": "copy layout width order",
    "random-projection": "copy layout width word order",
    # Words that occur once are below the quantum.
    "text-profile": "copy layout width word order figures",
    # Ten lexicons, some of which lack the word.
    "idf": "copy layout width word order",
}
MISSES = {
    "content": "figures",
    "simhash": "figures order",
    "machine-code": "width",
    "structure-tree": "order",
    "feature-string": "order",
    "md5": "layout width word order figures",
    "segments": "order figures",
    "feature-list": "word figures",
}

Crawls = dict[str, dict[str, list[Any]]]


def crawl(url: str, *methods: str) -> Crawls:
    """What crawls of the methods dropped (see :mod:`.crawling`)."""
    done = run(["-m", "tests.methods.crawling", url, *methods], cwd=ROOT, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    result: Crawls = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def memory() -> Crawls:
    """Crawls of all methods, each on an index of its own in memory."""
    return crawl("memory:", *METHODS)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Crawls:
    """The same on SQLite."""
    folder = tmp_path_factory.mktemp("indexes")
    return crawl(f"sqlite:{folder}/{{method}}.db", *METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_crawl_drops_what_the_source_says(method: str, memory: Crawls) -> None:
    """Edited copies are dropped for the page they are of, and no page for another one."""
    dropped = memory[method]
    assert not [key for key in dropped if key.startswith("page/")]
    found = {key.removeprefix("copy/") for key in dropped}
    assert found >= set(FINDS[method].split())
    assert not found & set(MISSES.get(method, "").split())
    for name in found:
        key, similarity, reason, tables = dropped[f"copy/{name}"]
        assert key == f"page/{name}"
        assert 0 < similarity <= 1
        assert reason in {method, "exact-copy", "near-duplicate"}
        assert tables


@pytest.mark.parametrize("method", METHODS)
def test_sqlite_decides_like_memory(method: str, memory: Crawls, sqlite: Crawls) -> None:
    """Keys and payloads come back from a file as they went in."""
    assert sqlite[method] == memory[method]


def test_redis_decides_like_memory(redis_url: str, memory: Crawls) -> None:
    """The same on a server: keys alone, payloads of one length, payloads of any length."""
    methods = ("idf", "csu", "charset", "weighted-simhash")
    assert crawl(redis_url, *methods) == {method: memory[method] for method in methods}


def test_setting_and_methods_have_the_same_names() -> None:
    """DEDUP_METHOD offers every method of the literature, and the expectations above are whole."""
    assert set(METHODS) == {*LITERATURE, "content", "simhash", "minhash"}
    assert set(FINDS) == set(METHODS)


def page(key: str, text: str) -> Document:
    """A document."""
    return Document(key=key, title="水务局", text=text)


@pytest.fixture(params=["csu", "charset", "idf", "luogang"])
def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Options:
    """Options of some methods with an index in a file."""
    return Options(method=request.param, index_url=f"sqlite:{tmp_path / 'index.db'}")


async def test_next_crawl_knows_the_pages(on_disk: Options) -> None:
    """Signatures of an earlier crawl are compared, under the hash key that the index keeps."""
    text = story(1)
    async with Deduplicator(on_disk) as first:
        await first.commit(await first.decide(page("a", text)))
    async with Deduplicator(on_disk) as second:
        verdict = await second.decide(page("b", variants(text)["word"]))
        assert verdict.match is not None
        assert (verdict.match.key, verdict.reason) == ("a", on_disk.method)
        again = await second.decide(page("a", text))
        assert again.is_revisit


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"method": "idf"}, "idf("),
        ({"method": "content"}, "'content'"),
        ({"method_parameters": "positions=10"}, "positions=10"),
    ],
)
async def test_index_of_another_method_is_refused(
    changed: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """Signatures of two methods can't be compared; the error names both."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    async with Deduplicator(Options(method="csu", index_url=url)):
        pass
    other = Deduplicator(Options(**{"method": "csu", "index_url": url, **changed}))
    with pytest.raises(IndexRefusedError) as caught:
        await other.open()
    await other.close()
    assert "method: the index has 'csu(" in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [{"threshold": 0.9}, {"method_parameters": "verify=0.5"}],
    ids=["threshold", "verify"],
)
async def test_what_only_compares_may_change(changed: dict[str, Any], tmp_path: Path) -> None:
    """A threshold changes no signature, so the same index serves."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    async with Deduplicator(Options(method="csu", index_url=url)) as dedup:
        await dedup.commit(await dedup.decide(page("a", story(1))))
    async with Deduplicator(Options(method="csu", index_url=url, **changed)) as dedup:
        assert (await dedup.decide(page("b", story(1)))).is_duplicate


async def test_page_without_signature_equals_no_page() -> None:
    """What a method has nothing to say of is stored, each time, and never taken for another."""
    options = Options(method="luogang", method_parameters="hash=string")
    korean = "한국어 문장은 이 방법으로 서명할 수 없습니다. " * 20
    async with Deduplicator(options) as dedup:
        for key in ("a", "b"):
            verdict = await dedup.decide(page(key, korean))
            assert verdict.outcome == "new"
            assert await dedup.commit(verdict)


async def test_description_of_the_page_reaches_rule_1() -> None:
    """R1 compares the meta description of the HTML: another body with the same one is dropped."""

    def html(seed: int, description: str) -> str:
        meta = f'<meta name="description" content="{description}">'
        body = "".join(f"<p>{line}</p>" for line in story(seed).splitlines())
        return f"<html><head>{meta}<title>标题</title></head><body>{body}</body></html>"

    async with Deduplicator(Options(method="rules", method_parameters="rule=R1")) as dedup:
        await dedup.commit(await dedup.decide(Document(key="a", html=html(1, "水务局的通知"))))
        same = await dedup.decide(Document(key="b", html=html(2, "水务局的通知").encode()))
        assert same.is_duplicate
        other = await dedup.decide(Document(key="c", html=html(1, "图书馆的通知")))
        assert other.outcome == "new"


def test_long_page_is_signed_up_to_the_limit() -> None:
    """DEDUP_MAX_CHARS bounds what a method reads, also where it reads no words."""
    options = Options(method="md5", max_chars=100)
    fingerprinter = Fingerprinter(options)
    start = story(1)[:100]
    a, b, c = (fingerprinter(page("", text)) for text in (start, start + story(2), story(2)))
    assert a.payload == b.payload != c.payload


@pytest.mark.parametrize("method", sorted(LITERATURE))
def test_damaged_payload_makes_no_duplicate(method: str) -> None:
    """Bytes that no method wrote are no error and drop no page."""
    options = Options(method=method)
    fingerprint = Fingerprinter(options)(page("a", story(1)))
    rule = choose_method(options)
    assert isinstance(rule, BySignature)
    from dedup_middleware.methods.base import content_record

    for payload in (
        b"",
        b"\x01",
        b"\xff" * 7,
        fingerprint.payload[:-1] + b"\x00\x00",
        b"\xff" * 80,
    ):
        judged = rule.judge(fingerprint, content_record(fingerprint), [payload])
        assert not judged.duplicate[0] or payload[:16] == fingerprint.payload[:16]
        assert 0 <= judged.similarity[0] <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sha1"}, "DEDUP_METHOD='sha1' can't be used: use one of content, simhash"),
        (
            {"method": "luogang", "threshold": 0.9},
            "DEDUP_THRESHOLD=0.9 can't be used: leave it out: DEDUP_METHOD=luogang decides by",
        ),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    """Unknown names and thresholds without meaning are refused when the settings are read."""
    with pytest.raises(OptionsError) as caught:
        Options(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("csu", "positions", "write name=value"),
        ("csu", "size=3", "the parameters of csu are: verify, positions, width, samples"),
        ("csu", "positions=three", "positions=three is no int"),
        ("csu", "any_position=perhaps", "any_position=perhaps is no bool"),
        ("csu", "hash_key=3", "the parameters of csu are"),
        ("md5", "rate=1", "the parameters of md5 are: none"),
        ("content", "width=3", "DEDUP_METHOD=content has no parameters"),
        ("csu", "positions=3", "csu.positions=3 can't be used"),
    ],
)
def test_bad_parameters_are_named(method: str, given: str, message: str) -> None:
    """The error says which parameters there are and what they may be."""
    with pytest.raises(OptionsError) as caught:
        choose_method(Options(method=method, method_parameters=given))
    assert message in str(caught.value)


def test_parameters_reach_the_method() -> None:
    """They are converted to the types of the method's own defaults."""
    given = "positions=10 width=2,any_position=true\nverify=0.6"
    rule = choose_method(Options(method="csu", method_parameters=given, threshold=0.7))
    assert isinstance(rule, BySignature)
    csu: Any = rule.method
    assert (csu.positions, csu.width, csu.any_position, csu.verify) == (10, 2, True, 0.6)
    assert csu.threshold == 0.7
    near = choose_method(Options(method="weighted-simhash", distance=2))
    assert near.scan_distance == 2


def test_tables_fit_into_the_mask_of_tables() -> None:
    """No method has more tables than the 64 that a scan can tell apart."""
    for method, given in (
        ("idf", "lexicons=32"),
        ("csu", "positions=10"),
        ("random-projection", ""),
    ):
        options = Options(method=method, method_parameters=given)
        bucket_keys = choose_method(options).bucket_keys(
            Fingerprinter(options)(page("a", story(1)))
        )
        assert max(bucket_key.table for bucket_key in bucket_keys) < 64
        assert len({bucket_key.bucket for bucket_key in bucket_keys}) == len(bucket_keys)


def test_documentation_lists_methods_thresholds_and_parameters() -> None:
    """docs/methods.md has a row for every method, with its own threshold and parameters."""
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    table = text[text.index("| method | similarity | threshold |") :].partition("\n\n")[0]
    measured = dict(re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", table, re.M))
    assert list(measured) == list(METHODS)
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| `([^|]+)` \|$", text, re.M))
    for name, kind in LITERATURE.items():
        parameters = settable(kind)
        assert rows.get(name, "") == " ".join(f"{key}={value}" for key, value in parameters.items())
        if not kind.is_simhash and measured[name] != "any":
            assert float(measured[name]) == kind().threshold
