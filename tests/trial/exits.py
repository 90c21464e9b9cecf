"""Exit codes of the commands, as docs/commands.md lists them."""

from __future__ import annotations

from tests.trial.points import Point, Seen, ended
from tests.trial.trial import Trial

AREA = "exit code"


def command(asks: str, before: str, arguments: tuple[str, ...], *wanted: str, code: int) -> Point:
    """A command on an index that holds the ten pages, and the code and the words it ends with.

    PAGE stands for the address of a page that the index holds, COPY for that of a copy.
    """

    def look(trial: Trial) -> Seen:
        project = trial.project
        index = "sqlite:exits.db"
        if not (project.folder / "exits.db").exists():
            project.crawl(index)
        (project.folder / "bad.jsonl").write_text('no json\n{"broken\n')
        (project.folder / "good.jsonl").write_text('{"url": "a", "text": "b c d"}\n')
        named = {"PAGE": trial.pages[0], "COPY": trial.pages[-1]}
        given = [named.get(one, one) for one in arguments]
        return ended(project.dedup(*given, index=index), *wanted, code=code, without=("Traceback",))

    return Point(AREA, asks, before, look)


def failed_without_index(trial: Trial) -> Seen:
    """There is no index at this address, and none is made."""
    done = trial.project.dedup("stats", index="sqlite:no-such.db")
    seen = ended(done, "there is no index", code=1)
    is_met = seen.met and not (trial.project.folder / "no-such.db").exists()
    return Seen(seen.command, seen.printed, met=is_met)


def parquet(trial: Trial) -> Seen:
    """``-o a.parquet`` is refused, not written as JSON lines."""
    project = trial.project
    (project.folder / "good.jsonl").write_text('{"url": "a", "text": "b c d"}\n')
    done = project.dedup("files", "good.jsonl", "-o", "a.parquet")
    seen = ended(done, "not as parquet; name a file in .jsonl", code=1)
    is_met = seen.met and not (project.folder / "a.parquet").exists()
    return Seen(seen.command, seen.printed, met=is_met)


POINTS = (
    command("0: done", "", ("stats",), "pages stored", code=0),
    Point(AREA, "1: there is no index", "", failed_without_index),
    command("2: an option that does not exist", "", ("stats", "--none"), "--none", code=2),
    command(
        "2: `scrapy dedup stat` names the one meant", "not named", ("stat",),
        "do you mean `scrapy dedup stats`?", code=2,
    ),
    command("0: `check`, it would be stored", "", ("check", "good.jsonl"), "new", code=0),
    command("3: `check`, it would be dropped", "", ("check", "COPY"), "duplicate", code=3),
    command("0: `verify` of a sound index", "", ("verify",), "The index is whole", code=0),
    Point(AREA, "1: `files -o a.parquet`", "JSON lines in it", parquet),
    command(
        "1: all rows of `files` rejected", "exit 0",
        ("files", "bad.jsonl", "-o", "none.jsonl", "--workers", "0"), "DEDUP_TEXT_FIELD", code=1,
    ),
)  # fmt: skip
