"""What docs/redis.md says of addresses, configuration and rights holds on a real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.index.redis.index import RedisIndex
from tests.clusters import logging_cluster
from tests.commands.running import Done, crawl, dedup, item
from tests.docblocks import ROOT, blocks
from tests.index.conftest import certificates  # noqa: F401
from tests.index.redis_use import RIGHTS
from tests.servers import RedisServer, running_redis

PAGE = ROOT / "docs" / "redis.md"
ADDRESSES, CONFIGURATION, USER = (block.code for block in blocks(PAGE) if block.language == "text")
FURTHER = {
    purpose: re.findall(r"\+[a-z]+(?:\\\|[a-z]+)?", given.replace("\\|", "\\|"))
    for purpose, given in re.findall(
        r"^\| (.+?) \| (`\+.+`) \|$", PAGE.read_text(encoding="utf-8"), re.M
    )
}


def rights(*purposes: str) -> list[str]:
    """The smallest set, and the rights for some purposes."""
    base = re.findall(r"\+\S+", USER)
    return [*base, *(one.replace("\\|", "|") for name in purposes for one in FURTHER[name])]


def purpose(word: str) -> str:
    """The row of the table that a word is in."""
    (found,) = (name for name in FURTHER if word in name)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own."""
    folder = tmp_path / "server"
    folder.mkdir()
    with running_redis(folder) as one:
        yield one


def settings(server: RedisServer, *given: str, database: int = 0, **more: Any) -> dict[str, Any]:
    """Settings of a user who has the smallest set of rights and those given."""
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "crawler", "reset", "on", ">pw", "~{dedup}*")
        admin.execute_command("ACL", "SETUSER", "crawler", *rights(*given))
    url = f"redis://crawler:pw@127.0.0.1:{server.port}/{database}"
    return {"DEDUP_INDEX_URL": url, "DEDUP_RETRIES": 0, **more}


def well(done: Done) -> Done:
    """A command that has done what it was asked for."""
    assert done.code == 0, done.err
    return done


@pytest.mark.parametrize("address", ADDRESSES.splitlines())
def test_forms_of_addresses(address: str, certificates: Path) -> None:  # noqa: F811
    """Each form is understood when the words in capitals are replaced."""
    for word, value in {
        "DATABASE": "2", "PORT": "6379", "HOST": "cache", "NAME": "news", "USER": "bob",
        "PASSWORD": "secret", "/PATH/TO/SOCKET": "/run/redis.sock",
        "FILE": str(certificates / "cert.pem"),
    }.items():  # fmt: skip
        address = re.sub(rf"(?<![a-z_]){word}\b", value, address)
    options = Options(index_url=address)
    RedisIndex(options)
    assert "secret" not in options.safe_index_url


def test_configuration(tmp_path: Path) -> None:
    """A server takes the lines of the configuration, and an index works on it."""
    words = [word for line in CONFIGURATION.splitlines() for word in f"--{line}".split()]
    with running_redis(tmp_path, *words) as server:
        given = {"DEDUP_INDEX_URL": server.url}
        crawl(given, item("one.example", 1), item("two.example", 1))
        server.stop()
        server.start()
        assert well(dedup("stats", "--json", **given)).json["committed"] == 1


def test_smallest_set_is_that_of_the_tests_of_the_index() -> None:
    """It equals the list of rights that the tests of the index try one by one."""
    assert rights() == RIGHTS.split()


