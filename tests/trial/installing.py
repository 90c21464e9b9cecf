"""Installs anywhere: the given pip, missing packages, the wheel, what a release needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.trial.points import Point, Seen, ended
from tests.trial.projects import stat
from tests.trial.trial import Trial

AREA = "install"
ENGLISH = (
    "The new library on the north side of the square will open a reading room at night from the "
    "first of next month, the district council said on Tuesday.",
    "The room has two hundred and forty seats in three areas, one of them for children, and "
    "readers will need nothing but a library card or proof of identity to get in.",
    "The librarian said that many people who work by day had written in the past six months to ask "
    "for later hours, so twelve members of staff and eight volunteers were added.",
)
# Text in so many places that the fast extraction is in doubt.
_SCATTERED = "".join(f"<div><div><span>{text}</span></div></div>" for text in ENGLISH)
DOUBTFUL = f"<body><div>{_SCATTERED}</div><div>{_SCATTERED}</div></body>"
_MISSING = 'raise ImportError("lxml_html_clean is missing")\n'


def installs(trial: Trial) -> Seen:
    """The clone, by the pip of the trial."""
    done = trial.installed
    has = trial.environment.run(
        "python", "-c", "from dedup_middleware.base import compiled; print(compiled.kernels())"
    )
    pip = trial.environment.run("python", "-m", "pip", "--version").text.split(" from ")[0]
    kernels = "compiled kernels" if "<" in has.text else "no compiled kernels"
    printed = f"{pip}: exit {done.code} in {done.seconds:.0f} s, {kernels}"
    return Seen(done.command, printed, met=done.code == 0 and has.code == 0)


def needed_by_name(trial: Trial) -> Seen:
    """What that pip does not resolve as an extra of a dependency."""
    code = "import lxml_html_clean, trafilatura; print('imported')"
    return ended(trial.environment.run("python", "-c", code), "imported")


def doubtful_pages(trial: Trial) -> str:
    """Addresses of two pages in doubt: the same text in other words of markup."""
    folder = trial.project.folder
    for number in range(2):
        (folder / f"doubtful-{number}.html").write_text(DOUBTFUL, encoding="utf-8")
    places = [(folder / f"doubtful-{number}.html").as_uri() for number in range(2)]
    return f"pages={' '.join(places)}"


def doubtful_is_checked(trial: Trial) -> Seen:
    """Of two pages in doubt with one text the second is dropped, without an ImportError."""
    project = trial.project
    done = project.crawl(project.index(), "-a", doubtful_pages(trial))
    return ended(done, "'dedup/dropped': 1", without=("ImportError", "can't be imported"))


def doubtful_without_a_package(trial: Trial) -> Seen:
    """The same where a package can't be imported: checked all the same, one warning."""
    project = trial.project
    shadow = trial.folder("shadow")
    (shadow / "lxml_html_clean.py").write_text(_MISSING)
    done = project.crawl(
        project.index(), "-a", doubtful_pages(trial), PYTHONPATH=str(shadow), seconds=600
    )
    warnings = [line for line in done.text.splitlines() if "can't be imported" in line]
    is_met = done.code == 0 and len(warnings) == 1 and stat(done, "dedup/dropped") == 1
    return Seen(done.command, "; ".join([*warnings, _dropped(done.text)]), met=is_met)


def _dropped(text: str) -> str:
    found = re.search(r"Checked \d+ pages, dropped \d+", text)
    return found[0] if found else "no summary"


def names_extra(extra: str, *command: str, code: int = 1) -> Point:
    """A command that needs a package which is not installed: its message names the extra."""

    def look(trial: Trial) -> Seen:
        project = trial.project
        for name in ("rows.jsonl", "rows.parquet", "rows.warc"):
            (project.folder / name).write_text('{"url": "a", "text": "b c d"}\n')
        index = project.index()
        if command[0] == "crawl":
            done = project.crawl(index, *command[1:])
        else:
            done = trial.environment.run(*command, cwd=project.folder)
        return ended(done, f"dedup-middleware[{extra}]", code=code, without=("Traceback",))

    return Point(AREA, f"without the extra `{extra}` its name is said", "ImportError", look)


def contains(area: str, asks: str, before: str, places: dict[str, Sequence[str]]) -> Point:
    """Files of the clone that hold some texts."""

    def look(trial: Trial) -> Seen:
        lacking = [
            f"{text!r} is not in {name}"
            for name, texts in places.items()
            for text in texts
            if text not in trial.text_of(name)
        ]
        printed = "; ".join(lacking) or "all is there"
        return Seen(f"grep ... {' '.join(places)}", printed, met=not lacking)

    return Point(area, asks, before, look)


