"""Drops, stored pages and counts that the tests of the report know."""

from __future__ import annotations

from typing import Any

from dedup_middleware.journal.entries import Activity, Body, Change, Drop, Kept

START = 1_700_000_000
STORED_TEXT = "港口今天清晨开放，渔船陆续出海。价格上涨两成。"
COPY_TEXT = "港口今天傍晚开放，渔船陆续出海。价格上涨两成。"
ENGLISH = "The harbour opened at dawn and the boats went out."
HOSTILE = "</script><script>document.body.dataset.broken = 'yes'</script>"


def drop(name: str, similarity: float | None, **values: Any) -> Drop:
    """A page of the second site, dropped against the page of the first one."""
    dropped = similarity is not None and similarity >= 0.8
    fields: dict[str, Any] = {
        "time": START + 60.0,
        "key": f"https://copy.example/{name}",
        "title": f"Title {name}",
        "outcome": "duplicate" if dropped else "new",
        "reason": "near-duplicate" if dropped else "too-little-in-common",
        "match": "https://first.example/1",
        "number": 1,
        "similarity": similarity,
        "jaccard": similarity,
        "distance": 7,
        "tables": ("simhash-0", "band-3"),
        "spider": "news",
        "crawl": "monday",
        "body": Body(COPY_TEXT),
        **values,
    }
    return Drop(**fields)


DROPS = [
    drop("near", 0.81),
    drop("far", 0.97),
    drop("below", 0.79),
    drop("exact", 1.0, reason="exact-copy"),
    drop("figures", 0.95, outcome="new", reason="other-figures"),
    drop("hostile", 0.9, key="javascript:alert(1)", title=HOSTILE, body=Body(HOSTILE)),
    drop(
        "english",
        0.92,
        match="https://second.example/2",
        number=2,
        body=Body(ENGLISH.replace("dawn", "noon")),
    ),
    drop("empty", None, outcome="empty", reason="no-text", match=None, number=None, body=None),
]
FERRY = "https://first.example/ferry"
CHANGE = Change(added=6, removed=1, old_figures=("4",), new_figures=("7.50", "9:15"))
# The second one is of a journal that did not have the last version.
CHANGES = [
    drop(
        "ferry", 0.93, key=FERRY, match=FERRY, title="The ferry", outcome="new", reason="changed",
        figures=2, body=Body("", change=CHANGE),
    ),
    drop(
        "fees", 0.7, key="https://second.example/fees", match="https://second.example/fees",
        title="Fees", outcome="new", reason="changed", time=START + 9000.0, spider="press",
        crawl="tuesday",
    ),
]  # fmt: skip
# Another journal: one page alike, three otherwise, and one that only it has.
OTHER_DROPS = [
    drop("near", 0.81),
    drop("below", 0.85),
    drop("exact", 1.0, reason="near-duplicate"),
    drop("english", 0.9, match="https://third.example/9", number=9),
    drop("elsewhere", 0.88),
]
KEPT = [
    Kept(key="https://first.example/1", number=1, title="港口", text=STORED_TEXT, time=START),
    Kept(key="https://second.example/2", number=2, title="Harbour", text=ENGLISH, time=START),
]
ACTIVITY: Activity = {
    (START, "copy.example", "seen"): 8,
    (START, "copy.example", "stored"): 2,
    (START, "copy.example", "dropped/near-duplicate"): 4,
    (START, "copy.example", "dropped/exact-copy"): 1,
    (START, "copy.example", "dropped/no-text"): 1,
    (START + 7200, "first.example", "seen"): 1,
    (START + 7200, "first.example", "stored"): 1,
}
