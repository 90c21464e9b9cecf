"""Starts in seconds: kernels, their cache, and what compiles nothing."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path

from benchmarks.startup import CLOCK, JUDGE
from tests.trial.environment import Done
from tests.trial.points import Point, Seen, ended
from tests.trial.projects import COPIES, stat
from tests.trial.trial import Trial

AREA = "start"
COLD, WARM = 12.0, 0.5  # seconds of processor time until the first verdicts
SLOWER = 1.05
_COMPILE = {"DEDUP_COMPILE": "1"}  # by numba, whatever the installation has compiled
_STARTS = ["cold", "warm"]
_NUMBA = "numba"  # caches that numba has filled
_TOLD = "are compiled for this processor"
_FINGERPRINTS = """
import random, time
from dedup_middleware import Document, Fingerprinter, Options
dice = random.Random(1)
words = "市政府 图书馆 检查 码头 渔民 宣布 桥梁 并听取意见 harbour council bridge 12 7".split()
pages = ["，".join(dice.choices(words, k=200)) for _ in range(400)]
sign = Fingerprinter(Options())
def seconds():
    begun = time.process_time()
    for number, page in enumerate(pages):
        sign(Document(key=str(number), text=page))
    return time.process_time() - begun
seconds()
print(min(seconds() for _ in range(5)) / len(pages) * 1e6)
"""


def judge(trial: Trial, cache: str, **variables: str) -> tuple[Done, float]:
    """A process that judges two pages, and its seconds of processor time behind Python's start."""
    done = trial.environment.run("python", "-c", CLOCK, JUDGE, cache=cache, **variables)
    if done.code:
        raise RuntimeError(done.text)
    return done, float(json.loads(done.text.splitlines()[-1])[1])


def within(bar: float, used: float, how: str) -> Seen:
    """A point that is met up to so many seconds."""
    shown = "python -c '... await dedup.decide(page) ...'"
    return Seen(f"{how}{shown}", f"{used:.2f} s of CPU; bar {bar:g}", met=used <= bar)


def cold_installed(trial: Trial) -> Seen:
    """Kernels that came with the installation."""
    cache = "empty-installed"
    shutil.rmtree(trial.environment.folder / cache, ignore_errors=True)
    seen = within(COLD, judge(trial, cache)[1], "")
    files = len(compiled_files(trial.environment.folder / cache))
    return Seen(seen.command, f"{seen.printed}; {files} compiled by numba", seen.met and not files)


def warm_installed(trial: Trial) -> Seen:
    """The same with a full cache."""
    judge(trial, "cache")
    return within(WARM, statistics.median(judge(trial, "cache")[1] for _ in range(5)), "")


def cold_numba(trial: Trial) -> Seen:
    """Kernels that numba compiles."""
    shutil.rmtree(trial.environment.folder / _NUMBA, ignore_errors=True)
    return within(COLD, judge(trial, _NUMBA, **_COMPILE)[1], "DEDUP_COMPILE=1 ")


def warm_numba(trial: Trial) -> Seen:
    """Kernels that numba has compiled before."""
    judge(trial, _NUMBA, **_COMPILE)
    used = statistics.median(judge(trial, _NUMBA, **_COMPILE)[1] for _ in range(5))
    return within(WARM, used, "DEDUP_COMPILE=1 ")


def compiled_files(folder: Path) -> list[Path]:
    """Files with machine code."""
    return sorted(folder.rglob("*.nbc"))


def compiles_nothing(asks: str, before: str, *command: str) -> Point:
    """A command that needs no kernel: numba would have to compile all of them.

    PAGE stands for the address of a page.
    """

    def look(trial: Trial) -> Seen:
        cache = "without"
        shutil.rmtree(trial.environment.folder / cache, ignore_errors=True)
        cwd = trial.project.folder
        page = trial.pages[0]
        arguments = [page if one == "PAGE" else one for one in command]
        done = trial.environment.run(*arguments, cwd=cwd, cache=cache, **_COMPILE)
        files = len(compiled_files(trial.environment.folder / cache))
        printed = f"exit {done.code}; {files} kernels compiled; {done.cpu:.1f} s of CPU"
        return Seen(done.command, printed, met=done.code == files == 0 and _TOLD not in done.text)

    return Point(AREA, f"{asks} compiles nothing", before, look)


def checked(crawl: Done) -> bool:
    """Whether a crawl of the ten pages has used the kernels."""
    return crawl.code == 0 and stat(crawl, "dedup/dropped") == COPIES


def line_while_compiling(trial: Trial) -> Seen:
    """The first crawl says once that kernels are compiled, and where they are kept."""
    cache = "told"
    project = trial.project
    shutil.rmtree(trial.environment.folder / cache, ignore_errors=True)
    first = project.crawl(project.index(), cache=cache, **_COMPILE)
    again = project.crawl(project.index(), cache=cache, **_COMPILE)
    lines = [line for line in first.text.splitlines() if _TOLD in line]
    place = str(trial.environment.folder / cache)
    is_met = len(lines) == 1 and place in lines[0] and _TOLD not in again.text
    is_met = is_met and checked(first) and checked(again)
    printed = "; ".join([*lines, f"{again.text.count(_TOLD)} lines in the next crawl"])
    return Seen(first.command, trial.environment.shown(printed), met=is_met)


