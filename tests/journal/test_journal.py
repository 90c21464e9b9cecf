"""Both journals: what is written can be read, the oldest goes first, nothing foreign is touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import redis

from dedup_middleware import Options
from dedup_middleware.journal.access import choose_journal, open_journal
from dedup_middleware.journal.entries import (
    Body,
    Drop,
    Hour,
    JournalError,
    JournalStore,
    Kept,
    Query,
)
from dedup_middleware.journal.redis import RedisJournal
from dedup_middleware.journal.sqlite import SQLiteJournal
from tests.index.proxy import Proxy
from tests.servers import RedisServer, running_redis
from tests.texts import article

NOW = time.time()


def make_drop(n: int, **changes: object) -> Drop:
    """A dropped page of its own for each number."""
    values: dict[str, object] = {
        "time": NOW + n,
        "key": f"https://copy.example/{n}",
        "title": f"标题 {n}",
        "outcome": "duplicate",
        "reason": "near-duplicate",
        "match": f"https://first.example/{n}",
        "number": n,
        "similarity": 0.9,
        "jaccard": 0.8,
        "distance": 7,
        "tables": ("simhash/0", "band/3"),
        "item_type": "dict",
        "body": Body(article(n), {"url": f"https://copy.example/{n}", "text": article(n)}),
    }
    return Drop(**{**values, **changes})  # type: ignore[arg-type]


def make_kept(n: int, key: str | None = None) -> Kept:
    """The stored page that the drop of the same number names."""
    key = key or f"https://first.example/{n}"
    unnamed = key.startswith("text:")
    return Kept(key=key, number=n, by_number=unnamed, title="原文", text=article(n), time=NOW)


@pytest.fixture(params=["sqlite", "redis"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Options:
    """Options with an index in a file, then with one on Redis."""
    if request.param == "sqlite":
        return Options(index_url=f"sqlite:{tmp_path / 'index.db'}")
    return Options(index_url=request.getfixturevalue("redis_url"))


@pytest.fixture
def journal(options: Options) -> Iterator[JournalStore]:
    """An empty journal."""
    made = choose_journal(options)
    assert made is not None
    made.open(create=True)
    with made:
        yield made


def test_what_is_written_is_read(journal: JournalStore, options: Options) -> None:
    """A drop comes back whole, with its item, by whoever opens the journal later."""
    written = make_drop(1, body=Body("正文", {"url": "u", "n": 1, "body": "正文"}, ("html",)))
    journal.append([written], [], {})
    with open_journal(options) as reader:
        (found,) = reader.drops(bodies=True)
        (light,) = reader.drops()
        assert found == attrs.evolve(written, id=found.id)
        assert found.body is not None
        assert list(found.body.item or {}) == ["url", "n", "body"]
        assert light.body is None
        assert reader.bodies([found.id, "999999"]) == [written.body, None]


def test_queries(journal: JournalStore) -> None:
    """Drops are found by key, stored page, host, reason, outcome and time; oldest first."""
    journal.append(
        [
            make_drop(1),
            make_drop(2, key="https://other.example/2", reason="exact-copy"),
            make_drop(3, match=None, number=None, similarity=None, outcome="empty"),
            make_drop(4, match="https://first.example/1"),
        ],
        [],
        {},
    )

    def numbers(**query: object) -> list[int]:
        return [round(drop.time - NOW) for drop in journal.drops(Query(**query))]  # type: ignore[arg-type]

    assert numbers() == [1, 2, 3, 4]
    assert numbers(keys=frozenset({"https://copy.example/3", "https://copy.example/1"})) == [1, 3]
    assert numbers(matches=frozenset({"https://first.example/1"})) == [1, 4]
    assert numbers(hosts=frozenset({"other.example"})) == [2]
    assert numbers(reasons=frozenset({"exact-copy"})) == [2]
    assert numbers(outcomes=frozenset({"empty"})) == [3]
    assert numbers(since=NOW + 2, until=NOW + 4) == [2, 3]
    assert numbers(since=NOW - 1) == [1, 2, 3, 4]
    assert numbers(since=NOW + 9000) == []
    assert numbers(limit=2) == [3, 4]
    assert numbers(limit=0) == []
    assert numbers(limit=1, hosts=frozenset({"copy.example"}), until=NOW + 4) == [3]


def test_spider_and_crawl(journal: JournalStore) -> None:
    """Both come back and can be asked for; drops without them are there as before."""
    journal.append(
        [
            make_drop(1),
            make_drop(2, spider="news", crawl="c1"),
            make_drop(3, spider="shop", crawl="c1"),
        ],
        [],
        {},
    )
    journal.append([make_drop(4, spider="news", crawl="c2")], [], {})
    found = [(drop.number, drop.spider, drop.crawl) for drop in journal.drops()]
    assert found == [(1, "", ""), (2, "news", "c1"), (3, "shop", "c1"), (4, "news", "c2")]
    for query, numbers in (
        (Query(spiders=frozenset({"news"})), [2, 4]),
        (Query(crawls=frozenset({"c1"})), [2, 3]),
        (Query(spiders=frozenset({"news"}), crawls=frozenset({"c1", "c2"}), limit=1), [4]),
        (Query(spiders=frozenset({"none"})), []),
    ):
        assert [drop.number for drop in journal.drops(query)] == numbers


def test_many_drops_are_read_in_parts(journal: JournalStore) -> None:
    """More drops than one step reads come in order, each once."""
    journal.append([make_drop(n, body=Body("")) for n in range(1100)], [], {})
    times = [drop.time for drop in journal.drops()]
    assert times == [NOW + n for n in range(1100)]
    assert [drop.time for drop in journal.drops(Query(limit=700))] == times[-700:]


def test_text_of_the_stored_page(journal: JournalStore) -> None:
    """It is found by key, or by number if the index keeps no name; its last text counts."""
    unnamed = make_kept(7, key="text:0123")
    journal.append([], [make_kept(1), unnamed], {})
    journal.append([], [Kept(key="https://first.example/1", number=9, text="新", time=NOW)], {})
    found = journal.kept(make_drop(1))
    assert found is not None
    assert (found.text, found.number) == ("新", 9)
    by_number = journal.kept(make_drop(7, match=None))
    assert by_number is not None
    assert by_number.text == article(7)
    renewed = journal.kept(make_drop(9, match=None))
    assert renewed is not None
    assert renewed.text == "新"
    assert journal.kept(make_drop(2)) is None
    assert journal.size().kept == 2
    # The index stores no addresses: a revisit has the key of its page all the same.
    own = Kept(key="https://a/8", number=8, by_number=True, text="own", time=NOW)
    journal.append([], [own], {})
    assert getattr(journal.kept(make_drop(8, match="https://a/8")), "text", "") == "own"
    assert journal.kept(make_drop(8, match="https://other/8")) is None


def test_text_of_a_page_that_is_stored_anew(tmp_path: Path) -> None:
    """The last one counts, among many and within one call, and only its bytes are counted."""
    last = [attrs.evolve(make_kept(n), number=n + 10_000, text=f"正文 {n}") for n in range(3)]
    sizes = []
    for name, before in (("once", []), ("anew", [make_kept(n) for n in range(700)])):
        with SQLiteJournal(tmp_path / f"{name}.db", max_bytes=10_000_000) as journal:
            journal.open(create=True)
            journal.append([], before, {})
            journal.append([], [make_kept(1), *before[3:], *last], {})
            assert journal.kept(make_drop(1)) == last[1]
            sizes.append((journal.size().kept, journal.size().bytes))
            if before:
                journal.append([], before[3:], {})
                assert (journal.size().kept, journal.size().bytes) == sizes[-1]
    other = SQLiteJournal(tmp_path / "others.db", max_bytes=10_000_000)
    with other:
        other.open(create=True)
        other.append([], [make_kept(n) for n in range(3, 700)], {})
        assert sizes[0] == (3, sizes[1][1] - other.size().bytes)
    assert sizes[1][0] == 700


def test_counters_by_hour(journal: JournalStore) -> None:
    """Counts of several writers add up, by hour and host."""
    hour = int(NOW) // 3600 * 3600
    journal.append([], [], {(hour, "a.example", "seen"): 3, (hour, "b.example", "seen"): 1})
    journal.append([], [], {(hour, "a.example", "seen"): 2, (hour, "a.example", "stored"): 4})
    journal.append([], [], {(hour, "a.example", "dropped/exact-copy"): 1})
    assert journal.hours() == [
        Hour(hour, "a.example", 5, 4, {"exact-copy": 1}),
        Hour(hour, "b.example", 1, 0, {}),
    ]


def test_wrong_clock_removes_no_counters(journal: JournalStore) -> None:
    """One batch of a machine whose clock is far ahead leaves those of all others."""
    journal.append([], [], {(HOUR, "a", "seen"): 1})
    journal.append([], [], {(HOUR + 500 * 24 * 3600, "a", "seen"): 1})
    journal.append([], [], {(HOUR, "b", "seen"): 1})
    there = {(hour.hour, hour.host) for hour in journal.hours()}
    assert {(HOUR, "a"), (HOUR, "b")} <= there


def test_oldest_hours_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file keeps the counters of so many hours; the newest are there."""
    monkeypatch.setattr("dedup_middleware.journal.sqlite._ACTIVITY_HOURS", 3)
    journal = SQLiteJournal(tmp_path / "j.db", max_bytes=1_000_000)
    with journal:
        journal.open(create=True)
        for hour in (0, 1, 5, 2, 7):
            journal.append([], [], {(hour, host, "seen"): 1 for host in "ab"})
        assert sorted({hour.hour for hour in journal.hours()}) == [2, 5, 7]


