"""Computes the fingerprints of rows in worker processes, which takes most of a run's time.

Fingerprints are sent between processes as columns: an object per page costs more than judging it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.plugin.pagefields import as_text, document_of, read_fields
from dedup_middleware.tools.files.rows import Row


def batch_key(options: Options) -> str:
    """Return the hash key: ``DEDUP_HASH_KEY``, or a constant, so that all runs decide alike."""
    return options.hash_key or "1"


@attrs.frozen
class Signed:
    """A parsed row: its fingerprint, or the reason why there is none."""

    key: str = ""
    title: str = ""
    text: str | None = None  # if it was requested or had to be extracted from HTML
    page: Fingerprint | None = None
    error: str = ""

    @property
    def document(self) -> Document:
        """The page as the journal records it, without text if that is not known."""
        return Document(self.key, title=self.title, text=self.text or "")


def fault_of(fault: Exception) -> str:
    """Return why a row is rejected whose page can't be made."""
    return f"{type(fault).__name__}: {fault}"


def _check_bytes(fields: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        try:
            as_text(fields.get(name))
        except UnicodeDecodeError as error:
            raise ValueError(f"field {name!r} can't be read: {error}") from error


def coded(options: Options) -> tuple[str, ...]:
    """Return the names of fields that tables may hold as bytes of UTF-8."""
    return options.key_field, options.title_field, options.charset_field


class Signer:
    """Computes the fingerprints of rows."""

    def __init__(self, fingerprinter: Fingerprinter, *, texts: bool) -> None:
        self._options = options = fingerprinter.options
        self._fingerprinter = fingerprinter
        self._texts = texts
        names = options.field_names
        self._decide = {
            names.key, names.title, names.text, names.html, names.charset, names.description,
        }  # fmt: skip

    def __call__(self, row: Row) -> Signed:
        """Return the fingerprint of a row, or the error; never raises."""
        try:
            return self._signed(row)
        except Exception as fault:  # one row must not end the run
            return Signed(error=fault_of(fault))

    def _signed(self, row: Row) -> Signed:
        if row.error:
            return Signed(error=row.error)
        try:
            fields = fields_of(row, self._decide)
            _check_bytes(fields, coded(self._options))
        except ValueError as error:
            return Signed(error=str(error))
        options = self._options
        page = read_fields(fields, options.field_names)
        if page.is_bare:
            return Signed(error=f"no field {options.text_field!r} or {options.html_field!r}")
        if page.is_unread and not page.text and (page.is_text_unread or not page.html):
            name = (
                options.html_field if fields.get(options.text_field) is None else options.text_field
            )
            return Signed(error=f"field {name!r} is no text")
        document = document_of(page)
        if document is None:
            return Signed(error="neither a key nor any content")
        if page.is_text_unread and page.html:  # as in a crawl: its HTML may be that of other rows
            document = attrs.evolve(document, text="", html=None)
        read = read_document(document, options.extractor)
        wanted = self._texts or read is not document
        text = read.text if wanted else None
        return Signed(read.key, read.title, text, self._fingerprinter(read))


_DEEPEST = 700  # levels of a row; how many the parser takes depends on its caller


def _is_deep(fields: Any) -> bool:
    """Whether values are nested more than ``_DEEPEST`` times."""
    level = [fields]
    for _ in range(_DEEPEST):
        lists = [value for value in level if isinstance(value, list)]
        level = [one for value in level if isinstance(value, dict) for one in value.values()]
        level += [one for value in lists for one in value]
        if not level:
            return False
    return True


def fields_of(row: Row, once: Collection[str | None] = ()) -> dict[str, Any]:
    """Parse the fields of a row.

    :param once: fields that a line of JSON must not have with two different values
    :raises ValueError: what is wrong with the row
    """
    if not isinstance(row.raw, bytes):
        return row.raw
    given: list[tuple[str, Any]] = []

    def of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal given
        given = pairs  # the last call is for the row itself
        return dict(pairs)

    try:
        # json.loads() would guess the encoding of bytes, and UTF-16 would get into the output.
        fields = json.loads(row.raw.decode("utf-8"), object_pairs_hook=of_pairs)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    if row.raw.count(b"[") + row.raw.count(b"{") > _DEEPEST and _is_deep(fields):
        raise ValueError("it is nested too deeply")
    if len(given) > len(fields):
        for name, value in given:
            if value is fields[name] or name not in once:
                continue
            # Values other than strings may be nested too deeply to compare.
            if not isinstance(value, str) or value != fields[name]:
                raise ValueError(f"the field {name!r} is there twice")
    return fields


_SKETCH, _SKETCH_WORDS = "sketch", 8
_ARRAYS = (_SKETCH, "bands", "figures", "clauses")
# Without the minima, which are no longer needed and would be most of the data.
_PLAIN = tuple(
    field.name
    for field in attrs.fields(Fingerprint)
    if field.name.strip("_") not in ("minhash", *_ARRAYS)
)
_NO_MINIMA = np.empty(0, np.uint32)


@attrs.frozen
class Parcel:
    """The fingerprints of a part, as columns."""

    rows: list[tuple[str, str, str | None, str, bool]]  # key, title, text, error, has fingerprint
    columns: dict[str, Any]  # by field, of all fingerprints: a list, or an array with a row of each


def pack(signed: Sequence[Signed], *, sketched: bool = True) -> Parcel:
    """Pack fingerprints for sending, without their minima.

    :param sketched: with their sketches, or else zeros
    """
    pages = [one.page for one in signed if one.page is not None]
    columns: dict[str, Any] = {name: [getattr(page, name) for page in pages] for name in _PLAIN}
    for name in _ARRAYS:
        if sketched or name != _SKETCH:
            columns[name] = np.array([getattr(page, name) for page in pages])
        else:
            columns[name] = np.zeros((len(pages), _SKETCH_WORDS), np.uint64)
    rows = [(one.key, one.title, one.text, one.error, one.page is not None) for one in signed]
    return Parcel(rows, columns)


def unpack(parcel: Parcel) -> list[Signed]:
    """Return the packed rows in order."""
    names, columns = parcel.columns.keys(), parcel.columns.values()
    pages = (
        Fingerprint(minhash=_NO_MINIMA, **dict(zip(names, values, strict=True)))
        for values in zip(*map(list, columns), strict=True)
    )
    return [
        Signed(key, title, text, next(pages) if has_page else None, error)
        for key, title, text, error, has_page in parcel.rows
    ]


@cache
def signer_of_worker(options: Options, texts: bool) -> Signer:
    """Return the signer of this worker process; the first call loads the dictionary."""
    return Signer(Fingerprinter(options), texts=texts)


def sign_rows(options: Options, texts: bool, rows: Sequence[Row]) -> Parcel:
    """Sign a part of the input in a worker process."""
    signed = list(map(signer_of_worker(options, texts), rows))
    return pack(signed, sketched=not options.keeps_evidence)


def end_with_parent() -> None:
    """Make this worker end when its parent is killed; else it would wait for its queue forever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
