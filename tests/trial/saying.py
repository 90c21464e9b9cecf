"""What a crawl says of its index, its feeds, its drops and its end."""

from __future__ import annotations

import re

from tests.trial.environment import Done
from tests.trial.points import Point, Seen, ended
from tests.trial.projects import COPIES, PAGES, stat
from tests.trial.trial import Trial

AREA = "output"
STORED = PAGES - COPIES
_GBK = "渡口昨天重新开放，市政府宣布整修码头，气象台提醒渔民注意大风，图书馆延长开放时间。" * 12


def ten_pages(trial: Trial) -> Seen:
    """The own project, from empty caches: copies are dropped, and the feed has the others."""
    project = trial.project
    index = project.index()
    done = project.crawl(index, "-O", f"{index[7:]}.jsonl", cache="own")
    rows = len(project.feed(f"{index[7:]}.jsonl"))
    counts = f"{rows} rows, {stat(done, 'dedup/dropped'):.0f} dropped"
    is_met = (done.code, rows, stat(done, "dedup/dropped")) == (0, STORED, COPIES)
    printed = f"exit {done.code}; {counts}; {done.seconds:.1f} s, {done.cpu:.1f} s of CPU"
    return Seen(done.command, printed, met=is_met and "Traceback" not in done.text)


def again(trial: Trial, *arguments: str, **settings: object) -> tuple[Done, Done, str]:
    """Two crawls with one index, and the name of the feed that each overwrites."""
    project = trial.project
    index = project.index()
    feed = f"{index[7:]}.jsonl"
    first = project.crawl(index, "-O", feed)
    return first, project.crawl(index, "-O", feed, *arguments, settings=settings), feed


def contents(trial: Trial) -> Seen:
    """A line at the start says what the index holds."""
    _, second, _ = again(trial)
    wanted = f"The index holds {STORED} pages of earlier crawls, the newest stored on "
    return ended(second, wanted, "scrapy dedup report")


def overwritten(trial: Trial) -> Seen:
    """A feed that is about to lose its rows is warned of."""
    return ended(again(trial)[1], "is overwritten, and pages of earlier crawls are dropped")


def reset(trial: Trial) -> Seen:
    """``-s DEDUP_RESET=1`` begins anew: the feed has all rows again."""
    _, second, feed = again(trial, DEDUP_RESET=1)
    rows = len(trial.project.feed(feed))
    seen = ended(second, f"{STORED} pages of earlier crawls are forgotten")
    return Seen(seen.command, f"{seen.printed}; {rows} rows", met=seen.met and rows == STORED)


def clear(trial: Trial) -> Seen:
    """``scrapy dedup clear`` wants ``--yes`` where no user can be asked."""
    project = trial.project
    index = project.index()
    project.crawl(index)
    asked = project.dedup("clear", index=index)
    done = project.dedup("clear", "--yes", "--json", index=index)
    is_met = asked.code == 1 and "--yes" in asked.text and f'"forgotten": {STORED}' in done.text
    return Seen(done.command, f"without --yes: {asked.text.strip()}; {done.text}", met=is_met)


def bytes_in_json(trial: Trial) -> Seen:
    """A warning names the feed; pages that it lost are new to the next crawl."""
    project = trial.project
    index = project.index()
    feed = f"{index[7:]}.jsonl"
    first = project.crawl(index, "-a", "kind=bytes", "-o", feed)
    warnings = first.text.count("which JSON can't hold")
    second = project.crawl(index, "-a", "kind=text", "-o", feed)
    rows = len(project.feed(feed))
    printed = f"{warnings} warning; committed {stat(first, 'dedup/committed'):.0f}; "
    printed += f"{rows} rows after a crawl with text"
    is_met = (warnings, rows) == (1, STORED) and not stat(first, "dedup/committed")
    return Seen(first.command, printed, met=is_met and second.code == 0)


def drops_in_one_line(trial: Trial) -> Seen:
    """A drop at level INFO is one line without the page."""
    done = trial.project.crawl(
        "memory:", settings={"DEDUP_DROP_LOG_LEVEL": "INFO", "LOG_LEVEL": "INFO"}
    )
    lines = [line for line in done.text.splitlines() if "Dropped: " in line]
    size = len(done.text.encode())
    is_met = len(lines) == COPIES and all("duplicate of http" in line for line in lines)
    printed = f"{lines[0] if lines else 'no line'}; log of {size / 1000:.0f} KB"
    return Seen(done.command, printed, met=is_met and size < 30_000)


