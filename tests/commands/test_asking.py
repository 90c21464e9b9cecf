"""`check`, `compare`, `explain` and `stats` tell why, and change nothing."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.tools.commands import check
from dedup_middleware.tools.commands.check import LONGEST, differences
from dedup_middleware.tools.commands.dedup import SUBCOMMANDS
from tests.commands.running import crawl, dedup, item, outcome, settings_for
from tests.texts import article


@pytest.fixture
def settings(place: dict[str, Any]) -> dict[str, Any]:
    """A crawl of three pages and two copies, on a file and on Redis."""
    crawl(
        place,
        item("one.example", 1),
        item("one.example", 2),
        item("one.example", 3),
        item("two.example", 1),
        {"url": "https://three.example/x", "title": "删节", "text": article(1)[:-20]},
    )
    return place


def test_check_of_a_copy(settings: dict[str, Any], tmp_path: Path) -> None:
    """It would be dropped: exit code 3, the stored page, and each comparison."""
    page = tmp_path / "page.txt"
    page.write_text(article(2), encoding="utf-8")
    done = dedup("check", str(page), "--json", **settings)
    assert done.code == 3
    said = done.json
    assert (said["outcome"], said["reason"]) == ("duplicate", "exact-copy")
    assert said["match"]["key"] == "https://one.example/2"
    assert said["match"]["similarity"] == 1.0
    assert said["candidates"][0]["state"] == "committed"
    assert said["characters"] == len(article(2))
    assert said["tokens"] > 20
    assert said["shingles"] > 20
    people = dedup("check", str(page), **settings)
    assert people.code == 3
    assert "https://one.example/2 holds 100.0% of it" in people.out
    assert "simhash/0" in people.out


def test_check_says_what_a_crawl_would_decide(settings: dict[str, Any]) -> None:
    """New, changed, unchanged, copy: the outcome and the reason of the deduplicator itself."""
    pages = [
        ("https://new.example/", article(50)),
        ("https://one.example/1", article(1)),
        ("https://one.example/1", article(51)),
        ("https://copy.example/", article(3)[10:]),
        ("https://empty.example/", "  "),
    ]
    seen = set()
    for key, text in pages:
        done = dedup("check", "-", "--key", key, "--json", stdin=text.encode(), **settings)
        expected = outcome(settings, key, text)
        assert (done.json["outcome"], done.json["reason"]) == expected
        assert done.code == (3 if expected[0] in {"duplicate", "revisit"} else 0)
        seen.add(expected[0])
    assert seen == {"new", "duplicate", "revisit", "empty"}


def test_check_changes_nothing(settings: dict[str, Any]) -> None:
    """A new page that was checked is still new, and the numbers are what they were."""
    before = dedup("stats", "--json", **settings).json
    for _ in range(2):
        done = dedup("check", "-", "--json", stdin=article(60).encode(), **settings)
        assert (done.code, done.json["outcome"]) == (0, "new")
    after = dedup("stats", "--json", **settings).json
    assert {**after, "bytes": 0, "journal": None} == {**before, "bytes": 0, "journal": None}


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = "".join(f"<p>{article(1)}</p>" for _ in range(1))
        raw = f"<html><head><title>题</title></head><body><article>{body}</article>".encode(
            "gb18030"
        )
        if self.path == "/broken":
            self.wfile.write(b"no answer of a web server\n")
            return
        is_there = self.path in ("/page", "/a%20page/%E9%A2%98")
        self.send_response(200 if is_there else 404)
        self.send_header("Content-Type", "text/html; charset=gb18030")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """A web site with one page."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_check_of_an_address(tmp_path: Path, site: str) -> None:
    """The page is fetched, decoded and read as in a crawl."""
    settings = settings_for(tmp_path)
    crawl(settings, item("one.example", 1))
    done = dedup("check", f"{site}/page", "--json", **settings)
    assert (done.code, done.json["outcome"]) == (3, "duplicate")
    assert (done.json["key"], done.json["title"]) == (f"{site}/page", "题")
    assert "404" in dedup("check", f"{site}/none", **settings).err
    done = dedup("check", f"{site}/a page/题", "--json", **settings)
    assert (done.code, done.json["key"]) == (3, f"{site}/a page/题")
    for place in (f"{site}/broken", "http://a host/"):
        done = dedup("check", place, **settings)
        assert (done.code, f"{place} can't be fetched: " in done.err) == (1, True)


