"""Reading a journal from Python: filters, plain and asynchronous loops, errors."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Journal, JournalError, Options, OptionsError
from dedup_middleware.journal.access import choose_journal
from dedup_middleware.journal.entries import Body, Drop, Kept

STORED = "https://one.example/1"


def entry(n: int, **more: Any) -> Drop:
    """An entry of its own for each number."""
    values: dict[str, Any] = {
        "time": float(n),
        "key": f"https://h{n % 3}.example/{n}",
        "outcome": "duplicate",
        "reason": "exact-copy",
        "match": STORED,
        "number": 1,
        "similarity": 1.0,
        "spider": f"s{n % 2}",
        "crawl": f"c{n // 10}",
        "body": Body(f"text {n}"),
    }
    return Drop(**(values | more))


MANY = [entry(n) for n in range(1200)]
OTHERS = [
    entry(2000, outcome="new", reason="nothing-alike", match=None, similarity=0.6),
    entry(2001, outcome="revisit", reason="unchanged"),
]


@pytest.fixture(params=["index", "file", "path", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """A journal with many entries, named in each way."""
    file = tmp_path / "index.journal.db"
    places: dict[str, str | Path] = {
        "index": f"sqlite:{tmp_path / 'index.db'}",
        "file": str(file),
        "path": file,
    }
    url = places["index"]
    if request.param == "redis":
        url = places["redis"] = request.getfixturevalue("redis_url")
    store = choose_journal(Options(index_url=str(url)))
    assert store is not None
    store.open(create=True)
    with store:
        store.append(MANY + OTHERS, [Kept(key=STORED, number=1, text="stored", time=1.0)], {})
    return places[request.param]


async def test_both_loops_give_the_same(place: str | Path) -> None:
    """Plain and asynchronous, more than one part of them, and a second time."""
    keys = [one.key for one in [*MANY, OTHERS[1]]]
    with Journal(place) as journal:
        drops = journal.drops()
        assert [drop.key for drop in drops] == keys
        assert [drop.key for drop in drops] == keys
    async with Journal(place) as journal:
        assert [drop.key async for drop in journal.drops()] == keys
        (cluster,) = [one async for one in journal.clusters(near=True)]
        assert (cluster.stored, len(cluster.mirrors), len(cluster.near)) == (STORED, 1200, 1)
        (near,) = [one async for one in journal.near_misses()]
        assert near.key == OTHERS[0].key
        kept = journal.stored(near)
        assert kept is not None
        assert (kept.key, kept.text) == (STORED, "stored")


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({"hosts": "H1.example", "crawls": "c0"}, [1, 4, 7]),
        ({"hosts": ["h1.example", "h2.example"], "until": 6}, [1, 2, 4, 5]),
        ({"spiders": "s1", "since": 5, "until": 10}, [5, 7, 9]),
        ({"crawls": {"c3"}, "spiders": ["s0"]}, [30, 32, 34, 36, 38]),
        ({"reasons": "unchanged"}, [2001]),
        ({"keys": (key for key in ["https://h2.example/2"])}, [2]),
        ({"until": datetime.datetime.fromtimestamp(2, datetime.timezone.utc)}, [0, 1]),
        ({"until": datetime.datetime.fromtimestamp(2)}, [0, 1]),
    ],
)
def test_filters(tmp_path: Path, filters: dict[str, Any], numbers: list[int]) -> None:
    """All that are given must fit; one text is the same as a list of one."""
    path = tmp_path / "j.db"
    store = choose_journal(Options(journal=str(path)))
    assert store is not None
    store.open(create=True)
    with store:
        store.append(MANY[:50] + OTHERS, [], {})
    with Journal(path) as journal:
        assert [round(drop.time) for drop in journal.drops(**filters)] == numbers
        chosen = {page.key for one in journal.clusters(**filters) for page in one.mirrors}
        dropped = [drop for drop in journal.drops(**filters) if drop.outcome == "duplicate"]
        assert chosen == {drop.key for drop in dropped}


def test_texts_are_read_on_request(place: str | Path) -> None:
    """They are large; without them `body` is None."""
    with Journal(place) as journal:
        (light,) = journal.drops(keys=MANY[7].key)
        (whole,) = journal.drops(keys=MANY[7].key, texts=True)
        assert light.body is None
        assert whole.body == Body("text 7")


def test_what_can_not_be_read(tmp_path: Path) -> None:
    """The message names what is missing; nothing is created."""
    with pytest.raises(JournalError, match="there is no journal at"):
        list(Journal(f"sqlite:{tmp_path / 'index.db'}").drops())
    with pytest.raises(JournalError, match="there is no journal at"), Journal(tmp_path / "on"):
        pass
    with pytest.raises(JournalError, match="name the journal's file"):
        Journal("memory:").open()
    with pytest.raises(OptionsError, match="DEDUP_INDEX_URL"):
        Journal("http://one.example/journal")
    with pytest.raises(TypeError, match="since='2024-01-01': give seconds since 1970"):
        Journal(tmp_path / "j.db").drops(since="2024-01-01")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"no such filter: host; use keys, hosts"):
        Journal(tmp_path / "j.db").drops(host="a")  # type: ignore[call-arg]
    assert list(tmp_path.iterdir()) == []


def test_a_closed_journal_can_be_read_again(place: str | Path) -> None:
    """Closing gives back the connection only."""
    journal = Journal(place)
    assert len(list(journal.near_misses())) == 1
    journal.close()
    journal.close()
    assert len(list(journal.near_misses())) == 1
    journal.close()
