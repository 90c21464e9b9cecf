"""Each wrong setting ends the crawl at its start: exit code 1, and one line that names it."""

from __future__ import annotations

from tests.trial.environment import Done
from tests.trial.points import Point, Seen, ended
from tests.trial.trial import Trial

AREA = "settings"
BEFORE = "exit 0"
# An unusable value of each, as on the command line. Of DEDUP_CRAWL_ID none is known.
WRONG = {
    "DEDUP_INDEX_URL": "mysql://host/x",
    "DEDUP_NAMESPACE": "two words",
    "DEDUP_SHARDS": "3",
    "DEDUP_FORMER_INDEX_URL": "memory:",
    "DEDUP_FORMER_NAMESPACE": "old",
    "DEDUP_KEEP_ADDRESS": "maybe",
    "DEDUP_HASH_KEY": "no number",
    "DEDUP_METHOD": "contents",
    "DEDUP_METHOD_PARAMETERS": "width=3",
    "DEDUP_THRESHOLD": "7",
    "DEDUP_PRESET": "gentle",
    "DEDUP_MEASURE": "cosine",
    "DEDUP_DISTANCE": "4",
    "DEDUP_SCAN_DISTANCE": "65",
    "DEDUP_MIN_FEATURES": "0",
    "DEDUP_EVIDENCE": "all",
    "DEDUP_SEGMENTER": "hanlp",
    "DEDUP_USER_DICTIONARY": "/nonexistent/words.txt",
    "DEDUP_FOLD_TRADITIONAL": "maybe",
    "DEDUP_EXTRACTOR": "slow",
    "DEDUP_SHINGLE_WIDTH": "17",
    "DEDUP_MAX_CHARS": "1",
    "DEDUP_NUM_PERM": "500",
    "DEDUP_PROBES": "17",
    "DEDUP_BANDS": "55",
    "DEDUP_ROWS": "0",
    "DEDUP_ENABLED": "maybe",
    "DEDUP_RESET": "maybe",
    "DEDUP_ACTION": "delete",
    "DEDUP_REVISIT": "maybe",
    "DEDUP_VERSIONS": "all",
    "DEDUP_ON_FULLER": "drop",
    "DEDUP_ON_EMPTY": "mark",
    "DEDUP_ON_ERROR": "stop",
    "DEDUP_LEASE": "0",
    "DEDUP_PENDING_WAIT": "soon",
    "DEDUP_WINDOW": "30",
    "DEDUP_TIMEOUT": "0",
    "DEDUP_RETRIES": "-1",
    "DEDUP_ITEMS": '{"no.such.Class": {}}',
    "DEDUP_OTHER_ITEMS": "drop",
    "DEDUP_TEXT_FIELD": " ",
    "DEDUP_HTML_FIELD": " ",
    "DEDUP_CHARSET_FIELD": " ",
    "DEDUP_TITLE_FIELD": " ",
    "DEDUP_DESCRIPTION_FIELD": " ",
    "DEDUP_KEY_FIELD": " ",
    "DEDUP_SKIP_FIELD": " ",
    "DEDUP_FILL_TEXT": "maybe",
    "DEDUP_JOURNAL": "/nonexistent/folder/journal.db",
    "DEDUP_JOURNAL_MAX_BYTES": "5",
    "DEDUP_JOURNAL_KEEP_TEXTS": "maybe",
    "DEDUP_CLUSTERS": "clusters.txt",
    "DEDUP_CLUSTERS_NEAR": "maybe",
    "DEDUP_METRICS_PORT": "70000",
    "DEDUP_METRICS_HOST": " ",
    "DEDUP_DROP_LOG_LEVEL": "LOUD",
    "DEDUP_MARK_FIELD": " ",
}
ANY_VALUE = {"DEDUP_CRAWL_ID"}


