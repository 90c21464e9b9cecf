"""The tutorial to the letter, with times, and what the documentation says."""

from __future__ import annotations

import re
import time

import attrs

from tests.docblocks import Command, blocks, pages
from tests.report.browser import chromium
from tests.servers import free_port
from tests.test_new_user import TUTORIAL, User
from tests.trial.installing import contains
from tests.trial.points import Point, Seen
from tests.trial.trial import Trial

AREA = "tutorial"
INSTALL = "pip install dedup-middleware"
TEMPLATE = "\nADDONS = {}\n"


@attrs.define
class Follower(User):
    """A user in the environment of the trial, who notes how long each command takes.

    ``outside`` are the environment variables of the trial.
    """

    outside: dict[str, str] = attrs.field(factory=dict)
    seconds: dict[str, float] = attrs.field(factory=dict)

    def variables(self) -> dict[str, str]:
        """Nothing of this process."""
        return self.outside

    def type(self, command: Command) -> None:
        """Run a command, but for the installation: the trial has done and timed it."""
        if command.text == INSTALL:
            return
        begun = time.monotonic()
        super().type(command)
        self.seconds[command.text] = time.monotonic() - begun

    def save(self, name: str, code: str) -> None:
        """Write a file; in the settings the line of the template is replaced."""
        file = self.folder / name
        if name.endswith("settings.py"):
            text = file.read_text(encoding="utf-8")
            assert TEMPLATE in text, f"the template has no line {TEMPLATE.strip()}"
            file.write_text(text.replace(TEMPLATE, "\n"), encoding="utf-8")
        super().save(name, code)


def tutorial(trial: Trial) -> Seen:
    """Every file saved, every command typed; each prints what is shown."""
    folder = trial.folder("tutorial")
    downloads = trial.folder("downloads")
    environment = trial.environment
    with chromium(downloads) as chrome:
        user = Follower(
            folder,
            environment.bin.parent,
            environment.clone,
            free_port(),
            chrome,
            downloads,
            outside=environment.variables("tutorial"),
        )
        try:
            for block in blocks(TUTORIAL):
                user.follow(block)
        finally:
            for server in user.servers:
                server.kill()
                server.wait()
    times = {"pip install": trial.installed.seconds, **user.seconds}
    slowest = sorted(times, key=times.__getitem__, reverse=True)[:6]
    told = ", ".join(f"{name[:24]} {times[name]:.1f} s" for name in slowest)
    whole = sum(times.values())
    return Seen("docs/tutorial.md", f"{len(times)} commands in {whole:.0f} s: {told}", met=True)


def links_have_texts(_: Trial) -> Seen:
    """No page of the documentation has a link without a text, which only Sphinx would fill."""
    empty = [page.name for page in pages() if re.search(r"(?<!!)\[\]\(", page.read_text())]
    return Seen(r"grep '\[\](' docs/*.md README.md", ", ".join(empty) or "none", met=not empty)


POINTS = (
    Point(AREA, "the tutorial, copied to the letter", "", tutorial),
    contains(
        AREA,
        "it says what the template holds, what takes long, what JSON can't hold",
        "not said",
        {
            "docs/tutorial.md": (
                "the template has the line `ADDONS = {}`. Replace it",
                "which takes 10 to 60 seconds",
                "JSON can't hold `bytes`",
            )
        },
    ),
    Point(AREA, "no link without a text", "", links_have_texts),
    contains(
        AREA,
        "why `DEDUP_REVISIT` drops by default",
        "",
        {"docs/decisions.md": ("### A revisit is dropped by default",)},
    ),
    contains(
        AREA,
        "feed failures are documented; GBK; the remote control",
        "not said",
        {
            "docs/troubleshooting.md": ("## The feed is empty", "Yield `response.body`"),
            "docs/limits.md": ("feed",),
            "docs/security.md": ("## Scrapy's remote control",),
        },
    ),
)