def test_oldest_go_when_the_cap_is_passed(options: Options) -> None:
    """Drops and kept texts each stay within half of the cap; the newest are there."""
    small = Options(index_url=options.index_url, journal_max_bytes=200_000)
    journal = choose_journal(small)
    assert journal is not None
    journal.open(create=True)
    with journal:
        for start in range(0, 1000, 50):
            several = range(start, start + 50)
            journal.append([make_drop(n) for n in several], [make_kept(n) for n in several], {})
        size = journal.size()
        # The last of the chunks of kept texts on Redis may be over by its share.
        assert 100_000 < size.bytes <= 215_000
        assert 20 < size.drops < 800
        assert 20 < size.kept < 800
        newest = next(iter(journal.drops(Query(limit=1))))
        assert newest.key == "https://copy.example/999"
        assert journal.kept(newest) is not None
        assert journal.kept(make_drop(0)) is None


@pytest.mark.slow
def test_file_stays_near_its_cap(tmp_path: Path) -> None:
    """The bytes that are counted are those of the file, give or take a fifth."""
    path = tmp_path / "journal.db"
    journal = SQLiteJournal(path, max_bytes=2_000_000)
    journal.open(create=True)
    with journal:
        for start in range(0, 5000, 200):
            several = range(start, start + 200)
            journal.append([make_drop(n) for n in several], [make_kept(n) for n in several], {})
        used = journal.size().bytes
    assert used <= 2_000_000
    assert 0.8 * used < path.stat().st_size < 1.2 * 2_000_000


