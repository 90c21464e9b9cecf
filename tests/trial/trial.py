"""What all points of a trial share: the environment, the pages, the project, and servers."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import attrs

from crawler.sample_site.server import SampleSite
from tests.trial.environment import Done, Environment
from tests.trial.projects import Project, ten_pages


class Trial:
    """Things that are made when the first point needs them.

    :param pages: addresses of the ten pages
    """

    def __init__(self, environment: Environment, pages: list[str]) -> None:
        self.environment = environment
        self.pages = pages

    @cached_property
    def installed(self) -> Done:
        """The installation of the package from the clone, by this run or by an earlier one."""
        kept = self.environment.folder / "installed.json"
        if kept.exists():
            return Done(**json.loads(kept.read_text()))
        done = self.environment.install(str(self.environment.clone))
        if not done.code:
            kept.write_text(json.dumps(attrs.asdict(done)))
        return done

    @cached_property
    def project(self) -> Project:
        """The user's own project."""
        return Project(self.environment, self.pages)

    def text_of(self, name: str) -> str:
        """A file of the clone."""
        return (self.environment.clone / name).read_text(encoding="utf-8")

    def folder(self, name: str) -> Path:
        """A new folder for the files of a server."""
        return Path(tempfile.mkdtemp(prefix=name, dir=self.environment.folder / "tmp"))


@contextlib.contextmanager
def opened(environment: Environment) -> Iterator[Trial]:
    """A trial while the pages are served."""
    with SampleSite(lag=0) as site:
        yield Trial(environment, ten_pages(site))
