"""Tables that are built once, kept on disk, and mapped into the memory of every process.

A file is `DEDUPTBL | crc32 | length of the header | header | arrays`, where the checksum covers
all that follows it. A file that is cut off, damaged or of another version is built anew, never
trusted; it is replaced in one step, so that processes that start together don't disturb each
other. A file or folder that another user can change is not read
(see :mod:`dedup_middleware.base.cachefolder`).
"""

from __future__ import annotations

import json
import logging
import mmap
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.cachefolder import TrustedFolder, cache_candidates, cache_directory

logger = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]
_MAGIC: Final = b"DEDUPTBL"
_PREAMBLE: Final = struct.Struct("<8sII")
_CHECKED_FROM: Final = 12  # the checksum covers what follows it
_ALIGNMENT: Final = 64


def dump(arrays: Arrays) -> bytes:
    """The bytes of a table file."""
    places = {}
    payload = bytearray()
    for name, array in arrays.items():
        payload += bytes(-len(payload) % _ALIGNMENT)
        places[name] = [array.dtype.str, len(payload), array.size]
        payload += np.ascontiguousarray(array).tobytes()
    header = json.dumps(places).encode()
    header += b" " * (-(len(header) + _PREAMBLE.size) % _ALIGNMENT)
    body = struct.pack("<I", len(header)) + header + payload
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def load(buffer: bytes | mmap.mmap) -> Arrays:
    """The arrays of a table file, read-only views of `buffer`.

    :raises ValueError: it is not a whole and undamaged table file.
    """
    view = memoryview(buffer)
    if len(view) < _PREAMBLE.size:
        raise ValueError("cut off")
    magic, checksum, length = _PREAMBLE.unpack_from(view)
    if magic != _MAGIC or zlib.crc32(view[_CHECKED_FROM:]) != checksum:
        raise ValueError("damaged")
    start = _PREAMBLE.size + length
    header: dict[str, tuple[str, int, int]] = json.loads(bytes(view[_PREAMBLE.size : start]))
    arrays = {}
    for name, (dtype, offset, size) in header.items():
        array = np.frombuffer(view, np.dtype(dtype), size, start + offset)
        array.flags.writeable = False
        arrays[name] = array
    return arrays


def _map(directory: Path, name: str) -> Arrays | None:
    try:
        return load(TrustedFolder(directory).mapped(name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.info("%s is built anew: %s", directory / name, error)
        return None


def load_or_build(name: str, build: Callable[[], Arrays]) -> Arrays:
    """The table `name` from the first cache that holds it, else built (and cached if possible).

    :param name: file name; whatever the content depends on must be part of it.
    :param build: computes the arrays.
    """
    for directory in cache_candidates():
        found = _map(directory, name)
        if found is not None:
            return found
    data = dump(build())
    directory_found = cache_directory()
    if directory_found is not None:
        try:
            TrustedFolder(directory_found).write(name, data)
        except OSError as error:
            path = directory_found / name
            logger.warning("%s can't be written, it is kept in memory: %s", path, error)
        else:
            return _map(directory_found, name) or load(data)
    return load(data)
