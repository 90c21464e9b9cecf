"""Commands and the terminal: Ctrl-C, encodings, and what strangers would have it do."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.cmdline import execute
from scrapy.settings import Settings

from dedup_middleware.base.writing import discard_output, flush_output
from dedup_middleware.tools.portable.portable import BucketKeySpool
from tests.commands.running import Done, crawl, dedup, item, settings_for


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """An index of two pages, with the drop of a third."""
    made = settings_for(tmp_path)
    crawl(made, item("a", 1), item("b", 2), item("c", 1))
    return made


def test_ctrl_c_at_a_question(settings: dict[str, Any]) -> None:
    """One is enough."""
    terminal, other = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "scrapy", "dedup", "clear",
            "-s", f"DEDUP_INDEX_URL={settings['DEDUP_INDEX_URL']}",
        ],
        stdin=other,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A run of the tests in the background ignores the signal, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    assert process.stderr is not None
    with process:
        try:
            asked = b""
            while not asked.endswith(b"[y/N] "):
                asked += os.read(process.stderr.fileno(), 1000)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(terminal)
            os.close(other)
    assert (process.returncode, err.decode()) == (1, "scrapy dedup clear: ended by Ctrl-C\n")


def test_ctrl_c_in_a_finalizer() -> None:
    """Python takes no notice of an exception there; the command is ended where it next awaits."""
    script = (
        "import asyncio, signal\n"
        "from dedup_middleware.tools.commands.dedup import _ended_by_ctrl_c\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finalizer:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "async def main(tasks):\n"
        "    tasks.append(asyncio.current_task())\n"
        "    Finalizer()\n"
        "    await asyncio.sleep(100)\n"
        "try:\n"
        "    with _ended_by_ctrl_c() as tasks:\n"
        "        asyncio.run(main(tasks))\n"
        "except asyncio.CancelledError:\n"
        "    print('ended')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "ended\n")


@pytest.mark.parametrize("command", ["explain", "history"])
def test_keys_of_strangers(command: str, settings: dict[str, Any]) -> None:
    """An escape sequence in a key is not carried out by the terminal."""
    done = dedup(command, "https://a/\x1b[2J", **settings)
    assert done.code == 1
    assert "has no entry of https://a/\N{REPLACEMENT CHARACTER}[2J" in done.err


def printed(encoding: str, *arguments: str, errors: str = "strict", **settings: Any) -> Done:
    """Run a command whose output has an encoding."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding, errors, write_through=True)
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as end:
        execute(["scrapy", "dedup", *arguments], Settings(settings))
    text = raw.getvalue().decode(encoding)
    out.close()
    return Done(int(end.value.code or 0), text, "")


@pytest.mark.parametrize(
    ("encoding", "errors"),
    [("ascii", "strict"), ("latin-1", "strict"), ("ascii", "surrogateescape")],
)
def test_terminals_with_few_characters(
    encoding: str, errors: str, settings: dict[str, Any]
) -> None:
    """What their encoding lacks is written as an escape; JSON stays JSON. With ``LC_ALL=C`` Python
    lets bytes through that are no text, and fails with characters as elsewhere."""
    done = printed(encoding, "explain", "https://c/1", errors=errors, **settings)
    assert done.code == 0
    assert "https://a/1" in done.out
    assert "\\u6807\\u9898" in done.out
    state = json.loads(printed(encoding, "explain", "https://c/1", "--json", **settings).out)
    assert state["clusters"][0]["title"] == "标题1"


def test_file_names_that_are_not_utf8(settings: dict[str, Any], tmp_path: Path) -> None:
    """What was done is reported, and as done."""
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    for arguments in (
        ["restore", "--all", "-o", f"{name}.jsonl"], ["clusters", "-o", f"{name}.csv"],
        ["report", "-o", f"{name}.html"],
    ):  # fmt: skip
        done = printed("utf-8", *arguments, "--json", **settings)
        assert done.code == 0
        assert name + Path(arguments[-1]).suffix in json.loads(done.out).values()
        Path(arguments[-1]).unlink()
        assert printed("utf-8", *arguments, **settings).code == 0
    done = dedup("export", f"{name}.parquet", **settings)
    assert (done.code, "pyarrow takes names in UTF-8 only" in done.err) == (1, True)


