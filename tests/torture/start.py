"""Starts the processes of a run, forked or fresh, and ends them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.torture.task import Task

ROOT = Path(__file__).parent.parent.parent
WORKERS, SCRAPY = "workers", "scrapy"
IS_PARENT = "TORTURE_PRELOAD"  # set in the environment of the process that others are forked from


def _run(kind: str, task: Task) -> None:
    """Entry point of a forked process."""
    from tests.torture import children

    (children.crawl if kind == SCRAPY else children.work)(task)


def fork_context() -> ForkServerContext:
    """The parent of all forked processes; it is started with the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.torture.preload"])
    os.environ[IS_PARENT] = "1"
    return context


class Life(ABC):
    """One process from its start to its end.

    :ivar number: of the process; another one for each start
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.stopped = False  # it was, at some time
        self.killed = False

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of the process."""

    @abstractmethod
    def exit_code(self) -> int | None:
        """None while it runs."""

    @abstractmethod
    def _kill(self) -> None:
        """End it with SIGKILL."""

    def kill(self) -> bool:
        """End it at once; False if it had come to its end already."""
        if self.exit_code() is not None:
            return False
        self._kill()
        self.killed = self.exit_code() == -signal.SIGKILL
        return self.killed

    def stop(self) -> None:
        """Let it stand still."""
        self.stopped = True
        os.kill(self.pid, signal.SIGSTOP)

    def show_where(self) -> None:
        """Let it write into its log what it is doing."""
        if self.exit_code() is None and isinstance(self, Forked):
            os.kill(self.pid, signal.SIGUSR1)
            if self._kind == WORKERS:
                os.kill(self.pid, signal.SIGUSR2)

    def go_on(self) -> None:
        """Let it go on."""
        if self.exit_code() is None:
            os.kill(self.pid, signal.SIGCONT)


class Forked(Life):
    """A child of the process that has loaded everything."""

    def __init__(self, context: ForkServerContext, kind: str, task: Task) -> None:
        super().__init__(task.process)
        self._kind = kind
        self._process: BaseProcess = context.Process(target=_run, args=(kind, task), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    def exit_code(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def _kill(self) -> None:
        self._process.kill()
        self._process.join()


class Fresh(Life):
    """``python -m scrapy crawl tortured``, as a user starts it."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.process)
        settings = [f"{name}={value}" for name, value in task.crawl_settings.items()]
        given = [part for setting in settings for part in ("-s", setting)]
        with (Path(task.folder) / f"log-{task.slot}").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "crawl", "tortured", *given],
                cwd=ROOT,
                env={**os.environ, "SCRAPY_SETTINGS_MODULE": "tests.torture.project"},
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        return self._process.poll()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()
