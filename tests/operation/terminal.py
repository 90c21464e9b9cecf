"""Types the commands of a page of the documentation."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tests.docblocks import ROOT, Command, blocks, commands

ENVIRONMENT = Path(sys.executable).parent


def shown(page: str) -> list[list[Command]]:
    """The commands of each console block of a page."""
    return [
        commands(block) for block in blocks(ROOT / "docs" / page) if block.language == "console"
    ]


@attrs.define
class Terminal:
    """A shell with the programs of this environment first on PATH.

    :param folder: where commands run
    :param replaced: words of the page, and what they are here
    """

    folder: Path
    replaced: Mapping[str, str]
    servers: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def here(self, text: str) -> str:
        """A text of the page with what is different here."""
        for word, other in self.replaced.items():
            text = text.replace(word, other)
        return text

    def type(self, command: Command) -> str:
        """Run a command, which must end well; what it printed. ``&`` starts a server."""
        text = self.here(command.text)
        variables = {
            **os.environ,
            "PATH": f"{ENVIRONMENT}{os.pathsep}{os.environ['PATH']}",
        }
        if text.startswith("pip install "):
            return ""
        if text.endswith(" &"):
            with (self.folder / "server.log").open("ab") as log:
                self.servers.append(
                    subprocess.Popen(
                        [ENVIRONMENT / text.removesuffix(" &")],
                        cwd=self.folder, env=variables, stdout=log, stderr=log,
                    )
                )  # fmt: skip
            return ""
        done = subprocess.run(
            text, shell=True, cwd=self.folder, env=variables, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout


@contextlib.contextmanager
def terminal(folder: Path, replaced: Mapping[str, str]) -> Iterator[Terminal]:
    """A shell whose servers are ended at the end."""
    one = Terminal(folder, replaced)
    try:
        yield one
    finally:
        for server in one.servers:
            server.terminate()
            server.wait(30)
