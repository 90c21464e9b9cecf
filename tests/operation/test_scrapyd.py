"""The page on scrapyd, with a real scrapyd."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from dedup_middleware import Journal, Options
from dedup_middleware.index.opening import open_index
from tests.docblocks import ROOT, blocks
from tests.operation.required import package
from tests.operation.shop import SETTINGS, make_project
from tests.operation.terminal import Terminal, shown, terminal
from tests.servers import free_port

SERVER, DEPLOY, DROPPED, STOP = range(4)
PAGE = "scrapyd.md"


@attrs.frozen
class Deployed:
    """A scrapyd with the project of the page, and what the page's commands printed."""

    terminal: Terminal
    url: str
    index: str
    printed: list[str]

    def jobs(self) -> dict[str, list[dict[str, Any]]]:
        """The jobs by their state."""
        with urllib.request.urlopen(f"{self.url}listjobs.json?project=shop", timeout=10) as answer:
            found: dict[str, list[dict[str, Any]]] = json.load(answer)
        return found

    def schedule(self, *arguments: str) -> str:
        """Run a spider; the id of the job."""
        data = "&".join(("project=shop", "spider=pages", *arguments)).encode()
        with urllib.request.urlopen(f"{self.url}schedule.json", data, timeout=10) as answer:
            return str(json.load(answer)["jobid"])

    def log(self, job: str) -> str:
        """What a job logged."""
        files = self.terminal.folder.rglob(f"{job}.log")
        return "".join(file.read_text(encoding="utf-8") for file in files)

    def wait(self, is_there: Callable[[], bool]) -> None:
        """Until something is so."""
        deadline = time.monotonic() + 120
        while not is_there():
            assert time.monotonic() < deadline, (self.terminal.folder / "server.log").read_text()
            time.sleep(0.1)

    def wait_for_end(self, job: str) -> str:
        """Until a job has ended; its log."""
        self.wait(lambda: job in {one["id"] for one in self.jobs()["finished"]})
        return self.log(job)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The page's first commands typed: a server, a project on it, and two jobs that have run."""
    package("scrapyd")
    package("scrapyd_client")
    server, project = (tmp_path_factory.mktemp(name) for name in ("server", "project"))
    port, index = free_port(), tmp_path_factory.mktemp("index") / "dedup.db"
    replaced = {"127.0.0.1:6800": f"127.0.0.1:{port}", "/var/lib/scrapyd/dedup.db": str(index)}
    (server / "scrapyd.conf").write_text(f"[scrapyd]\nhttp_port = {port}\npoll_interval = 0.2\n")
    with terminal(server, replaced) as there:
        (settings,) = (one for one in blocks(ROOT / "docs" / PAGE) if one.language == "python")
        config = (ROOT / "docs" / "examples" / "scrapyd" / "scrapy.cfg").read_text("utf-8")
        files = {"scrapy.cfg": config, "shop/settings.py": f"{SETTINGS}\n{settings.code}"}
        make_project(project, {name: there.here(text) for name, text in files.items()})
        for command in shown(PAGE)[SERVER]:
            there.type(command)
        one = Deployed(there, f"http://127.0.0.1:{port}/", f"sqlite:{index}", [])
        one.wait(lambda: _listens(one))
        here = Terminal(project, replaced)
        for command in shown(PAGE)[DEPLOY]:
            one.printed.append(here.type(command))
            if len(one.printed) > 1:
                one.wait(lambda: len(one.jobs()["finished"]) == len(one.printed) - 1)
        yield one


def _listens(one: Deployed) -> bool:
    try:
        return bool(one.jobs())
    except OSError:
        return False


def test_jobs_share_the_index(deployed: Deployed) -> None:
    """The first job stores one of two mirrors; the second one, with its own setting, keeps the
    revisit."""
    first, second = (deployed.log(job) for job in job_ids(deployed))
    assert "'dedup/new': 1," in first
    assert "'dedup/dropped': 1," in first
    assert "'dedup/new'" not in second
    assert "'dedup/revisit': 1," in second
    assert "'dedup/dropped': 1," in second
    assert f"holds no pages yet: {deployed.index}" in first


def job_ids(deployed: Deployed) -> list[str]:
    """What `scrapyd-client schedule` printed."""
    return [re.findall(r"[0-9a-f]{32}", text)[0] for text in deployed.printed[1:]]


def test_the_job_is_the_crawl_of_the_journal(deployed: Deployed) -> None:
    """The commands of the page find what the first job dropped."""
    job = job_ids(deployed)[0]
    journal = Journal(deployed.index)
    assert [drop.key for drop in journal.drops(crawls=[job])] == ["https://two.example/1"]
    here = attrs.evolve(
        deployed.terminal, servers=[], replaced={**deployed.terminal.replaced, "JOB": job}
    )
    for command in shown(PAGE)[DROPPED]:
        here.type(command)
    back = (here.folder / "back.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["url"] for line in back] == ["https://two.example/1"]
    assert (here.folder / "report.html").stat().st_size > 1000


def test_cancelled_job_gives_its_claims_back(deployed: Deployed) -> None:
    """It closes in good order, and no claim is left, though many pages were being stored."""
    job = deployed.schedule("many=1000", "setting=DEDUP_LEASE=600")
    deployed.wait(lambda: job in {one["id"] for one in deployed.jobs()["running"]})
    deployed.wait(lambda: "one.example/page-30" in deployed.log(job))
    (command,) = shown(PAGE)[STOP]
    replaced = {**deployed.terminal.replaced, "JOB": job}
    assert "TERM" not in attrs.evolve(deployed.terminal, replaced=replaced).type(command)
    log = deployed.wait_for_end(job)
    assert "Closing spider (shutdown)" in log
    assert "'dedup/claim/unresolved'" not in log
    assert asyncio.run(pending(deployed.index)) == 0


async def pending(url: str) -> int:
    """Claims that are open."""
    async with open_index(Options(index_url=url)) as index:
        await index.attach()
        return (await index.stats()).pending