def plain_wheel(trial: Trial) -> Seen:
    """A wheel of Python alone is built and installed where PATH has no compiler."""
    environment = trial.environment
    out = environment.folder / "wheel"
    done = environment.run(
        *("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out)),
        str(environment.clone),
        PATH=str(environment.bin),
        DEDUP_SHIP_KERNELS="0",
    )
    wheels = [file.name for file in out.glob("*.whl")]
    into = environment.folder / "plain"
    command = ("python", "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target")
    installed = environment.run(
        *command, str(into), *map(str, out.glob("*.whl")), PATH=str(environment.bin)
    )
    is_met = done.code == installed.code == 0 and all("py3-none-any" in one for one in wheels)
    return Seen(done.command, ", ".join(wheels) or done.text[-200:], met=is_met and bool(wheels))


def wheels_of_dependencies(where: str, *platforms: str) -> Point:
    """Every compiled dependency has a wheel for a platform, under one of its names."""

    def look(trial: Trial) -> Seen:
        needed = "numpy numba llvmlite lxml hiredis resiliparse cryptography".split()
        done = trial.environment.run(
            *("python", "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"),
            *("--only-binary=:all:", "--python-version=3.12"),
            *(f"--platform={one}" for one in platforms),
            *("--target", str(trial.environment.folder / "nowhere"), *needed),
        )
        return ended(done, "Would install")

    return Point(AREA, f"wheels of the dependencies for {where}", "", look)


def package_page(trial: Trial) -> Seen:
    """`make dist` builds source and wheel, which twine accepts."""
    environment = trial.environment
    done = environment.run(
        "make", "dist", f"PYTHON={environment.python}", cwd=environment.clone, seconds=1200
    )
    return ended(done, "PASSED", without=("WARNING", "FAILED"))


def project_urls(trial: Trial) -> Seen:
    """The installed package names its documentation."""
    code = (
        "from importlib.metadata import metadata as m; "
        "print(m('dedup-middleware').get_all('Project-URL'))"
    )
    return ended(trial.environment.run("python", "-c", code), "Documentation, https://")


POINTS = (
    Point(AREA, "`pip install` of a checkout", "", installs),
    Point(AREA, "packages needed by name", "`lxml[html_clean]` not resolved", needed_by_name),
    Point(AREA, "pages in doubt are checked", "1 or 2 of 40 unchecked", doubtful_is_checked),
    Point(
        AREA,
        "an ImportError inside extraction: the fast body, one warning",
        "unchecked",
        doubtful_without_a_package,
    ),
    names_extra("parquet", "scrapy", "dedup", "files", "rows.parquet", "-o", "out.jsonl"),
    names_extra("warc", "scrapy", "dedup", "files", "rows.warc", "-o", "out.jsonl"),
    names_extra("metrics", "crawl", "-s", "DEDUP_METRICS_PORT=9321"),
    names_extra("traditional", "crawl", "-s", "DEDUP_FOLD_TRADITIONAL=1"),
    names_extra("spark", "scrapy", "dedup", "spark", "rows.jsonl", "-o", "out"),
    contains(AREA, "a test installs with that pip", "none", {"noxfile.py": ("pip==23.2.1",)}),
    contains(
        AREA,
        "a session each: Pythons, lowest bounds, Scrapy's master; `make test-matrix`",
        "none",
        {
            "noxfile.py": ('"3.10"', '"3.14"', '"3.15"', "def lowest", "scrapy-master"),
            "Makefile": ("test-matrix:",),
            "CONTRIBUTING.md": ("make test-matrix",),
        },
    ),
    Point(AREA, "the plain wheel needs no compiler", "", plain_wheel),
    wheels_of_dependencies("aarch64", *(f"manylinux_2_{n}_aarch64" for n in (28, 27, 24, 17))),
    wheels_of_dependencies("macOS", *(f"macosx_{n}_0_arm64" for n in (14, 13, 12, 11))),
    contains(AREA, "which platforms is stated", "", {"docs/limits.md": ("aarch64", "macOS")}),
    Point(AREA, "`[project.urls]`", "none", project_urls),
    Point(AREA, "builds, `twine check`", "none", package_page),
    contains(
        AREA,
        "Read the Docs, release with trusted publishing, CI",
        "none",
        {
            ".readthedocs.yaml": ("sphinx:",),
            ".github/workflows/release.yml": ("make dist", "id-token: write", "gh-action-pypi"),
            ".github/workflows/ci.yml": (".ci/run",),
        },
    ),
)