def test_a_full_disk(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export names its file, a copy of an index the folder it needs."""

    def full(_: BucketKeySpool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BucketKeySpool, "flush", full)
    file = tmp_path / "pages.parquet"
    done = dedup("export", str(file), **settings)
    assert (done.code, f"{file} can't be written: No space" in done.err) == (1, True)
    assert not [path for path in tmp_path.iterdir() if "pages" in path.name]
    done = dedup(
        "import", settings["DEDUP_INDEX_URL"], DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'new.db'}"
    )
    assert (done.code, "name another one by TMPDIR" in done.err) == (1, True)


def test_what_was_exported_can_not_be_read(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file that was asked for, not the provisional one."""
    monkeypatch.setattr("dedup_middleware.tools.portable.portable_file.check_sizes", _refused)
    done = dedup("export", str(tmp_path / "pages.parquet"), **settings)
    assert done.code == 1
    assert f"can't be read again: {tmp_path / 'pages.parquet'} is damaged" in done.err
    assert ".part" not in done.err


def _refused(*_: object) -> None:
    raise ValueError("too large")


@pytest.mark.parametrize("command", [["--help"], ["stats", "--help"], ["stats", "--json"]], ids=str)
@pytest.mark.parametrize(
    ("output", "said"),
    [("full", "standard output can't be written: No space left on device"), ("pipe", "")],
)
def test_output_that_nothing_takes(
    command: list[str], output: str, said: str, settings: dict[str, Any]
) -> None:
    """A full disk is one line, a pipe that was closed none, whenever what is printed is written."""
    if output == "full":
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, target = os.pipe()
        os.close(reader)
    options = ["-s", f"DEDUP_INDEX_URL={settings['DEDUP_INDEX_URL']}"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "dedup", *command, *options],
            stdout=target,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    finally:
        os.close(target)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1 if said else 0), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "code"), [(["compact"], 0), (["stats", "--json"], 0), (["unheard-of"], 2)], ids=str
)
def test_no_standard_output(command: list[str], code: int, settings: dict[str, Any]) -> None:
    """A command that is started without one, as by `>&-`, does its work and ends as with it."""
    options = ["-s", f"DEDUP_INDEX_URL={settings['DEDUP_INDEX_URL']}"]
    run = [sys.executable, "-m", "scrapy", "dedup", *command, *options]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *run], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["forget", "--key", "x"], "add --yes"),
        (["clear"], "add --yes"),
        (["check", "-"], "there is no standard input"),
        (["compare", "-", "-"], "standard input is one page"),
    ],
    ids=str,
)
def test_no_standard_input(command: list[str], said: str, settings: dict[str, Any]) -> None:
    """A command that is started without one, as by `<&-`, says in a line what to give instead."""
    options = ["-s", f"DEDUP_INDEX_URL={settings['DEDUP_INDEX_URL']}"]
    run = [sys.executable, "-m", "scrapy", "dedup", *command, *options]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *run], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert said in done.stderr


def test_what_was_asked_for_on_a_missing_standard_output(settings: dict[str, Any]) -> None:
    """Pages that are nowhere are not entered into the index; one line says why."""
    options = ["-s", f"DEDUP_INDEX_URL={settings['DEDUP_INDEX_URL']}"]
    for arguments in (["restore", "--all", "-o", "-"], ["clusters", "-o", "-"]):
        run = [sys.executable, "-m", "scrapy", "dedup", *arguments, *options]
        done = subprocess.run(
            ["sh", "-c", '"$@" >&-', "sh", *run], stderr=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "name a file by -o" in done.stderr
    assert "https://c/1" in dedup("restore", "--all", "-o", "-", **settings).out


@pytest.mark.parametrize("columns", [40, 50, 56, 57])
def test_values_on_a_narrow_terminal(columns: int, settings: dict[str, Any]) -> None:
    """Names take no more than leaves room for the values, which were not shown at all."""
    done = dedup("stats", columns=columns, **settings)
    committed = dedup("stats", "--json", **settings).json["committed"]
    line = next(line for line in done.out.splitlines() if "pages stored" in line)
    assert line.split("│")[2].strip() == str(committed)
    assert "without" in done.out


class _Full(io.StringIO):
    """An object in the place of standard output that is no file, and takes nothing."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Bare:
    """One that can be printed to alone, without `flush` or `fileno`."""

    def write(self, text: str) -> int:
        return len(text)


class _FullAndBare(_Bare):
    """One whose `flush` fails, and without a `fileno`."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("output", "code"),
    [(io.StringIO(), 0), (_Bare(), 0), (None, 0), (_Full(), 1), (_FullAndBare(), 1)],
)
def test_objects_in_place_of_standard_output(
    output: Any, code: int, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a notebook: what they lack is not asked for, and no descriptor of others is closed."""
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit) as end:
        execute(["scrapy", "dedup", "stats", "--help"], Settings(settings))
    assert int(end.value.code or 0) == code
    assert ("No space left on device" in capsys.readouterr().err) == bool(code)


def test_output_that_is_discarded() -> None:
    """A real file's descriptor leads nowhere then; a closed object is left alone."""
    closed = io.StringIO()
    closed.close()
    with contextlib.redirect_stdout(closed):
        discard_output()
    for output in (None, _Full(), _FullAndBare(), _Bare()):
        with contextlib.redirect_stdout(output):  # type: ignore[type-var]
            discard_output()
    with (
        Path("/dev/full").open("w", encoding="utf-8") as full,
        contextlib.redirect_stdout(full),
    ):
        print("text")
        with pytest.raises(OSError, match="No space left"):
            flush_output()
        discard_output()
        flush_output()