def test_pages_that_can_not_be_read(tmp_path: Path) -> None:
    """Exit code 1 and a message that names the place."""
    settings = settings_for(tmp_path)
    crawl(settings, item("one.example", 1))
    done = dedup("check", str(tmp_path / "none.txt"), **settings)
    assert done.code == 1
    assert "none.txt can't be read" in done.err
    binary = tmp_path / "photo.txt"
    binary.write_bytes(b"\xff\xd8\xff\xe0")
    assert "neither HTML nor text in UTF-8" in dedup("check", str(binary), **settings).err


def test_index_made_with_other_parameters(tmp_path: Path) -> None:
    """A check against it would say nothing, so it is refused with each difference."""
    settings = settings_for(tmp_path)
    crawl(settings, item("one.example", 1))
    done = dedup("check", "-", stdin=b"text", DEDUP_BANDS=10, **settings)
    assert done.code == 1
    assert "bands: the index has '2x3', the settings ask for '10x3'" in done.err


def test_compare(tmp_path: Path) -> None:
    """Every method, both ways round, and the words that differ."""
    a, b = tmp_path / "a.txt", tmp_path / "b.html"
    a.write_text(article(1) + "雨下了3天。", encoding="utf-8")
    b.write_text(
        f"<html><body><article><p>{article(1)}雨下了5天。</p></article></body></html>",
        encoding="utf-8",
    )
    done = dedup("compare", str(a), str(b), "--all-methods", "--json")
    assert done.code == 0
    names = [row["method"] for row in done.json["methods"]]
    assert names[0] == "content"
    assert {"simhash", "jaccard", "minhash", "csu", "md5"} <= set(names)
    by_name = {row["method"]: row for row in done.json["methods"]}
    assert by_name["jaccard"]["a_in_b"]["similarity"] > 0.9
    assert by_name["md5"]["a_in_b"]["duplicate"] is False
    assert {"same": False, "a": "3", "b": "5"} in done.json["differences"]
    people = dedup("compare", str(a), str(b), "--method", "content")
    assert "[-3-]{+5+}" in people.out
    assert "minhash" not in people.out
    narrow = dedup("compare", str(a), str(b), "--all-methods", columns=80).out
    reasons = {row["a_in_b"]["reason"] for row in done.json["methods"]}
    assert all(whole in narrow for whole in (*names, *reasons))
    assert dedup("compare", str(a), str(b), "--method", "magic").code == 1


def test_one_way_similarity(tmp_path: Path) -> None:
    """The shorter page is a duplicate of the longer one, not the other way round."""
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text(article(1, 30), encoding="utf-8")
    b.write_text(article(1, 30) + article(2, 60), encoding="utf-8")
    (row,) = dedup("compare", str(a), str(b), "--json", "--method", "content").json["methods"]
    assert (row["a_in_b"]["duplicate"], row["b_in_a"]["duplicate"]) == (True, False)


