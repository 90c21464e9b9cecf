"""From the options to the journal they name."""

from __future__ import annotations

from pathlib import Path

from dedup_middleware.base.options import Options
from dedup_middleware.journal.base import JournalError, JournalStore

_OFF = {"off", "false", "no", "0", "none", ""}
_ON = {"on", "true", "yes", "1"}


def choose_journal(options: Options) -> JournalStore | None:
    """The journal that ``DEDUP_JOURNAL`` names, not open yet; None if there is none.

    An index in memory has none unless a file is named: with it everything ends anyway.
    """
    chosen = options.journal.strip()
    if chosen.lower() in _OFF:
        return None
    scheme, _, rest = options.index_url.partition(":")
    if chosen.lower() not in _ON:
        return _file(Path(chosen), options)
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        return _file(path_next_to(Path(rest)), options)
    from dedup_middleware.journal.redis import RedisJournal

    return RedisJournal(options, max_bytes=options.journal_max_bytes)


def _file(path: Path, options: Options) -> JournalStore:
    from dedup_middleware.journal.sqlite import SQLiteJournal

    return SQLiteJournal(path, max_bytes=options.journal_max_bytes)


def path_next_to(index: Path) -> Path:
    """File of the journal of an index in a file.

    >>> path_next_to(Path("dedup/index.db")).as_posix()
    'dedup/index.journal.db'
    """
    return index.with_name(f"{index.stem}.journal{index.suffix}")


def open_journal(options: Options) -> JournalStore:
    """The journal that ``DEDUP_JOURNAL`` names, open for reading; nothing is created.

    :raises JournalError: there is none, or it can't be read
    """
    journal = choose_journal(options)
    if journal is None:
        raise JournalError(
            f"DEDUP_JOURNAL={options.journal!r} keeps no journal with "
            f"DEDUP_INDEX_URL={options.safe_index_url}: name the journal's file"
        )
    journal.open(create=False)
    return journal
