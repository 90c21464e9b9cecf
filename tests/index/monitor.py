"""Checks by the server's MONITOR which keys scripts touch, and which of these they have
declared."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from types import TracebackType

import attrs

from tests.servers import RedisServer

_WORDS = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_LUA = re.compile(rb"^\+?[\d.]+ \[\d+ lua\] ")
_EVAL = frozenset({b"eval", b"evalsha"})
_ONE_KEY = frozenset(
    b"get set append getrange setrange strlen incrby decrby hget hmget hset hsetnx hdel hkeys "
    b"hgetall hlen".split()
)
_MANY_KEYS = frozenset(b"exists del unlink".split())
_NO_KEY = frozenset({b"time"})


@attrs.define
class Touched:
    """The number of scripts seen, the commands inside them, and the faults found."""

    scripts: int = 0
    commands: Counter[bytes] = attrs.field(factory=Counter)
    wrong: set[str] = attrs.field(factory=set)


def keys_of(words: list[bytes]) -> list[bytes]:
    """Keys of a command that a script calls.

    :raises ValueError: a command that is not known here
    """
    name = words[0].lower()
    if name in _NO_KEY:
        return []
    if name in _ONE_KEY:
        return words[1:2]
    if name in _MANY_KEYS:
        return words[1:]
    if name == b"memory":
        return words[2:3]
    raise ValueError(f"a script calls {name!r}")


def read_lines(lines: list[bytes], touched: Touched) -> None:
    """Compare what scripts touch with what they declare.

    The server lists a script just before the commands that it calls.
    """
    declared: list[bytes] = []
    script = b""
    for line in lines:
        words = _WORDS.findall(line)
        if not words:
            continue
        if _LUA.match(line):
            touched.commands[words[0].lower()] += 1
            for key in keys_of(words):
                if key not in declared:
                    touched.wrong.add(f"{words[0]!r} {key!r} in script {script[:60]!r}")
        elif words[0].lower() in _EVAL:
            touched.scripts += 1
            script, count = words[1], int(words[2])
            declared = words[3 : 3 + count]
            tags = {key[key.find(b"{") : key.find(b"}") + 1] for key in declared}
            if len(tags) > 1 or tags & {b""}:
                touched.wrong.add(f"the keys of script {script[:60]!r} have the tags {tags}")
        else:
            declared = []


class Monitor:
    """Listens to what a server does, in a thread of its own."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", server.port), 10)
        self._data = b""
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._is_over = threading.Event()

    def __enter__(self) -> Monitor:
        self._socket.sendall(b"MONITOR\r\n")
        assert self._socket.recv(5) == b"+OK\r\n"
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(120)
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_over.is_set():
            piece = self._socket.recv(1 << 16)
            if not piece:
                return
            self._data += piece
            if b'"the end of the test"' in self._data[-(1 << 17) :]:
                self._is_over.set()

    def lines(self) -> list[bytes]:
        """Return what the server has done so far."""
        with self._server.client() as client:
            client.echo("the end of the test")
        assert self._is_over.wait(60)
        return self._data.split(b"\r\n")