def test_no_key_outside_the_namespace(tmp_path: Path, redis_url: str) -> None:
    """Every key of the journal begins with the namespace in braces."""
    import redis

    options = Options(index_url=redis_url, namespace="mine")
    journal = RedisJournal(options, max_bytes=1_000_000)
    journal.open(create=True)
    with journal:
        journal.append([make_drop(1)], [make_kept(1)], {(int(NOW), "a", "seen"): 1})
    with redis.Redis.from_url(redis_url) as client:
        keys = client.keys("*")
    assert keys
    assert all(key.startswith(b"{mine}journal/") for key in keys)


HOUR = int(NOW) // 3600 * 3600
DAY = f"{{dedup}}journal/day/{HOUR // 86_400}"
FAULTS = {
    "stream": lambda client: client.set("{dedup}journal/drops", "theirs"),
    "texts": lambda client: client.set("{dedup}journal/kept/0", "theirs"),
    "sizes": lambda client: client.rpush("{dedup}journal/kept", "theirs"),
    "counters": lambda client: client.set(DAY, "theirs"),
    "counter": lambda client: client.hset(DAY, f"{HOUR} a seen", "theirs"),
    "counter with a fraction": lambda client: client.hset(DAY, f"{HOUR} a seen", "1.5"),
    "counter at its end": lambda client: client.hset(DAY, f"{HOUR} a seen", str(2**63 - 1)),
    "memory": lambda client: client.config_set("maxmemory", 1),
    "replica": lambda client: client.replicaof("127.0.0.1", 1),
    "right": lambda client: client.execute_command("ACL SETUSER default -hincrby"),
    "right to trim": lambda client: client.execute_command("ACL SETUSER default -xtrim"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_batch_is_written_once_or_not(tmp_path: Path, fault: str) -> None:
    """Whatever Redis refuses, and however often: no part of a batch is written, nor one twice."""
    batch = [make_drop(1), make_drop(2)], [make_kept(1)], {(HOUR, "a", "seen"): 2}
    with running_redis(tmp_path) as server, server.client() as client:
        journal = RedisJournal(Options(index_url=server.url), max_bytes=2000)
        with journal:
            journal.open(create=True)
            client.hset("{dedup}another", "key", 1)
            FAULTS[fault](client)
            before = {key: client.dump(key) for key in client.scan_iter()}
            for again in (False, True, True):
                with pytest.raises(JournalError):
                    journal.append(*batch, again=again)
                if fault != "right to trim":  # it is used when the batch has been written
                    assert {key: client.dump(key) for key in client.scan_iter()} == before
            client.execute_command("ACL SETUSER default +@all")
            client.replicaof("no", "one")
            client.config_set("maxmemory", 0)
            for key in before.keys() - {b"{dedup}another"}:
                client.delete(key)
            length = client.xlen("{dedup}journal/drops")
            assert length == (2 if fault == "right to trim" else 0)
            journal.append(*batch, again=True)
            written = client.xinfo_stream("{dedup}journal/drops")
            assert written["entries-added"] == 2
            assert [(hour.host, hour.seen) for hour in journal.hours()] == [("a", 2)]
            journal.append(*batch)
            assert journal.hours()[0].seen == 4


@pytest.mark.parametrize("left", ["nothing", "side files", "another", "no folder"])
def test_a_file_that_is_removed_while_it_is_written_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str
) -> None:
    """What comes next is in the new file, and not in the one that was removed."""
    folder = tmp_path / "of-the-journal"
    journal = SQLiteJournal(folder / "j.db", max_bytes=10**6)
    with journal, contextlib.ExitStack() as stack:
        journal.open(create=True)
        journal.append([make_drop(1)], [make_kept(1)], {})
        for file in folder.iterdir():
            if left != "side files" or file.name == "j.db":
                file.unlink()
        if left == "no folder":
            folder.rmdir()
        if left == "another":
            other = stack.enter_context(SQLiteJournal(folder / "j.db", max_bytes=10**6))
            other.open(create=True)
            other.append([make_drop(2)], [], {})
        for number in (3, 4):
            journal.append([make_drop(number)], [make_kept(number)], {})
        with open_journal(Options(journal=str(folder / "j.db"))) as reader:
            found = [drop.number for drop in reader.drops()]
        assert found == [*([2] if left == "another" else []), 3, 4]
        if left == "another":
            other.append([make_drop(5)], [], {})
            assert [drop.number for drop in journal.drops()] == [2, 3, 4, 5]
    assert [" was removed or replaced" in one for one in caplog.messages] == [True]


_WRITER = """
import sys
from dedup_middleware.journal.sqlite import SQLiteJournal
from tests.journal.test_journal import make_drop
journal = SQLiteJournal(sys.argv[1], max_bytes=10**6)
journal.open(create=True)
for number, line in enumerate(sys.stdin):
    journal.append([make_drop(100 + number)], [], {})
    print("written", flush=True)
"""


@pytest.mark.parametrize("kept", [["-wal", "-shm"], ["-wal"], ["-shm"]])
def test_another_process_begins_the_file_that_was_removed(tmp_path: Path, kept: list[str]) -> None:
    """The -wal and -shm files that the first process still uses are not those of the new file:
    both write to the new one, whichever comes first, and neither fails."""
    path = tmp_path / "j.db"
    with contextlib.closing(SQLiteJournal(path, max_bytes=10**6)) as journal:
        journal.open(create=True)
        journal.append([make_drop(1)], [], {})
        for file in tmp_path.iterdir():
            if file.name.removeprefix("j.db") not in kept:
                file.unlink()
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as other:  # fmt: skip
            assert other.stdin
            assert other.stdout
            for number in (2, 3):
                other.stdin.write("next\n")
                other.stdin.flush()
                assert other.stdout.readline() == "written\n"
                journal.append([make_drop(number)], [], {})
            other.stdin.close()
            assert other.wait(60) == 0
        assert [drop.number for drop in journal.drops()] == [100, 2, 101, 3]


def test_a_file_that_another_program_replaces(tmp_path: Path) -> None:
    """It is not touched, and entries wait until it is gone."""
    journal = SQLiteJournal(tmp_path / "j.db", max_bytes=10**6)
    with journal:
        journal.open(create=True)
        for file in tmp_path.iterdir():
            file.unlink()
        (tmp_path / "j.db").write_bytes(b"no database" * 999)
        for _ in range(2):
            with pytest.raises(JournalError, match="can't be opened: file is not a database"):
                journal.append([make_drop(1)], [], {})
        assert (tmp_path / "j.db").read_bytes() == b"no database" * 999
        (tmp_path / "j.db").unlink()
        journal.append([make_drop(1)], [], {})
        assert [drop.number for drop in journal.drops()] == [1]


@pytest.mark.parametrize("retries", [0, 3])
async def test_batch_whose_answer_is_lost(tmp_path: Path, retries: int) -> None:
    """It is not written twice, whether the connection or the crawl sends it again."""
    drops, activity = [make_drop(1)], {(HOUR, "a", "seen"): 1}
    with running_redis(tmp_path) as server:
        async with Proxy(server.port) as proxy:
            options = Options(index_url=proxy.url, retries=retries)
            journal = RedisJournal(options, max_bytes=10**6)
            await asyncio.to_thread(journal.open, create=True)
            await asyncio.to_thread(journal.append, drops, [], {})
            proxy.cut_at_answer = True
            with contextlib.nullcontext() if retries else pytest.raises(JournalError):
                await asyncio.to_thread(journal.append, drops, [], activity)
            await asyncio.to_thread(journal.append, drops, [], activity, again=True)
            assert (await asyncio.to_thread(journal.size)).drops == 2
            assert [hour.seen for hour in await asyncio.to_thread(journal.hours)] == [1]
            await asyncio.to_thread(journal.close)


def test_cap_without_the_right_to_measure(tmp_path: Path) -> None:
    """Where MEMORY USAGE is forbidden, the stream is measured by a sample of its entries."""
    with running_redis(tmp_path) as server:
        _forbid_memory(server)
        options = Options(index_url=f"redis://little:pw@127.0.0.1:{server.port}/0")
        journal = RedisJournal(options, max_bytes=100_000)
        journal.open(create=True)
        with journal:
            for start in range(0, 600, 50):
                journal.append([make_drop(n) for n in range(start, start + 50)], [], {})
            assert 10 < journal.size().drops < 400


def _forbid_memory(server: RedisServer) -> None:
    with server.client() as client:
        client.acl_setuser(
            "little",
            enabled=True,
            passwords=["+pw"],
            keys=["*"],
            commands=["+@all", "-memory"],
        )


def test_journal_that_does_not_exist(options: Options) -> None:
    """Reading makes nothing and says what is missing."""
    with pytest.raises(JournalError, match="there is no journal at"):
        open_journal(options)
    with pytest.raises(JournalError, match="DEDUP_JOURNAL='off' keeps no journal"):
        open_journal(Options(index_url=options.index_url, journal="off"))
    with pytest.raises(JournalError, match="name the journal's file"):
        open_journal(Options(index_url="memory:"))


def test_file_of_another_program(tmp_path: Path) -> None:
    """It is refused and left as it was; so is a file that is no database."""
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE mine (n)")
    theirs.close()
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(JournalError, match="is no journal"):
            SQLiteJournal(path, max_bytes=10**6).open(create=create)
    assert path.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text(json.dumps({"no": "database"}) * 100)
    with pytest.raises(JournalError, match="can't be opened"):
        SQLiteJournal(text, max_bytes=10**6).open(create=False)


def test_journal_of_a_later_version(tmp_path: Path) -> None:
    """A schema that is not known is refused with the way out."""
    path = tmp_path / "journal.db"
    journal = SQLiteJournal(path, max_bytes=10**6)
    journal.open(create=True)
    journal.close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JournalError, match="schema 99"):
        journal.open(create=False)