def test_a_page_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, and not asked about by its beginning."""
    page = tmp_path / "a.txt"
    page.write_text("one two three")
    monkeypatch.setattr(check, "LARGEST_PAGE", 12)
    done = dedup("compare", str(page), str(page))
    assert (done.code, "has more than 12 bytes" in done.err) == (1, True)
    monkeypatch.setattr(check, "LARGEST_PAGE", 13)
    assert dedup("compare", str(page), str(page)).code == 0


def test_differences_put_together_are_the_texts() -> None:
    """Nothing is lost, and long texts are cut rather than compared for minutes."""
    a, b = article(1) + " two words", article(2) + " to words"
    parts, cut = differences(a, b)
    assert ("".join(part.a for part in parts), "".join(part.b for part in parts)) == (a, b)
    assert not cut
    parts, cut = differences("字" * (LONGEST + 1), "字")
    assert cut
    assert sum(len(part.a) for part in parts) == LONGEST


def test_explain(settings: dict[str, Any]) -> None:
    """The cluster is found by the stored page's key and by each dropped one's."""
    keys = ["https://two.example/1", "https://three.example/x"]
    for key in ["https://one.example/1", *keys]:
        done = dedup("explain", key, "--json", **settings)
        assert done.code == 0
        (cluster,) = done.json["clusters"]
        assert cluster["stored"] == "https://one.example/1"
        assert (cluster["title"], cluster["excerpt"]) == ("标题1", article(1)[:80])
        assert [drop["key"] for drop in cluster["dropped"]] == keys
    people = dedup("explain", keys[0], **settings)
    assert "exact-copy" in people.out
    assert "https://three.example/x" in people.out
    unknown = dedup("explain", "https://one.example/3", **settings)
    assert unknown.code == 1
    assert "has no entry of https://one.example/3" in unknown.err


def test_explain_without_addresses(tmp_path: Path) -> None:
    """An index that keeps none names pages by number; the journal still knows their keys."""
    settings = {**settings_for(tmp_path), "DEDUP_KEEP_ADDRESS": False}
    crawl(settings, item("one.example", 1), item("two.example", 1), item("three.example", 1))
    done = dedup("explain", "https://two.example/1", "--json", **settings)
    (cluster,) = done.json["clusters"]
    assert (cluster["stored"], cluster["excerpt"]) == ("https://one.example/1", article(1)[:80])
    assert [drop["key"][8:11] for drop in cluster["dropped"]] == ["two", "thr"]


def test_terminal_escapes_of_a_page_are_not_carried_out(tmp_path: Path) -> None:
    """A title may hold escape sequences and markup; both are shown, not obeyed."""
    settings = settings_for(tmp_path)
    bad = "\x1b]0;owned\x07[bold]title"
    crawl(settings, item("a", 1), item("b", 1, url="https://b/\x1b[31m"), item("c", 1, title=bad))
    out = dedup("explain", "https://a/1", **settings).out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_stats_of_a_crawl(settings: dict[str, Any]) -> None:
    """Pages, recall of the tables, skew of the buckets, and the journal."""
    done = dedup("stats", "--buckets", "--json", **settings).json
    assert done["committed"] == 3
    of_bands = round(1 - (1 - 0.8**3) ** 2, 4)  # two bands of three minima
    assert of_bands == done["recall"]["0.8"]["bands"] <= done["recall"]["0.8"]["all"] <= 1
    assert done["recall"]["0.5"]["bands"] < done["recall"]["0.9"]["bands"]
    assert done["skew"]["records"] >= 3 * 13
    assert done["skew"]["largest"] >= 1
    assert (done["journal"]["drops"], done["journal"]["kept"]) == (2, 3)
    people = dedup("stats", "--buckets", **settings).out
    for words in ("pages stored", "skew", "found at Jaccard 0.8", "in the journal"):
        assert words in people


def test_stats_of_an_index_that_forgets(settings: dict[str, Any], tmp_path: Path) -> None:
    """The live generations, when each expires and, if all is read, how many pages each has."""
    assert dedup("stats", "--json", **settings).json["generations"] == []
    made = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'window.db'}", "DEDUP_WINDOW": 7200.0}
    crawl(made, *(item("one.example", n) for n in range(3)))
    live = dedup("stats", "--json", **made).json["generations"]
    assert [one["expires"] - one["since"] for one in live] == [10_800.0] * len(live)
    assert [one["until"] for one in live[:-1]] == [one["since"] for one in live[1:]]
    assert all(one["pages"] is None for one in live)
    counted = dedup("stats", "--buckets", "--json", **made).json["generations"]
    assert sum(one["pages"] for one in counted) == 3
    people = dedup("stats", "--buckets", **made).out
    assert "generation 3 of 3, from" in people
    assert "pages, expires" in people


def test_help() -> None:
    """Every command has one, with its exit codes; the overview lists them all."""
    overview = dedup("--help")
    assert overview.code == 0
    for name in SUBCOMMANDS:
        assert name in overview.out
        done = dedup(name, "--help")
        assert done.code == 0
        assert done.out.startswith(f"usage: scrapy dedup {name}")
        assert "Exit codes: 0" in " ".join(done.out.split())


@pytest.mark.parametrize("arguments", [(), ("destroy",), ("stats", "--colour"), ("check",)])
def test_what_can_not_be_understood(arguments: tuple[str, ...]) -> None:
    """Exit code 2, and how to write it."""
    done = dedup(*arguments)
    assert done.code == 2
    assert "scrapy dedup" in done.out + done.err
