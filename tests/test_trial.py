"""The trial of a new user's first hour: its points and its table. The trial itself is a run of its
own, `python -m tests.trial`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import setting_name
from tests.trial.environment import Done, peak_of
from tests.trial.points import LONGEST, Point, Row, Seen, cell, ended, summary, table, tried
from tests.trial.projects import stat
from tests.trial.rounds import AREAS, every_point
from tests.trial.settings import ANY_VALUE, WRONG
from tests.trial.starting import line_while_compiling, startup, warmup

TRIAL: Any = SimpleNamespace()


def done(text: str, code: int = 0) -> Done:
    """A command that has ended."""
    return Done("scrapy crawl pages", code, text, 1.0, 0.5, 80.0)


def row(*, met: bool) -> Row:
    """A point that was looked at."""
    point = Point("start", "it starts", "57 s", lambda _: Seen("", "", met=met))
    return Row(point, Seen("a | b", "one\ntwo", met=met), 2.4)


def test_each_point_is_there_once() -> None:
    """By area and demand; every area has points."""
    named = Counter((point.area, point.asks) for point in every_point())
    assert [one for one, count in named.items() if count > 1] == []
    assert {area for area, _ in named} == set(AREAS)


def test_each_setting_has_a_wrong_value() -> None:
    """A setting that takes any value is named as such."""
    settings = {setting_name(field.name) for field in attrs.fields(Options)}
    assert WRONG.keys() | ANY_VALUE == settings
    assert not WRONG.keys() & ANY_VALUE


@pytest.mark.parametrize("asks", ["password", "user", "database", "TLS", "web server", "sentinel"])
def test_each_kind_of_wrong_address_is_tried(asks: str) -> None:
    """The kinds that the list of demands names."""
    assert any(asks in point.asks for point in every_point() if point.area == "address")


def test_a_row_of_the_table() -> None:
    """Nothing that was printed ends a cell or a line; the last line counts."""
    lines = table([row(met=True), row(met=False)]).splitlines()
    assert len(lines) == 6
    assert lines[2] == r"| start | it starts | 57 s | `a \| b` | one two | yes | 2 |"
    assert "**no**" in lines[3]
    assert lines[-1] == summary([row(met=True), row(met=False)]) == "1 of 2 met"
    assert len(cell("word " * LONGEST)) == LONGEST


def test_a_point_is_met_by_code_and_words() -> None:
    """The lines with the words are shown; missing words are named."""
    text = "first\nthe index holds 3 pages\nlast"
    assert ended(done(text), "holds 3") == Seen(
        "scrapy crawl pages", "exit 0; the index holds 3 pages", met=True
    )
    for seen in (
        ended(done(text), "holds 4"),
        ended(done(text), "holds 3", code=1),
        ended(done(text), "holds 3", without=("last",)),
    ):
        assert not seen.met
    assert "no 'holds 4'" in ended(done(text), "holds 4").printed


def test_an_error_is_a_point_that_is_not_met() -> None:
    """The points behind it are looked at all the same."""

    def look(_: Any) -> Seen:
        raise TimeoutError("no line\nin the log")

    seen = tried(Point("start", "it starts", "", look), TRIAL).seen
    assert (seen.met, seen.printed) == (False, "TimeoutError: no line ... in the log")


def test_stats_in_a_log() -> None:
    """The first and the last of the dict too."""
    text = "{'dedup/dropped': 3,\n 'dedup/new': 7,\n 'elapsed_time_seconds': 1.5}"
    names = ("dedup/dropped", "dedup/new", "elapsed_time_seconds", "dedup/none")
    assert [stat(done(text), name) for name in names] == [3, 7, 1.5, 0]


_CHECKED = "{'dedup/dropped': 3}"
_LINE = "INFO: The functions are compiled for this processor, in CACHE/told"


def with_crawls(folder: Path, *crawls: Done) -> Any:
    """A trial whose crawls are these, and whose warmup compiles one function."""

    def warmed(*_: Any, cache: str, **__: Any) -> Done:
        (folder / cache).mkdir()
        (folder / cache / "one.nbc").touch()
        return done("Ready")

    crawl = iter(crawls)
    project = SimpleNamespace(
        index=lambda: "sqlite:x.db", crawl=lambda *_, **__: next(crawl), dedup=warmed
    )
    environment = SimpleNamespace(folder=folder, shown=str)
    return SimpleNamespace(environment=environment, project=project)


@pytest.mark.parametrize(
    ("crawl", "met"), [(done(_CHECKED), True), (done(_CHECKED, code=1), False), (done(""), False)]
)
def test_a_crawl_that_fails_compiles_nothing(tmp_path: Path, crawl: Done, *, met: bool) -> None:
    """That it did not is no proof then."""
    assert warmup(with_crawls(tmp_path, crawl)).met is met
    first = done(_LINE.replace("CACHE", str(tmp_path)) + "\n" + _CHECKED)
    assert line_while_compiling(with_crawls(tmp_path, first, crawl)).met is met


RATIOS = """\
│ _sign_text │ 12.34 │ 0.012 │
│ cold        │ 38.60 │ 20.01 │ 1.93 │
│ warm        │ 0.43 │ 1.20 │ 0.36 │
"""


@pytest.mark.parametrize(
    ("text", "code", "pip", "met"),
    [
        (RATIOS, 0, 0, True),
        (RATIOS, 1, 0, False),
        (RATIOS, 0, 1, False),
        (RATIOS.replace("_sign_text", "another"), 0, 0, False),
        (RATIOS.replace("warm", "late"), 0, 0, False),
        (RATIOS.splitlines()[0] + "\npynndescent is not installed", 0, 0, False),
    ],
)
def test_the_benchmark_at_the_end(
    tmp_path: Path, text: str, code: int, pip: int, *, met: bool
) -> None:
    """Its numbers are all there, it ended well, and so did the installation for it."""
    (tmp_path / "clone" / "benchmarks").mkdir(parents=True)
    environment = SimpleNamespace(
        folder=tmp_path,
        clone=tmp_path / "clone",
        install=lambda _: done("", pip),
        run=lambda *_, **__: done(text, code),
    )
    assert startup(SimpleNamespace(environment=environment)).met is met  # type: ignore[arg-type]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_the_peak_is_that_of_the_program() -> None:
    """Not that of the process which started it."""
    own = bytearray(150_000_000)
    own[::4096] = b"x" * len(own[::4096])
    command = [sys.executable, "-c", "input(bytearray(b'x' * 30_000_000)[:1])"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # the program runs
        peak = peak_of(process.pid)
        process.communicate(b"\n")
    assert peak is not None
    assert 30 < peak < 100
    assert peak_of(process.pid) is None
