"""Standard output of a command, which may be full, closed, missing, or no file at all."""

from __future__ import annotations

import contextlib
import errno
import os
import sys


def flush_output() -> None:
    """Write what was printed; nothing is done where there is no standard output.

    :raises OSError: it can't be written
    """
    if callable(flush := getattr(sys.stdout, "flush", None)):
        flush()


def write_output(data: bytes) -> None:
    """Write bytes at once.

    :raises OSError: they can't be written, or there is no standard output that takes bytes
    """
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        raise OSError(errno.EBADF, "There is no standard output to write to: name a file by -o")
    stream.write(data)
    flush_output()


def discard_output() -> None:
    """Write what was printed, or let it go if it can't be written.

    Python would try once more at its end, and exit with 120.
    """
    try:
        flush_output()
    except ValueError:  # it was closed
        return
    except OSError:
        # An object in its place may have no descriptor.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            descriptor = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, descriptor)
            finally:
                os.close(nowhere)