def test_smallest_set_is_enough_for_a_crawl(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages are stored and dropped, and nothing is refused."""
    given = settings(server, DEDUP_JOURNAL="off")
    crawl(given, item("one.example", 1), item("two.example", 1), item("two.example", 2))
    assert caplog.text == ""
    assert well(dedup("stats", "--json", **given)).json["committed"] == 2


def test_journal(server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl writes it past its cap with the rights of its row; commands read it with theirs."""
    writing = settings(server, purpose("on by default"), DEDUP_JOURNAL_MAX_BYTES=100_000)
    long = {n: Random(n).randbytes(8000).hex(" ", 4) for n in range(12)}
    crawl(
        writing,
        *(item("one.example", n, text=text) for n, text in long.items()),
        *(item("two.example", n, text=text) for n, text in long.items()),
    )
    assert caplog.text == ""
    given = settings(server, purpose("restore"))
    assert "two.example" in well(dedup("explain", "https://one.example/11", **given)).out
    well(dedup("report", "-o", str(tmp_path / "r.html"), **given))
    done = well(dedup("restore", "-o", str(tmp_path / "back.jsonl"), "--all", "--json", **given))
    assert 0 < done.json["restored"] < len(long)


def test_window_and_forgetting(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """An index with a window, and one that is made to forget."""
    more = {"DEDUP_JOURNAL": "off", "DEDUP_WINDOW": 1000}
    given = settings(server, purpose("DEDUP_WINDOW"), **more)
    crawl(given, item("one.example", 1), item("one.example", 2))
    assert caplog.text == ""
    assert well(dedup("forget", "--host", "one.example", "--yes", "--json", **given)).json == {
        "forgotten": 2
    }
    assert well(dedup("compact", "--json", **given)).json["records"] > 0


def test_export_verify_and_import(server: RedisServer, tmp_path: Path) -> None:
    """Each command works with the rights of its row."""
    file = tmp_path / "pages.parquet"
    crawl(settings(server, DEDUP_JOURNAL="off"), item("one.example", 1))
    given = settings(server, purpose("export"), DEDUP_JOURNAL="off")
    well(dedup("export", str(file), **given))
    well(dedup("verify", **given))
    with server.client() as admin:
        admin.flushall()
    given = settings(server, purpose("import"), DEDUP_JOURNAL="off")
    assert well(dedup("import", str(file), "--json", **given)).json["pages"] == 1


def test_bytes_and_another_database(server: RedisServer) -> None:
    """Two rights let the size be measured, one leads to a database other than 0."""
    rows = [purpose("database")]
    given = settings(server, *rows, database=3, DEDUP_JOURNAL="off")
    crawl(given, item("one.example", 1))
    counted = well(dedup("stats", "--json", **given)).json["bytes"]
    given = settings(server, *rows, purpose("exact bytes"), database=3, DEDUP_JOURNAL="off")
    assert well(dedup("stats", "--json", **given)).json["bytes"] > counted > 0


def test_rights_on_many_masters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rights of docs/cluster.md and those of the journal are enough for a crawl."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    found = re.search(r"on the keys `(.*?)` \(with a journal also `(.*?)`\), and `(.*?)`", page)
    assert found is not None
    *keys, further = (one.replace("NAMESPACE", "dedup") for one in found.groups())
    given = [*keys, *rights(purpose("on by default")), *further.split()]
    with logging_cluster(tmp_path) as cluster:
        for master in cluster.masters:
            with master.client() as admin:
                admin.execute_command("ACL", "SETUSER", "crawler", "on", ">pw", *given)
        url = cluster.url.replace("://", "://crawler:pw@")
        more = {"DEDUP_INDEX_URL": url, "DEDUP_SHARDS": 8, "DEDUP_RETRIES": 0}
        crawl(more, *(item(host, 1) for host in ("one.example", "two.example")))
        assert caplog.text == ""
        state = well(dedup("stats", "--json", **more)).json
        assert (state["committed"], state["journal"]["drops"]) == (1, 1)


def test_every_row_is_tried() -> None:
    """A row that is added to the table needs a test here, or for the cluster in its own module."""
    words = (
        "on by default",
        "restore",
        "DEDUP_WINDOW",
        "import",
        "export",
        "exact bytes",
        "database",
    )
    tried = {purpose(word) for word in (*words, "cluster")}
    assert tried == set(FURTHER)
    cluster: Callable[..., str] = (ROOT / "tests/index/test_cluster.py").read_text
    assert all(right.replace("\\|", "|") in cluster() for right in FURTHER[purpose("cluster")])


def test_sizing_table_is_that_of_the_scale() -> None:
    """docs/redis.md and docs/scale.md state the same memory for the same number of pages; that of
    the default is larger by what was measured."""
    scale = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    table = scale.split("memory on Redis |\n")[1].split("\n\n")[0]
    reported = {
        10 ** int(n): size
        for n, size in re.findall(r"^\| 10\^(\d+) .* \| ([^|]+) \|$", table, re.M)
    }
    sizing = PAGE.read_text(encoding="utf-8").split("| stored pages |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| ([\d,]+) \| ([^|]+) \| ([^|]+) \|$", sizing, re.M)
    assert len(rows) > 3
    for pages, of_default, of_sketches in rows:
        count = int(pages.replace(",", ""))
        assert reported[count] == of_sketches
        assert megabytes(of_default) == pytest.approx(
            megabytes(of_sketches) + 197e-6 * count, rel=0.1
        )


def megabytes(size: str) -> float:
    """A size as the table has it.

    >>> megabytes("0.41 GB")
    410.0
    """
    number, unit = size.split()
    return float(number) * {"MB": 1.0, "GB": 1000.0}[unit]
