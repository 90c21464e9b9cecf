"""The package as its users get it: built, installed in a fresh environment, one settings line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.mirrors import Mirrors
from tests.once import once
from tests.test_compiled import wheel  # noqa: F401 - with kernels, as those of a release

SPIDER = """
import scrapy


class PagesSpider(scrapy.Spider):
    name = "pages"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        for link in response.css("li a::attr(href)"):
            yield response.follow(link, self.parse_page)

    def parse_page(self, response):
        yield {"url": response.url, "html": response.body}
"""


def needed_by(name: str, extras: Sequence[str], found: dict[str, None]) -> None:
    """Add a distribution, and those that it needs here by its metadata."""
    found[name] = None
    for one in map(Requirement, requires(name) or ()):
        wanted = one.marker is None or any(
            one.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        if wanted and (one.name not in found or one.extras):
            needed_by(one.name, sorted(one.extras), found)


def link(name: str, environment: Path) -> None:
    """Put an installed distribution into another environment, where its files are the same ones."""
    installed = distribution(name)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    for file in installed.files or ():
        source, target = Path(str(installed.locate_file(file))), packages / file
        if ".." not in file.parts:
            hard_link(source, target)
            if file.suffix == ".py":
                hard_link(Path(cache_from_source(source)), Path(cache_from_source(target)))
        elif file.parent.name == "bin":  # a script begins with the path of its interpreter
            _, _, text = source.read_text(encoding="utf-8").partition("\n")
            script = environment / "bin" / file.name
            script.write_text(f"#!{environment / 'bin' / 'python'}\n{text}", encoding="utf-8")
            script.chmod(0o755)


def fill(environment: Path) -> None:
    """Put all distributions that the package needs here by its metadata into another
    environment."""
    needed: dict[str, None] = {}
    needed_by("dedup-middleware", (), needed)
    for name in needed.keys() - {"dedup-middleware"}:
        with suppress(PackageNotFoundError):
            link(name, environment)


def hard_link(source: Path, target: Path) -> None:
    """Link a file if it is there, or copy it from another disk."""
    if source.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(source)
        except OSError:
            shutil.copy2(source, target)


@pytest.fixture(scope="session")
def environment(
    tmp_path_factory: pytest.TempPathFactory,
    wheel: Path,  # noqa: F811
) -> Path:
    """A virtual environment of what the wheel needs, into which pip has installed the wheel.

    To unpack once more what is installed here would take most of the time. Whether all is there
    that is needed says pip, which has no index to get it from; at the start of `make test` it
    gets everything.
    """

    def install(folder: Path) -> None:
        venv.create(folder, with_pip=find_spec("pip") is None)
        fill(folder)
        with suppress(PackageNotFoundError):
            link("pip", folder)
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index"]
        subprocess.run([*install, str(wheel)], check=True)

    return once(tmp_path_factory, "environment", install)


def test_wheel_holds_the_package_alone(wheel: Path) -> None:  # noqa: F811
    """Neither the crawler, the experiments nor the tests are shipped; scripts, data and the type
    marker are."""
    names = zipfile.ZipFile(wheel).namelist()
    roots = {name.split("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"dedup_middleware"}
    for needed in ("py.typed", "index/redis/lua/propose.lua"):
        assert f"dedup_middleware/{needed}" in names
    assert any(name.startswith("dedup_middleware/text/data/") for name in names)


def test_links_of_the_package_page_leave_no_relative_one(wheel: Path) -> None:  # noqa: F811
    """A package page holds no other file of the repository."""
    package = zipfile.ZipFile(wheel)
    (name,) = (name for name in package.namelist() if name.endswith("/METADATA"))
    page = package.read(name).decode()
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_one_line_in_another_project(environment: Path, tmp_path: Path) -> None:
    """In a fresh environment and a new project, one ADDONS line drops the second copies."""
    run = [str(environment / "bin" / "python"), "-m"]
    subprocess.run([*run, "scrapy", "startproject", "other", str(tmp_path / "other")], check=True)
    package = tmp_path / "other" / "other"
    with (package / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write('\nADDONS = {"dedup_middleware.Addon": 500}\nDOWNLOAD_DELAY = 0\n')
    (package / "spiders" / "pages.py").write_text(SPIDER, encoding="utf-8")
    with Mirrors(12, mirrors=2) as mirrors:
        feeds = [
            crawl_with([*run, "scrapy"], tmp_path / "other", url, f"{number}.jsonl")
            for number, url in enumerate(mirrors.urls)
        ]
    assert [len(feed) for feed in feeds] == [12, 0]
    shown = subprocess.run(
        [*run, "scrapy", "dedup", "stats", "--json"],
        cwd=tmp_path / "other",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["committed"] == 12


def crawl_with(scrapy: list[str], project: Path, site: str, feed: str) -> list[str]:
    """Crawl a site in a project; the lines of its feed."""
    done = subprocess.run(
        [
            *(*scrapy, "crawl", "pages", "-a", f"site={site}", "-O", f"{feed}:jsonlines"),
            *("-s", "FEED_EXPORT_FIELDS=url", "-s", "FEED_STORE_EMPTY=1"),
        ],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (project / feed).read_text(encoding="utf-8").splitlines()


def test_build_requirements_are_those_of_the_tests() -> None:
    """Tests build without isolation, so what a build needs must be installed for them."""
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    first = project.splitlines()[1]  # Python 3.10 has no parser of TOML
    assert first.startswith("requires = ")
    needed = re.findall(r'"([^"]+)"', first)
    assert len(needed) == 2
    assert all(f'    "{one}",' in project for one in needed)
