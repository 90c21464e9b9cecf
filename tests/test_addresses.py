"""Whatever an address holds, no password is shown and no error comes from inside."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.index.opening import open_index
from dedup_middleware.journal.access import choose_journal
from dedup_middleware.journal.entries import JournalError
from dedup_middleware.journal.sqlite import SQLiteJournal

SECRET = "s3cret"
MISSPELT = [
    "redis//:s3cret@h",
    "redis:/:s3cret@h",
    "redis:s3cret@h",
    "redis:://:s3cret@h",
    "Redis://:s3cret@h",
    "redis://:s3cret",
    "redis://h:s3cret",
    "redis://s3cret@h",
    "redis://user:s3c/s3cret@h:1/0",
    "redis://:a@s3cret@h",
    "redis://h/s3cret",
    "redis://h?pasword=s3cret",
    "redis://h?s3cret",
    "redis://h?db=0#s3cret",
    "rediss+sentinal://:s3cret@h/m",
    "redis+sentinel://:s3cret@h",
    "redis+sentinel://h/m/s3cret",
    "redis+sentinel://h:s3cret/m",
    "redis+sentinel://h/m?sentinel_pasword=s3cret",
    "redis+sentinel://h/m?sentinel_password=s3cret&db=x",
    "unix:/run/redis.sock?password=s3cret",
    "unix://u:s3cret@/run/redis.sock?db=x",
    "redis://:s3cret℀@h",
    "redis://:s3cret@h\0",
    "redis://:s3cret@a..b",
    "http://user:s3cret@h/",
    "mysql:s3cret",
    "sqlite://u:s3cret@h/x",
    "s3cret@h",
    "s3cret",
    "",
    " redis://:s3cret@h",
    "sqlite:/x\0s3cret@h",
    "redis://:s3cret@[h",
    "redis://:s3cret@h:99999",
    "redis://:s3cret\udce4@h",
]  # fmt: skip


def try_address(url: str) -> str:
    """All that can be read of an address that is tried: its error, the options, what is shown."""
    shown = [hide_password(url)]
    try:
        options = Options(index_url=url)
        shown += [repr(options), str(options), options.safe_index_url]
        if not url.startswith(("sqlite:", "memory:")):
            index = open_index(options)
            shown += [repr(index), repr(vars(index))]
    except OptionsError as error:
        shown += [str(error), repr(error), repr(error.value), error.fix]
    return "\n".join(shown)


@pytest.mark.parametrize("url", MISSPELT)
def test_misspelt_addresses(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """An address with a slip in it is refused or used, and nowhere shows its password."""
    caplog.set_level(logging.DEBUG)
    shown = try_address(url) + caplog.text
    if not url.startswith(("sqlite:/x\0", "redis://h?s3cret")):
        assert SECRET not in shown, shown
    assert "DEDUP_INDEX_URL" in shown or "Options(" in shown


_SCHEMES = st.sampled_from(
    ["redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://", "unix://", "redis//",
     "redis:", "Redis://", "redis:/", "http://", "", "//", "sqlite:redis://", "unix:"]
)  # fmt: skip
_RAW = st.text(st.characters(codec=None), max_size=8)


@given(_SCHEMES, _RAW, _RAW, _RAW, st.sampled_from(["user", "no user", "option", "host"]))
def test_any_address(scheme: str, before: str, after: str, rest: str, place: str) -> None:
    """Whatever a password is made of, and whatever is wrong with the address around it, there is
    no error but that of the setting, and the password is not shown."""
    secret = f"{before}<%{SECRET}%>{after}"
    url = {
        "user": f"{scheme}user:{secret}@host{rest}",
        "no user": f"{scheme}:{secret}@host:6379{rest}",
        "option": f"{scheme}host/?password={secret}{rest}",
        "host": f"{scheme}:{secret}{rest}",
    }[place]
    assert SECRET not in try_address(url)


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Any text at all is an address, or an error of the setting."""
    for url in (text, f"redis://{text}", f"redis+sentinel://{text}", f"unix:///{text}"):
        try_address(url)


