"""Options and crawl id from Scrapy's settings, and checks that need Scrapy."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.project import data_path

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import PREFIX, setting_name

DEFAULT_INDEX = "dedup/index.db"


def options_from_settings(settings: BaseSettings) -> Options:
    """Read and check every ``DEDUP_*`` setting.

    Without ``DEDUP_INDEX_URL`` the index is a SQLite file in the project's data directory, or in
    ``.scrapy`` of the working directory if there is no ``scrapy.cfg``.

    :raises OptionsError: unknown setting or unusable value
    """
    values: dict[str, Any] = {
        str(name): settings.get(str(name)) for name in settings if str(name).startswith(PREFIX)
    }
    if values.get("DEDUP_INDEX_URL") is None:
        values["DEDUP_INDEX_URL"] = _default_url()
    return Options.from_mapping(values)


@contextmanager
def folder_errors(setting: str, value: object, what: str) -> Iterator[None]:
    """Turn an OSError raised inside into an :class:`OptionsError` with ``what`` and the reason."""
    try:
        yield
    except OSError as error:
        fix = f"{what} ({error.strerror}); name a file elsewhere"
        raise OptionsError(setting, value, fix) from None


def _default_url() -> str:
    try:
        with folder_errors("DEDUP_INDEX_URL", None, "the project's data folder can't be made"):
            path = Path(data_path(DEFAULT_INDEX, createdir=False))
    except NotConfigured:
        # There is a settings module but no scrapy.cfg, as under scrapyd.
        path = Path(".scrapy", DEFAULT_INDEX)
    return f"sqlite:{path}"


def crawl_id(options: Options, spider: Spider | None) -> str:
    """The id of the crawl that begins: ``DEDUP_CRAWL_ID``, else the job's, else from the time.

    A job has its id in the environment (Scrapy Cloud) or as an argument of the spider (scrapyd).
    """
    # Random at the end, since two crawls may begin within a second.
    made = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"
    job = os.environ.get("SCRAPY_JOB") or getattr(spider, "_job", None) or made
    return options.crawl_id or str(job)


def make_data_folder(settings: BaseSettings, options: Options) -> None:
    """Make the project's data directory if the index has its default address.

    :raises OptionsError: it can't be made, or the journal's path may be misspelt or is that of a
        file of another kind
    """
    folder = Path(options.journal).parent
    with folder_errors("DEDUP_JOURNAL", options.journal, "its folder can't be looked into"):
        missing = folder.is_absolute() and not folder.exists() and not folder.parent.exists()
    if missing:
        fix = f"there is no folder {folder.parent}; make it, or correct the path"
        raise OptionsError("DEDUP_JOURNAL", options.journal, fix)
    if settings.get("DEDUP_INDEX_URL") is None and options.index_url == _default_url():
        folder = Path(options.index_url.removeprefix("sqlite:")).parent
        what = f"the folder {folder} can't be made"
        with folder_errors("DEDUP_INDEX_URL", options.index_url, what):
            folder.mkdir(parents=True, exist_ok=True)
    _refuse_other_file(options)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist."""
    return os.path.realpath(one) == os.path.realpath(other)


def refuse_shared_file(setting: str, path: Path, options: Options) -> None:
    """Refuse the file of an index as that of another setting.

    :raises OptionsError: it is the file of the index or of the former index
    """
    for name in ("index_url", "former_index_url"):
        scheme, _, file = getattr(options, name).partition(":")
        if scheme == "sqlite" and is_same_file(path, Path(file)):
            fix = f"it is the file of {setting_name(name)}; name another file"
            raise OptionsError(setting, str(path), fix)


def _refuse_other_file(options: Options) -> None:
    """Refuse a journal that is another kind of file: no drop could be brought back."""
    from dedup_middleware.journal.access import choose_journal
    from dedup_middleware.journal.sqlite import SQLiteJournal

    journal, path = choose_journal(options), Path(options.journal.strip())
    if not isinstance(journal, SQLiteJournal) or journal.path != path:
        return
    refuse_shared_file("DEDUP_JOURNAL", path, options)
    with folder_errors("DEDUP_JOURNAL", str(path), "it can't be looked at"):
        is_there = path.exists()
    if is_there and (not os.access(path, os.R_OK) or journal.is_foreign()):
        fix = "it can't be read, or is the file of another program; name another file"
        raise OptionsError("DEDUP_JOURNAL", str(path), fix)


def conflict_of(pipeline: Any, own: type[Any]) -> OptionsError | None:
    """Return an error if the crawl has another pipeline of the plugin on the same index.

    In the second pipeline, each item would wait for the claim that it got in the first.
    """
    try:
        first = pipeline.crawler.get_item_pipeline(own)
    except RuntimeError:  # there is no engine, as in tests
        return None
    if first is None or first is pipeline:
        return None
    if first.options.index_url != pipeline.options.index_url:
        return None
    names = [f"{type(one).__module__}.{type(one).__qualname__}" for one in (first, pipeline)]
    fix = "two pipelines compare each item; set one of them to None (the add-on adds its own)"
    return OptionsError("ITEM_PIPELINES", names, fix)