def test_choice(tmp_path: Path) -> None:
    """On: in the place of the index; off; or a file, whatever the index is."""
    chosen = choose_journal(Options(index_url=f"sqlite:{tmp_path / 'index.db'}"))
    assert isinstance(chosen, SQLiteJournal)
    assert chosen.path == tmp_path / "index.journal.db"
    assert choose_journal(Options(index_url="memory:")) is None
    for word in ("off", "False", "0"):
        assert choose_journal(Options(index_url="sqlite:x.db", journal=word)) is None
    named = choose_journal(Options(index_url="redis://nowhere/", journal=str(tmp_path / "j.db")))
    assert isinstance(named, SQLiteJournal)


def damage(journal: JournalStore, options: Options) -> None:
    """Write over the middle of every text."""
    middle = b"\0" * 40
    if isinstance(journal, SQLiteJournal):
        with sqlite3.connect(journal.path) as db:
            for table in ("dropped", "kept"):
                ((number, raw),) = db.execute(f"SELECT id, body FROM {table}").fetchall()
                raw = raw[:50] + middle + raw[90:]
                db.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (raw, number))
        db.close()
        return
    with redis.Redis.from_url(options.index_url) as client:
        stream = "{dedup}journal/drops"
        ((_, fields),) = client.xrange(stream)
        client.delete(stream)
        raw = fields[b"b"]
        client.xadd(stream, {**fields, b"b": raw[:50] + middle + raw[90:]})
        place = "{dedup}journal/kept/0"
        for name, raw in client.hgetall(place).items():
            if not name.startswith(b"@"):
                client.hset(place, name, raw[:200] + middle + raw[240:])


