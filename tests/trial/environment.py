"""A fresh clone, a new virtual environment, and a home without anything in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent.parent
NEWEST = "newest"
# Which package index pip uses, and with which certificates, is the machine's affair.
_NETWORK = ("PIP_", "SSL_", "REQUESTS_")
_PROXIES = re.compile("(https?|no)_proxy", re.IGNORECASE)
# A time, a level and a name stand before what Scrapy logs.
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?=\[)", re.MULTILINE)


@attrs.frozen
class Done:
    """A command that has ended.

    :param text: what it wrote on both streams
    :param seconds: by the clock
    :param cpu: seconds of processor time, with its children
    :param peak: megabytes that it or a child of it held at the most
    """

    command: str
    code: int
    text: str
    seconds: float
    cpu: float
    peak: float


class Running:
    """A command that was started; what it writes is in a file.

    :param command: how it is shown
    :param log: the file
    """

    def __init__(
        self,
        arguments: Sequence[str],
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
    ) -> None:
        self._command, self._log, self._begun = command, log, time.monotonic()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                list(arguments),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        """What it has written so far."""
        return _STAMP.sub("", self._log.read_text(encoding="utf-8", errors="replace"))

    def await_text(self, text: str, seconds: float = 120) -> None:
        """Wait until it has written something.

        :raises TimeoutError: it has not by then, or has ended
        """
        deadline = time.monotonic() + seconds
        while text not in self.text:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None or time.monotonic() > deadline:
                if ended is None:
                    self.kill()
                raise TimeoutError(f"{self._command}: no {text!r} in {self.text[-500:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, with its children."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, seconds: float) -> Done:
        """Wait for its end; it is killed when it takes longer, and its code is -9."""
        deadline = time.monotonic() + seconds
        peak = 0.0
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        while pid == 0:
            peak = peak_of(self._process.pid) or peak
            if time.monotonic() > deadline:
                self.kill()
            try:
                time.sleep(0.02)
            except KeyboardInterrupt:
                self.kill()
                raise
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        return Done(
            self._command,
            code,
            self.text,
            time.monotonic() - self._begun,
            used.ru_utime + used.ru_stime,
            peak or used.ru_maxrss / 1024,
        )


def peak_of(pid: int) -> float | None:
    """The most memory that a process has used since its program began, in megabytes; None: it is
    not known. ``ru_maxrss`` is at least what the process had that started it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else None


@attrs.define(eq=False)
class Environment:
    """Where a new user works.

    :param folder: holds all of it
    :param python: the interpreter that makes the virtual environment
    :param pip: a version, or ``newest``
    """

    folder: Path
    python: Path
    pip: str
    _runs: int = attrs.field(init=False, default=0)

    @property
    def clone(self) -> Path:
        """The clone of this repository, at the commit that is checked out here."""
        return self.folder / "clone"

    @property
    def bin(self) -> Path:
        """Where the commands of the virtual environment are."""
        return self.folder / "venv" / "bin"

    def make(self) -> None:
        """Make it, or use what an earlier run has left in the folder."""
        if (self.folder / "made").exists():
            return
        if self.folder.exists():
            shutil.rmtree(self.folder)
        for name in ("home", "tmp", "logs"):
            (self.folder / name).mkdir(parents=True)
        self._check("git", "clone", "--quiet", str(ROOT), str(self.clone))
        self._check(str(self.python), "-m", "venv", str(self.bin.parent))
        wanted = ("--upgrade", "pip") if self.pip == NEWEST else (f"pip=={self.pip}",)
        self._check("python", "-m", "pip", "install", "--quiet", *wanted)
        (self.folder / "made").touch()

    def _check(self, *arguments: str) -> None:
        done = self.run(*arguments)
        if done.code:
            raise RuntimeError(f"{done.command}: {done.text}")

    def variables(self, cache: str = "cache") -> dict[str, str]:
        """The environment variables: nothing of this process but the network's.

        :param cache: name of the folder with all caches, empty unless it was used before
        """
        caches = self.folder / cache
        caches.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_NETWORK) or _PROXIES.fullmatch(name)
        }
        return kept | {
            "PATH": f"{self.bin}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CACHE_HOME": str(caches / "xdg"),
            "NUMBA_CACHE_DIR": str(caches / "numba"),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
        }

    def begin(
        self,
        *arguments: str,
        cwd: Path | None = None,
        cache: str = "cache",
        **variables: str,
    ) -> Running:
        """Start a command, of the virtual environment if that has it."""
        env = self.variables(cache) | variables
        program = shutil.which(arguments[0], path=env["PATH"]) or arguments[0]
        self._runs += 1
        return Running(
            [program, *arguments[1:]],
            self.shown(shlex.join([*(f"{k}={v}" for k, v in variables.items()), *arguments])),
            cwd=cwd or self.folder,
            env=env,
            log=self.folder / "logs" / f"{self._runs}.txt",
        )

    def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        cache: str = "cache",
        seconds: float = 900,
        **variables: str,
    ) -> Done:
        """Run a command to its end."""
        return self.begin(*arguments, cwd=cwd, cache=cache, **variables).wait(seconds)

    def install(self, *wanted: str) -> Done:
        """``pip install`` of packages."""
        return self.run("python", "-m", "pip", "install", "--quiet", *wanted, seconds=1800)

    def shown(self, text: str) -> str:
        """A text with this folder left out of its paths."""
        return text.replace(str(self.folder), "~")