def warmup(trial: Trial) -> Seen:
    """The command fills an empty cache, so that a crawl compiles nothing."""
    cache = "warmed"
    project = trial.project
    folder = trial.environment.folder / cache
    shutil.rmtree(folder, ignore_errors=True)
    done = project.dedup("warmup", index=project.index(), cache=cache, **_COMPILE)
    files = compiled_files(folder)
    crawl = project.crawl(project.index(), cache=cache, **_COMPILE)
    after = compiled_files(folder)
    is_met = done.code == 0 and bool(files) and after == files and checked(crawl)
    printed = f"exit {done.code}; {len(files)} kernels compiled, {len(after)} after a crawl, which "
    printed += f"ends with {crawl.code}, {stat(crawl, 'dedup/dropped'):.0f} pages dropped"
    return Seen(done.command, printed, met=is_met and _TOLD not in crawl.text)


def documented(trial: Trial) -> Seen:
    """The pages on deployment and the Dockerfile name the command."""
    places = ("docs/containers.md", "docs/scrapyd.md", "docs/scrapy-cloud.md", "Dockerfile")
    lacking = [name for name in places if "dedup warmup" not in trial.text_of(name)]
    printed = f"not in {', '.join(lacking)}" if lacking else "in all of them"
    return Seen(f"grep 'dedup warmup' {' '.join(places)}", printed, met=not lacking)


def profile(trial: Trial) -> Seen:
    """Where the seconds go is written down."""
    title = "### Where the seconds of an empty cache go"
    is_met = title in trial.text_of("docs/decisions.md")
    return Seen(f"grep '{title}' docs/decisions.md", title if is_met else "none", met=is_met)


def as_fast(trial: Trial) -> Seen:
    """Texts of the installation's kernels against numba's, in turns, the best of each."""
    trial.environment.run("python", "-c", _FINGERPRINTS, cache=_NUMBA, **_COMPILE)
    own, numba = [], []
    for _ in range(3):
        for times, variables in ((own, {}), (numba, _COMPILE)):
            done = trial.environment.run("python", "-c", _FINGERPRINTS, cache=_NUMBA, **variables)
            times.append(float(done.text.splitlines()[-1]))
    ratio = min(own) / min(numba)
    printed = f"{min(own):.1f} us a page against {min(numba):.1f} by numba: {ratio:.2f}"
    return Seen("python -c '... fingerprint(text) ...'", printed, met=ratio <= SLOWER)


def startup(trial: Trial) -> Seen:
    """The benchmark, with pynndescent installed for it; away from the sources, so that what is
    installed is measured."""
    installed = trial.environment.install("pynndescent")
    if installed.code:
        return ended(installed)
    away = trial.environment.folder / "measuring"
    shutil.rmtree(away, ignore_errors=True)
    shutil.copytree(trial.environment.clone / "benchmarks", away / "benchmarks")
    done = trial.environment.run(
        "python", "-m", "benchmarks.startup", "--rounds", "2", cwd=away, seconds=1800
    )
    kernels = re.search(r"_sign_text[^\n]*\d", done.text)
    ratios = re.findall(r"│ (cold|warm) +│ ([\d.]+) +│ ([\d.]+) +│ ([\d.]+)", done.text)
    told = [f"{name} {own} / {peer} = {ratio}" for name, own, peer, ratio in ratios]
    if kernels is not None:
        told.insert(0, re.sub(r"[ │]+", " ", kernels[0]))
    is_met = done.code == 0 and kernels is not None and [one[0] for one in ratios] == _STARTS
    return Seen(done.command, "; ".join(told) or done.text[-200:], met=is_met)


POINTS = (
    Point(AREA, "first verdicts, empty cache, 12 s of CPU at the most", "57 s", cold_installed),
    Point(AREA, "the same, warm, .5 s", "", warm_installed),
    Point(AREA, "where numba compiles: empty cache, 12 s", "57 s", cold_numba),
    Point(AREA, "where numba compiles: warm, .5 s", "", warm_numba),
    Point(AREA, "compiled code as fast as before, within 5 %", "", as_fast),
    Point(AREA, "the profile is in docs/decisions.md", "", profile),
    compiles_nothing("`scrapy fetch`", "43 s", "scrapy", "fetch", "PAGE"),
    compiles_nothing("`scrapy shell`", "", "scrapy", "shell", "-c", "response.status", "PAGE"),
    compiles_nothing("`--help`", "", "scrapy", "dedup", "--help"),
    compiles_nothing(
        "a crawl without items",
        "",
        "scrapy",
        "crawl",
        "pages",
        "-a",
        "kind=nothing",
        "-a",
        "pages=data:,x",
    ),
    Point(AREA, "while compiling one line says so, and where", "silence", line_while_compiling),
    Point(AREA, "`scrapy dedup warmup` fills the cache", "no command", warmup),
    Point(AREA, "it is in the deployment pages and the Dockerfile", "", documented),
)
LAST = (Point(AREA, "`benchmarks.startup`: CPU by kernel, ratio to pynndescent", "", startup),)