def undeclared_gbk(trial: Trial) -> Seen:
    """A page in GBK that declares nothing, as bytes, is a copy of the same page in UTF-8."""
    project = trial.project
    page = "<html>{}<title>渡口</title><body><article><p>{}</p></article></body></html>"
    utf8, gbk = (project.folder / name for name in ("utf8.html", "gbk.html"))
    utf8.write_text(page.format("<meta charset=utf-8>", _GBK), encoding="utf-8")
    gbk.write_text(page.format("", _GBK), encoding="gbk")
    places = f"pages={utf8.as_uri()} {gbk.as_uri()}"
    done = project.crawl("memory:", "-a", "kind=bytes", "-a", places)
    return ended(done, "gbk.html?: duplicate of ", "'dedup/dropped': 1")


def summary_line(trial: Trial) -> Seen:
    """A crawl without a single item has it too."""
    done = trial.project.crawl("memory:", "-a", "kind=nothing", "-a", "pages=data:,x")
    return ended(done, "Checked 0 pages, dropped 0 (0 %), 0 unchecked")


def journal_counts(trial: Trial) -> Seen:
    """As many drops in the journal as pages were dropped."""
    project = trial.project
    index = project.index()
    project.crawl(index)
    done = project.dedup("stats", index=index)
    line = next((one for one in done.text.splitlines() if "entries in the journal" in one), "")
    counted = re.findall(r"\d+", line.rpartition("journal: drops, near pages")[2])
    return Seen(done.command, line, met=counted[:1] == [str(COPIES)])


def seconds_are_work(trial: Trial) -> Seen:
    """No stage takes longer than the crawl."""
    done = trial.project.crawl("memory:")
    names = re.findall(r"'(dedup/seconds/[\w-]+)': ([\d.]+)", done.text)
    whole = stat(done, "elapsed_time_seconds")
    most = max(names, key=lambda one: float(one[1]), default=("no stat", "0"))
    is_met = bool(names) and float(most[1]) < whole
    return Seen(done.command, f"{most[0]}: {most[1]} of {whole:.1f} s", met=is_met)


def whole_addresses(trial: Trial) -> Seen:
    """At 80 columns too."""
    project = trial.project
    index = project.index()
    page = f"{trial.pages[0]}?{'a' * 100}"
    project.crawl(index, "-a", f"pages={page} {trial.pages[0]}")
    done = project.dedup("explain", f"{page}?", index=index, COLUMNS="80")
    line = next((one for one in done.text.splitlines() if "a" * 100 in one), "")
    return Seen(done.command, line or done.text, met=page in line and done.code == 0)


def compare(trial: Trial) -> Seen:
    """Three methods, and all with ``--all-methods``."""
    project = trial.project
    arguments = (*trial.pages[:2], "--json")
    few = project.dedup("compare", *arguments)
    every = project.dedup("compare", *arguments, "--all-methods")
    counts = [done.text.count('"method"') for done in (few, every)]
    named = re.findall(r'"method": "([\w-]+)"', few.text)
    printed = f"{', '.join(named)}; {counts[1]} with --all-methods"
    is_met = named == ["content", "minhash", "simhash"] and counts[1] > 10
    return Seen(few.command, printed, met=is_met)


POINTS = (
    Point(AREA, "own project, ten pages over loopback, empty caches", "", ten_pages),
    Point(AREA, "the start says what the index holds", "silence", contents),
    Point(AREA, "`-O` and revisits that are dropped: a warning", "2 of 20 rows", overwritten),
    Point(AREA, "`-s DEDUP_RESET=1`", "none", reset),
    Point(AREA, "`scrapy dedup clear` asks, `--yes`", "no command", clear),
    Point(AREA, "bytes in a JSON feed: a warning, nothing is lost later", "0 lines", bytes_in_json),
    Point(AREA, "a drop in the log is one line", "1.2 MB for 40 pages", drops_in_one_line),
    Point(AREA, "GBK that is not declared, as `response.body`", "other words", undeclared_gbk),
    Point(AREA, "every crawl ends with the summary", "not short ones", summary_line),
    Point(AREA, "drops in the journal are those of the crawl", "15 after 7", journal_counts),
    Point(AREA, "`dedup/seconds` is work, not waiting", "403 in 41 s", seconds_are_work),
    Point(AREA, "addresses are whole at 80 columns", "cut", whole_addresses),
    Point(AREA, "`compare` prints three methods, or all", "all", compare),
)
