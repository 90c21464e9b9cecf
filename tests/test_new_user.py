"""The path of a new user: the tutorial, done as it is written, in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from tests.docblocks import ROOT, Block, Command, blocks, commands, file_name, missing
from tests.report.conftest import chrome, downloads  # noqa: F401
from tests.report.driving import is_saved, until
from tests.report.opening import open_report
from tests.servers import free_port
from tests.test_sharing import HASH_KEY
from tests.test_wheel import environment, wheel  # noqa: F401

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TUTORIAL = ROOT / "docs" / "tutorial.md"
PORT = "8000"
EXIT_CODES = {"scrapy dedup check": 3}
JUDGING = "python -m dedup_middleware.evaluation"


@attrs.define
class User:
    """Somebody with an empty folder and a fresh environment, who does what the tutorial says.

    The environment has what the tutorial's ``pip install`` installs; the command is run again.

    ``printed`` is what each command wrote.
    """

    folder: Path
    environment: Path
    wheel: Path
    port: int
    chrome: Chrome
    downloads: Path
    printed: dict[str, str] = attrs.field(factory=dict)
    servers: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def follow(self, block: Block) -> None:
        """Save a file, or type commands."""
        if block.language == "python":
            name = file_name(block)
            assert name is not None, f"{block}: the first line names the file"
            self.save(name, self.mine(block.code))
        else:
            assert block.language == "console", f"{block}: {block.language}"
            for command in commands(block):
                self.type(command)

    def mine(self, text: str) -> str:
        """A text with the port that is free here, and the place where this browser saves."""
        return text.replace(PORT, str(self.port)).replace("~/Downloads", str(self.downloads))

    def save(self, name: str, code: str) -> None:
        """Write a file; settings are added to existing ones, with a fixed hash key."""
        is_settings = name.endswith("settings.py")
        with (self.folder / name).open("a" if is_settings else "x") as file:
            file.write(f"\n{code}")
            if is_settings:
                file.write(f'\nDEDUP_HASH_KEY = "{HASH_KEY}"\n')

    def type(self, command: Command) -> None:
        """Run a command: it ends as it should, and prints what the tutorial shows."""
        text = self.mine(command.text)
        if text.startswith("cd "):
            self.folder /= text.removeprefix("cd ")
        elif text.endswith(" &"):
            self.serve(text.removesuffix(" &"))
        else:
            if text == "pip install dedup-middleware":
                text = f"python -m pip install --quiet {self.wheel}"
            if text.startswith(JUDGING):
                self.judge()
            done = self.run(text)
            expected = next((c for start, c in EXIT_CODES.items() if text.startswith(start)), 0)
            assert done.returncode == expected, f"{text}\n{done.stdout}"
            lacking = missing(tuple(map(self.mine, command.output)), done.stdout)
            assert lacking is None, f"{text}: no line {lacking!r} in\n{done.stdout}"
            self.printed[command.text] = done.stdout

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run in the environment, and in nothing else."""
        return subprocess.run(
            text,
            shell=True,
            cwd=self.folder,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def variables(self) -> dict[str, str]:
        """Environment variables: the commands of the environment come first."""
        kept = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "COLUMNS": "200"}

    def serve(self, text: str) -> None:
        """Start a server and wait until it listens."""
        self.servers.append(
            subprocess.Popen(
                text.split(), cwd=self.folder, env=self.variables(), stderr=subprocess.DEVNULL,
                executable=shutil.which(text.split(maxsplit=1)[0], path=self.variables()["PATH"]),
            )
        )  # fmt: skip
        deadline = time.monotonic() + 600
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    def judge(self) -> None:
        """Open the report, call the first pair duplicates and the second not, and export."""
        open_report(self.chrome, self.folder / "report.html")
        self.chrome.execute_script("location.hash = 'review'")
        until(self.chrome, lambda d: d.find_elements(By.ID, "export"))
        for key in "dk":
            ActionChains(self.chrome).send_keys(key).perform()
        self.chrome.find_element(By.ID, "export").click()
        until(self.chrome, lambda _: is_saved(self.downloads / "pairs.jsonl"))


@pytest.fixture(scope="module")
def user(
    wheel: Path,  # noqa: F811
    environment: Path,  # noqa: F811
    chrome: Chrome,  # noqa: F811
    downloads: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[User]:
    """A user who has followed the tutorial to its end."""
    folder = tmp_path_factory.mktemp("user")
    one = User(folder, environment, wheel, free_port(), chrome, downloads)
    try:
        for block in blocks(TUTORIAL):
            one.follow(block)
        yield one
    finally:
        (downloads / "pairs.jsonl").unlink(missing_ok=True)
        for server in one.servers:
            server.kill()
            server.wait()


def lines(file: Path) -> list[dict[str, object]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def numbers(file: Path) -> list[int]:
    """The stories in a feed, by the addresses of its pages."""
    return sorted(int(re.findall(r"(\d+)\.html", str(item["url"]))[0]) for item in lines(file))


def test_tutorial_works_as_written(user: User) -> None:
    """Every file is saved and every command typed in its order; each prints what is shown."""
    typed = [command.text for block in blocks(TUTORIAL) for command in shown(block)]
    assert [text for text in typed if text in user.printed] == list(user.printed)
    assert len(user.printed) > 8


def shown(block: Block) -> list[Command]:
    """The commands of a block, if it has any."""
    return commands(block) if block.language == "console" else []


def test_each_story_is_stored_once(user: User) -> None:
    """The first site's stories, then the two of the second one and the one of other figures."""
    assert numbers(user.folder / "one.jsonl") == list(range(10))
    assert numbers(user.folder / "two.jsonl") == [7, 8, 9]
    stored = lines(user.folder / "two.jsonl")[0]
    assert str(stored["title"]).startswith("Story")
    assert "visitors had come." in str(stored["text"])


def test_dropped_page_is_back(user: User) -> None:
    """The page's item is there with its text, and the index knows it under its own key."""
    (item,) = lines(user.folder / "back.jsonl")
    address = user.mine("http://localhost:8000/6.html")
    assert item["url"] == address
    assert len(str(item["text"])) > 1000
    said = json.loads(user.run(f"scrapy dedup check {address} --json").stdout)
    assert (said["outcome"], said["match"]["key"]) == ("revisit", address)


def test_second_crawl_stores_nothing(user: User) -> None:
    """What was stored is known; what was dropped is dropped again."""
    again = "scrapy crawl pages -O again.jsonl -s DOWNLOAD_DELAY=0 -s FEED_STORE_EMPTY=1 -L ERROR"
    done = user.run(f"{again} -a site=http://localhost:{user.port}/")
    assert done.returncode == 0, done.stdout
    assert numbers(user.folder / "again.jsonl") == []


def test_report_is_about_this_crawl(user: User) -> None:
    """Its overview counts both crawls: twenty pages seen, seven dropped."""
    open_report(user.chrome, user.folder / "report.html")
    figures = [e.text for e in user.chrome.find_elements(By.CSS_SELECTOR, "dl.figures dd")]
    assert figures[:3] == ["20", "13", "7"]
    assert user.chrome.get_log("browser") == []
