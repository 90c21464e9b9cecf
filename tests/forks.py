"""Python programs that are forked from a process that has loaded Scrapy and the package.

An interpreter that starts `scrapy crawl` imports for a second of processor time, and tests start a
hundred. A child is a process of its own, with its own environment, folder, output, signals, reactor
and connections; it shares code that its parent has loaded (`tests/torture/preload.py`).
Options of the interpreter in the environment (``PYTHONWARNINGS`` and the like) have no effect, and
``atexit`` runs nothing. Tests of what a start imports, compiles or prints start an interpreter, and
so do scripts of the documentation, which must import all that they use.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.torture.start import IS_PARENT, fork_context


def _run(
    arguments: Sequence[str], cwd: str, env: Mapping[str, str], stdout: str, stderr: str
) -> None:
    """Do what an interpreter started with these arguments does."""
    os.environ.clear()
    os.environ.update(env)
    os.environ.pop(IS_PARENT, None)
    os.chdir(cwd)
    for number, path in ((1, stdout), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, cwd)
    way, what, *rest = arguments
    sys.argv = [what if way == "-m" else way, *rest]
    if way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        assert way == "-c", way
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


class Forked:
    """A running program, as `subprocess.Popen` is one.

    :param arguments: of the interpreter: ``-m`` and a module or ``-c`` and code, and their own
    :param stdout: file that takes the output, behind what it holds
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: Path,
        stderr: Path,
    ) -> None:
        given = (list(arguments), str(cwd), dict(env), str(stdout), str(stderr))
        self._process: BaseProcess = fork_context().Process(target=_run, args=given, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once there is one.

        :raises TimeoutError: it runs for longer than so many seconds
        """
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise TimeoutError(f"process {self.pid} goes on")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it wrote is text.

    :raises subprocess.TimeoutExpired: it takes longer; it is killed
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = Forked(arguments, cwd=cwd, env=env, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except TimeoutError:
            code = None
        finally:
            process.kill()
        written = [file.read_text() if file.exists() else "" for file in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout, *written)
    return subprocess.CompletedProcess(list(arguments), code, *written)
