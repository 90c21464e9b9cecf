"""Steps of a job that are written down, so that a job that was ended goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedup_middleware.spark.job_settings import SparkError

_DONE = "_SUCCESS"  # Spark writes it when all files of a table are in their place
_STATE = "job.json"

Note = Callable[[str], None]


@attrs.frozen
class Stages:
    """Tables of one job under one folder.

    :param note: called with the name of each stage that begins
    """

    session: SparkSession
    folder: str
    note: Note
    # Of tables made or read before: to ask a file for its schema is a job of its own.
    _schemas: dict[str, StructType] = attrs.field(factory=dict, init=False)

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.folder.rstrip('/')}/{name}"

    def table(
        self, name: str, make: Callable[[], DataFrame], settings: dict[str, str] | None = None
    ) -> DataFrame:
        """A table, made and written unless that is done already.

        Spark moves its files into place at the end: an incomplete table is made again.

        :param settings: of the session, while it is made
        """
        path = self.path(name)
        if not exists(self.session, f"{path}/{_DONE}"):
            before = {key: self.session.conf.get(key, None) for key in settings or ()}
            try:
                for key, value in (settings or {}).items():
                    self.session.conf.set(key, value)
                table = make()  # makes the tables before it, if need be
                self.note(name)
                table.write.mode("overwrite").parquet(path)
                self._schemas[name] = table.schema
            finally:
                for key, old in before.items():
                    if old is None:
                        self.session.conf.unset(key)
                    else:
                        self.session.conf.set(key, old)
        if name not in self._schemas:
            self._schemas[name] = self.session.read.parquet(path).schema
        return self.session.read.schema(self._schemas[name]).parquet(path)

    def local_files(self, name: str) -> list[Path] | None:
        """The Parquet files of a table that is written, in the order of its partitions; None: Spark
        or the folder is not on this machine."""
        files, found = _file_system(self.session, self.path(name))
        of_cluster = not self.session.sparkContext.master.startswith("local")
        if of_cluster or files.getUri().getScheme() != "file":
            return None
        folder = Path(str(files.makeQualified(found).toUri().getPath()))
        # With LC_ALL=C Java writes letters beyond ASCII otherwise, so that none is found here.
        return sorted(folder.glob("part-*.parquet")) or None

    def rows(self, name: str) -> int:
        """Rows of a table that is written."""
        files = self.local_files(name)
        if files is None:
            return int(
                self.session.read.schema(self._schemas[name]).parquet(self.path(name)).count()
            )
        # A job of Spark takes a quarter of a second to count them.
        return sum(pq.read_metadata(file).num_rows for file in files)

    def begin(self, fingerprint: str) -> None:
        """Take the folder for a job.

        :raises SparkError: it holds another job, or something else
        """
        path = self.path(_STATE)
        if exists(self.session, path):
            try:
                if json.loads(read_bytes(self.session, path)) == {"job": fingerprint}:
                    return
            except ValueError:
                raise SparkError(
                    f"output={self.folder!r} can't be used: its {_STATE} is damaged, so it "
                    "is not known whose result it holds; name another folder, or remove it"
                ) from None
            raise SparkError(
                f"output={self.folder!r} can't be used: it holds the result of another input or "
                "of other options; name another folder, or remove it"
            )
        files, found = _file_system(self.session, self.folder)
        if files.exists(found) and len(files.listStatus(found)):
            raise SparkError(
                f"output={self.folder!r} can't be used: the folder is not empty; name another one"
            )
        write_text(self.session, path, json.dumps({"job": fingerprint}))


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    virtual_machine: Any = session._jvm
    found = virtual_machine.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), found


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is a file or folder, on any file system that Spark supports."""
    files, found = _file_system(session, path)
    return bool(files.exists(found))


def read_bytes(session: SparkSession, path: str, most: int = 1 << 20) -> bytes:
    """The first bytes of a file, unpacked if Spark would unpack it."""
    files, found = _file_system(session, path)
    machine: Any = session._jvm
    codecs = machine.org.apache.hadoop.io.compress.CompressionCodecFactory(files.getConf())
    codec = codecs.getCodec(found)
    raw = files.open(found)
    try:
        return bytes((raw if codec is None else codec.createInputStream(raw)).readNBytes(most))
    finally:
        raw.close()


def write_text(session: SparkSession, path: str, text: str) -> None:
    """Write a small text file."""
    files, found = _file_system(session, path)
    stream = files.create(found, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def file_states(session: SparkSession, paths: Sequence[str]) -> list[tuple[str, int, int]]:
    """Names, bytes and times of change of files."""
    states = []
    for path in paths:
        files, found = _file_system(session, path)
        status = files.getFileStatus(found)
        states.append((path, int(status.getLen()), int(status.getModificationTime())))
    return states


def listed(session: SparkSession, path: str) -> list[str]:
    """Files at a path, a pattern among them; hidden ones are left out.

    :raises SparkError: there are none
    """
    files, found = _file_system(session, path)
    waiting = list(files.globStatus(found) or ())
    names: list[str] = []
    while waiting:
        status = waiting.pop()
        own = status.getPath()
        if status.isDirectory():
            waiting += [
                one
                for one in files.listStatus(own)
                if not one.getPath().getName().startswith(("_", "."))
            ]
        else:
            names.append(str(own.toString()))
    if not names:
        raise SparkError(f"there is no file at {path}: name what is to be read")
    return names


def fingerprint_of(*parts: Any) -> str:
    """A short name of an input and options: equal ones have the same."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