def refused(done: Done, *wanted: str) -> Seen:
    """A crawl that is not started: one line at level ERROR holds the texts."""
    lines = [line for line in done.text.splitlines() if " ERROR: " in line]
    is_met = len(lines) == 1 and all(text in lines[0] for text in wanted)
    is_met = is_met and done.code == 1 and "Traceback" not in done.text
    printed = " / ".join(lines[:2]) or done.text[-200:]
    return Seen(done.command, f"exit {done.code}; {printed}", met=is_met)


def wrong(name: str, value: str, *, before: str = BEFORE) -> Point:
    """One setting with an unusable value."""

    def look(trial: Trial) -> Seen:
        if name == "DEDUP_INDEX_URL":
            return refused(trial.project.crawl(value), name)
        return refused(trial.project.crawl("memory:", settings={name: value}), name)

    return Point(AREA, f"`{name}`: exit 1, one line", before, look)


def other(asks: str, before: str, settings: dict[str, object], *wanted: str) -> Point:
    """Settings that do not fit each other, or a name that does not exist."""

    def look(trial: Trial) -> Seen:
        index = str(settings.get("DEDUP_INDEX_URL", "memory:"))
        return refused(trial.project.crawl(index, settings=settings), *wanted)

    return Point(AREA, asks, before, look)


def another_index(trial: Trial) -> Seen:
    """An index that was made with other parameters: the settings are named."""
    project = trial.project
    index = project.index()
    project.crawl(index)
    done = project.crawl(index, settings={"DEDUP_SHINGLE_WIDTH": 4})
    # A line for each parameter that differs.
    wanted = ("ERROR: The crawl is not started", "DEDUP_SHINGLE_WIDTH")
    return ended(done, *wanted, code=1, without=("Traceback",))


def two_pipelines(trial: Trial) -> Seen:
    """The pipeline of the add-on, and one in ITEM_PIPELINES."""
    project = trial.project
    package = project.folder / "own"
    (package / "pipelines.py").write_text(
        "from dedup_middleware import DedupPipeline\n\n\nclass Own(DedupPipeline):\n    pass\n"
    )
    done = project.crawl("memory:", settings={"ITEM_PIPELINES": '{"own.pipelines.Own": 460}'})
    return refused(done, "Own")


def near_prefix(trial: Trial) -> Seen:
    """A slip in the beginning of a name: a warning, since it may be another program's."""
    done = trial.project.crawl("memory:", settings={"DEDUPE_THRESHOLD": 0.9})
    return ended(done, "do you mean DEDUP_THRESHOLD?")


def odd_fields(trial: Trial) -> Seen:
    """Items whose fields never match: one warning after twenty of them."""
    done = trial.project.crawl("memory:", "-a", "kind=odd", "-a", "repeat=3")
    seen = ended(done, "DEDUP_TEXT_FIELD", "Their fields: link, body")
    return Seen(
        seen.command, seen.printed, met=seen.met and done.text.count("DEDUP_TEXT_FIELD") == 1
    )


POINTS = (
    *(wrong(name, value) for name, value in WRONG.items()),
    other(
        "a misspelt setting names the one meant", "silence", {"DEDUP_TRESHOLD": 0.9},
        "do you mean DEDUP_THRESHOLD?",
    ),
    Point(AREA, "a slip in `DEDUP_` is warned of", "silence", near_prefix),
    other(
        "`sqlite:/nonexistent/dir/x.db` is refused", "accepted",
        {"DEDUP_INDEX_URL": "sqlite:/nonexistent/dir/x.db"}, "no folder /nonexistent",
    ),
    other(
        "a namespace with SQLite is refused", "b dropped a's pages",
        {"DEDUP_INDEX_URL": "sqlite:x.db", "DEDUP_NAMESPACE": "b"}, "only an index in Redis",
    ),
    Point(AREA, "a refused index: exit 1, settings are named", "inner parameters", another_index),
    Point(AREA, "two pipelines of the plugin: exit 1", BEFORE, two_pipelines),
    Point(AREA, "fields that never match are named once", "silence", odd_fields),
)  # fmt: skip