def test_addresses_that_are_understood() -> None:
    """What is no secret of an address is shown."""
    for url, shown in [
        ("redis://h:6379/0", None),
        ("redis://[::1]:6379/0?db=1&protocol=3", None),
        ("redis://bob:pw@h", "redis://bob:***@h"),
        ("redis+sentinel://:pw@a:1,b:2/news/0?sentinel_password=x",
         "redis+sentinel://:***@a:1,b:2/news/0?sentinel_password=***"),
        ("unix:///run/a b/redis.sock?db=1", None),
        ("sqlite:/data/@snap/index.db", "sqlite:***"),
        ("sqlite:dedup/index.db", None),
        ("memory:", None),
        ("mysql://x", None),
        ("", None),
    ]:  # fmt: skip
        assert hide_password(url) == (shown or url)


def test_other_settings(caplog: pytest.LogCaptureFixture) -> None:
    """No secret is shown under a misspelt name, as the path of a journal, or with all options."""
    for values in (
        {"DEDUP_INDEX_ULR": "redis://:s3cret@h"},
        {"DEDUP_HASH_KY": "s3cret"},
        {"DEDUP_JOURNAL": "redis://:s3cret@h"},
        {"DEDUP_JOURNAL": "redis//:s3cret@h"},
        {"DEDUP_JOURNAL": "sqlite:/tmp/s3cret"},
    ):
        with pytest.raises(OptionsError, match=next(iter(values))) as caught:
            Options.from_mapping(values)
        assert SECRET not in str(caught.value) + repr(caught.value)
    assert "5ec12e7" not in repr(Options(hash_key="5ec12e7"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a\0b", "can't be printed"),
        (" ", "name the file"),
        ("//x.db", "sqlite:x.db"),
        ("//u@x.db", "leave out the slashes"),
        ("//", "leave out the slashes"),
        (":memory:", "write memory:"),
        ("///:memory:", "write memory:"),
        ("~/x.db", "instead of ~"),
        ("~bob/x.db", "instead of ~"),
        ("//~/x.db", "instead of ~"),
        ("{folder}", "is a directory"),
        ("{folder}/file/index.db", "a part of its path is a file"),
        ("{folder}/" + "x" * 300, "its name is too long"),
        ("{folder}/" + "x/" * 3000 + "y", "too long"),
    ],
)
async def test_unusable_files(tmp_path: Path, path: str, message: str) -> None:
    """A path that can't be a file is refused with the setting and the reason."""
    (tmp_path / "file").write_text("")
    url = "sqlite:" + path.format(folder=tmp_path)
    for opening in ("open", "attach"):
        with pytest.raises(DedupError, match="DEDUP_INDEX_URL") as caught:
            await opened(url, opening)
        assert message in str(caught.value) or (
            opening == "attach" and "there is no index" in str(caught.value)
        )
        assert type(caught.value).__name__ in {"OptionsError", "IndexRefusedError"}


async def opened(url: str, opening: str) -> None:
    """Open or attach an index."""
    index = open_index(Options(index_url=url))
    await (index.open({"bands": "1x1"}) if opening == "open" else index.attach())


@pytest.mark.parametrize("path", ["a\0b", "", "x" * 300, "folder", "folder/x\0y"])
def test_unusable_journals(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that can't be a journal is a clear error, however the journal is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for create in (True, False):
        with pytest.raises(JournalError, match="journal"):
            SQLiteJournal(path, max_bytes=1_000_000).open(create=create)
    if "\0" in path:
        with pytest.raises(OptionsError, match="DEDUP_JOURNAL"):
            choose_journal(Options(journal=path))
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_host_that_can_not_be_one() -> None:
    """A host that no look-up takes is refused when the address is read, not by the first page."""
    for host in ("a..b", "x" * 64 + ".example"):
        with pytest.raises(OptionsError, match="the host can't be one"):
            open_index(Options(index_url=f"redis://{host}/0"))