def test_damaged_texts(
    journal: JournalStore, options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    """They hold up nothing else: what is lost is logged, and counts as left out."""
    journal.append([make_drop(1)], [make_kept(1)], {})
    damage(journal, options)
    journal.append([make_drop(2)], [make_kept(2)], {})
    first, second = journal.drops(bodies=True)
    assert [first.body] == journal.bodies([first.id]) == [Body("", left_out=("text",))]
    assert second.body is not None
    assert second.body.text == article(2)
    assert journal.kept(first) is None
    assert journal.kept(second) == make_kept(2)
    assert f"has lost what the dropped page {first.id} said: damaged" in caplog.text
    assert "has lost the text of the stored page https://first.example/1: damaged" in caplog.text


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("time", "yesterday"),
        ("key", b"\xff"),
        ("tables", b"simhash/0"),
        ("number", "seven"),
        ("similarity", "much"),
        ("body", 7),
        ("bytes", "many"),
    ],
)
def test_value_of_another_type_in_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, value: object
) -> None:
    """SQLite takes any value in any column: an entry with one is passed over and logged, the others
    are read, and further ones are written."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path, max_bytes=10_000) as journal:
        journal.open(create=True)
        journal.append([make_drop(1), make_drop(2)], [], {})
        with sqlite3.connect(path) as db:
            db.execute(f"UPDATE dropped SET {column} = ? WHERE id = 1", (value,))
        db.close()
        found = list(journal.drops(bodies=True))
        assert found[-1] == attrs.evolve(make_drop(2), id="2")
        if column in {"body", "bytes"}:
            assert len(found) == 2
        else:
            assert len(found) == 1
            assert "has lost the entry 1: a value in it has another type" in caplog.text
        (body,) = journal.bodies(["1"])
        assert body is not None
        assert (body.left_out == ("text",)) == (column == "body")
        for n in range(3, 200):  # until the first ones go
            journal.append([make_drop(n)], [make_kept(n)], {})
        assert journal.size().drops < 200


def test_counter_of_another_type_in_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as 0; a stored page with such a value is passed over."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path, max_bytes=10**6) as journal:
        journal.open(create=True)
        journal.append([make_drop(1)], [make_kept(1)], {(0, "a", "seen"): 2, (0, "b", "seen"): 3})
        with sqlite3.connect(path) as db:
            db.execute("UPDATE activity SET value = 'x' WHERE host = 'a'")
            db.execute("UPDATE activity SET host = CAST('b' AS BLOB) WHERE host = 'b'")
            db.execute("UPDATE total SET value = 'x' WHERE name = 'kept'")
            db.execute("UPDATE kept SET number = 'x'")
        db.close()
        assert journal.hours() == [Hour(0, "a", 0, 0, {}), Hour(0, "b", 3, 0, {})]
        assert journal.size().kept == 1
        assert journal.kept(make_drop(1)) is None
        assert "has lost the stored page https://first.example/1" in caplog.text
        journal.append([make_drop(2)], [make_kept(2)], {(0, "a", "seen"): 1})
        assert journal.hours()[0].seen == 1


def test_text_of_another_encoding_in_the_file(tmp_path: Path) -> None:
    """What is no UTF-8 is replaced; everything else is read."""
    path = tmp_path / "journal.db"
    with SQLiteJournal(path, max_bytes=10**6) as journal:
        journal.open(create=True)
        journal.append([make_drop(1), make_drop(2)], [], {(0, "a", "seen"): 2, (0, "b", "seen"): 3})
        with sqlite3.connect(path) as db:
            db.execute("UPDATE dropped SET title = CAST(x'ff41' AS TEXT) WHERE id = 1")
            db.execute("UPDATE activity SET host = x'ff' WHERE host = 'a'")
        db.close()
        assert next(drop.title for drop in journal.drops()) == "\ufffdA"
        assert {hour.host: hour.seen for hour in journal.hours()} == {"\ufffd": 2, "b": 3}


def test_foreign_values_in_redis(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are passed over, and the others are read."""
    journal = choose_journal(Options(index_url=redis_url))
    assert journal is not None
    with redis.Redis.from_url(redis_url) as client, journal:
        journal.open(create=True)
        journal.append([], [make_kept(1), make_kept(2)], {(HOUR, "a", "seen"): 1})
        client.hset("{dedup}journal/kept/0", "https://first.example/1", "theirs")
        client.hset(DAY, "theirs", "x")
        client.hset("{dedup}journal/kept", mapping={"theirs": "1", "7": "theirs"})
        journal.append([], [make_kept(3)], {})
        assert journal.kept_of_each([make_drop(3)]) == [make_kept(3)]
        assert journal.kept_of_each([make_drop(1), make_drop(2)]) == [None, make_kept(2)]
        assert "has lost a stored page" in caplog.text
        assert [hour.seen for hour in journal.hours()] == [1]


def test_foreign_entry_in_redis(redis_url: str) -> None:
    """An entry that another program added is named, with the way out."""
    journal = choose_journal(Options(index_url=redis_url))
    assert journal is not None
    with redis.Redis.from_url(redis_url) as client, journal:
        number = client.xadd("{dedup}journal/drops", {"a": "b"}).decode()
        journal.open(create=False)
        with pytest.raises(JournalError, match=rf"remove it by XDEL \S+ {number}"):
            list(journal.drops())
