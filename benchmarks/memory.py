"""Measures memory and time of a command with all its processes."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36  # Linux


def resident(parent: int) -> tuple[int, int]:
    """Return the memory of a process and its descendants in bytes: RSS and PSS.

    Pages shared by processes, such as those of files and of a forked parent, count in the RSS of
    each, and once in the PSS. A child that has not yet executed its program shares its parent's
    memory and is left out: Java starts programs so, and would count twice.
    """
    found = _processes()
    children: dict[int, list[int]] = {}
    for number, (above, *_) in found.items():
        children.setdefault(above, []).append(number)
    waiting, total, proportional = [parent], 0, 0
    while waiting:
        number = waiting.pop()
        if number in found:
            above, *memory = found[number]
            if above not in found or memory != list(found[above][1:]):
                total += memory[0]
                proportional += _proportional(number)
        waiting += children.get(number, [])
    return total, proportional


def _proportional(number: int) -> int:
    """Return the PSS of a process in bytes; 0 if it has ended."""
    try:
        text = Path(f"/proc/{number}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss: +(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def _processes() -> dict[int, tuple[int, int, int]]:
    """Return for each process its parent, resident bytes and bytes of address space."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = int(words[1]), int(words[21]) * _PAGE, int(words[20])
    return found


def _children() -> set[int]:
    own = os.getpid()
    return {number for number, (parent, *_) in _processes().items() if parent == own}


@attrs.frozen
class Run:
    """A finished command: wall-clock seconds, processor seconds of all its processes, and their
    peak memory together in bytes (RSS and PSS, see :func:`resident`)."""

    seconds: float
    cpu: float
    peak: int
    shared_once: int


def run(
    command: Sequence[str],
    log: Path,
    *,
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
    every: float = 0.25,
) -> Run | None:
    """Run a command and watch its processes.

    :param log: file for its output
    :param limit: seconds after which it is killed
    :param environment: added to that of this process
    :param every: seconds between readings of memory
    :returns: its cost, or None if it was killed at the limit
    :raises SystemExit: it failed
    """
    # Adopt processes that outlive their parents, such as fork servers, to count their times.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = _children()
    with log.open("wb") as out:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    try:
        peak = shared_once = 0
        cpu = seconds = 0.0
        while process.returncode is None or not _children() <= others:
            ended, status, usage = os.wait4(-1, os.WNOHANG)
            if not ended:
                if limit is not None and time.perf_counter() - started > limit:
                    return None
                total, proportional = resident(process.pid)
                peak, shared_once = max(peak, total), max(shared_once, proportional)
                time.sleep(every)
                continue
            cpu += usage.ru_utime + usage.ru_stime
            if ended == process.pid:
                seconds = time.perf_counter() - started
                process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed, see {log}")
    return Run(seconds, cpu, peak, shared_once)
