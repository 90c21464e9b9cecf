"""Access to files at any address that Spark can read, through Hadoop's file systems."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the Hadoop file system of a path and the Hadoop path, both Java objects."""
    machine: Any = session._jvm
    found = machine.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), found


def without_links(file: str) -> str:
    """Resolve symbolic links in the name of a local file; other names are returned unchanged."""
    return os.path.realpath(file.removeprefix("file:")) if file.startswith("file:") else file


_PATTERN = re.compile(r"([\\{}\[\]*?])")
_HIDDEN = re.compile(r"_(?!.*=)|\.|.*\._COPYING_$")


def literal(path: str) -> str:
    """Escape a file name so that Spark does not read it as a pattern."""
    return _PATTERN.sub(r"\\\1", path)


def qualified(session: SparkSession, path: str) -> str:
    """Return the full name of a file or folder, in the form that :func:`listed` returns."""
    files, found = file_system(session, path)
    return str(files.makeQualified(found).toString())


def exists(session: SparkSession, path: str) -> bool:
    """Whether a file or folder exists, on any file system that Spark supports."""
    files, found = file_system(session, path)
    return bool(files.exists(found))


def local_path(session: SparkSession, path: str) -> Path | None:
    """Return the path of a file or folder of this machine, or None if it is elsewhere."""
    files, found = file_system(session, path)
    if files.getUri().getScheme() != "file":
        return None
    return Path(str(files.makeQualified(found).toUri().getPath()))


def local_copy(session: SparkSession, path: str, folder: Path) -> Path:
    """Return a local path of a file; a remote file is copied into ``folder``."""
    here = local_path(session, path)
    if here is not None:
        return here
    files, found = file_system(session, path)
    target = folder / str(found.getName())
    machine: Any = session._jvm
    # The last argument keeps Hadoop from writing a checksum file.
    to = machine.org.apache.hadoop.fs.Path(str(target))
    files.copyToLocalFile(False, found, to, True)
    return target


_LARGEST_PIECE = 1 << 20


class _Pieces(io.BufferedReader):
    """A reader with growing buffers, since each read is a call into Java that takes milliseconds.
    The first is small, as often only the first line is read. ``io.TextIOWrapper`` always asks for
    8 KB, so ``read1`` reads more than it is asked for."""

    _next = 1 << 13

    def read1(self, size: int = -1, /) -> bytes:
        found = super().read1(max(size, self._next))
        self._next = min(2 * self._next, _LARGEST_PIECE)
        return found


class _Stream(io.RawIOBase):
    """A Java input stream as a Python raw stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.readNBytes(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def opened(session: SparkSession, path: str) -> io.BufferedReader:
    """Open a file for reading, and decompress it if Spark would."""
    files, found = file_system(session, path)
    machine: Any = session._jvm
    codecs = machine.org.apache.hadoop.io.compress.CompressionCodecFactory(files.getConf())
    codec, raw = codecs.getCodec(found), files.open(found)
    stream = _Stream(raw if codec is None else codec.createInputStream(raw))
    return _Pieces(stream, _LARGEST_PIECE)


def file_states(session: SparkSession, paths: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return names, sizes in bytes and modification times of files.

    :raises FileNotFoundError: a file does not exist
    """
    machine: Any = session._jvm
    make = machine.org.apache.hadoop.fs.Path
    settings = session._jsparkSession.sessionState().newHadoopConf()
    states = []
    for path in paths:
        found = make(path)
        try:
            status = found.getFileSystem(settings).getFileStatus(found)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() != "FileNotFoundException":
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
        states.append((path, int(status.getLen()), int(status.getModificationTime())))
    return states


def is_hidden(path: str) -> bool:
    """Whether Spark skips a file of this name, also where it is named itself: names that
    begin with an underscore or a dot, except columns of a partition (`_day=1`), and partial
    uploads."""
    return _HIDDEN.match(path.rpartition("/")[2]) is not None


def listed(session: SparkSession, path: str) -> list[str]:
    """List the files at a path or pattern, in folders recursively, without hidden ones; a path that
    is no pattern may name a hidden file."""
    files, found = file_system(session, path)
    names: list[str] = []
    waiting = list(files.globStatus(found) or ())
    if _PATTERN.search(path):
        waiting = [each for each in waiting if not is_hidden(str(each.getPath().getName()))]
    while waiting:
        status = waiting.pop()
        own = status.getPath()
        if status.isDirectory():
            inner = files.listStatus(own)
            waiting += [each for each in inner if not is_hidden(str(each.getPath().getName()))]
        else:
            names.append(str(own.toString()))
    return names
