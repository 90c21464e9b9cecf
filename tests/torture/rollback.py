"""Takes a Redis server back to an older state, as a crash or a restored backup does."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

from tests.servers import RedisServer

_KEPT = 6  # snapshots

# Snapshots only on request.
BY_SNAPSHOT = ("--save", "")
BY_LOG = ("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")


class Snapshots:
    """A server without a log that is started again from one of its older snapshots, or empty.

    :param folder: where the server keeps its files
    :ivar done: how often what was done
    """

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._server = server
        self._file = folder / "dump.rdb"
        self._snapshots = folder / "snapshots"
        self._snapshots.mkdir()
        self._count = 0
        self.done: Counter[str] = Counter()

    def strike(self, rng: random.Random) -> None:
        """Take a snapshot, go back to one, or lose everything."""
        older = sorted(self._snapshots.iterdir())
        dice = rng.random()
        if dice < 0.4 or not older:
            with self._server.client() as client:
                client.save()
            self._count += 1
            shutil.copy(self._file, self._snapshots / f"{self._count:06}")
            for path in older[: -_KEPT + 1]:
                path.unlink()
            self.done["snapshot"] += 1
            return
        self._server.kill()
        if dice < 0.93:
            shutil.copy(rng.choice(older), self._file)
            self.done["rolled back"] += 1
        else:
            self._file.unlink(missing_ok=True)
            self.done["emptied"] += 1
        self._server.start()


class CutLog:
    """A server whose append-only file loses its end, at any byte.

    :param folder: where the server keeps its files
    :ivar done: how often what was done
    """

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.done: Counter[str] = Counter()

    def strike(self, rng: random.Random) -> None:
        """Cut off up to a third of what was written."""
        self._server.kill()
        files = [path for path in self._folder.rglob("*.aof") if path.stat().st_size]
        if files:
            path = max(files, key=lambda path: path.stat().st_size)
            size = path.stat().st_size
            with path.open("r+b") as log:
                log.truncate(size - int(size * rng.random() ** 3 / 3))
            self.done["rolled back"] += 1
        self._server.start()
