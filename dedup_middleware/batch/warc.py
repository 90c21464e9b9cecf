"""HTML pages of WARC files, by warcio."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from dedup_middleware.batch.rows import BatchError, Row

_LARGEST = 50_000_000  # bytes of a page
_HTML = ("text/html", "application/xhtml+xml", "application/xml", "text/xml", "text/plain")


def read_warc(path: Path) -> Iterator[Row]:
    """Responses of status 200 that hold a page; all others are passed over.

    Fields: ``url``, ``html`` (bytes), ``charset`` and ``date``.

    :raises BatchError: warcio is missing, or the file is no WARC
    """
    try:
        archive = import_module("warcio.archiveiterator")
        failure = import_module("warcio.exceptions").ArchiveLoadFailed
    except ImportError:
        raise BatchError(
            f"{path}: reading WARC needs warcio: pip install 'dedup-middleware[warc]'"
        ) from None
    number = 0
    with path.open("rb") as raw:
        try:
            for record in archive.ArchiveIterator(raw):
                headers = record.http_headers
                if record.rec_type != "response" or headers is None:
                    continue
                kind, _, parameters = (headers.get_header("Content-Type") or "").partition(";")
                if headers.get_statuscode() != "200" or kind.strip().lower() not in _HTML:
                    continue
                number += 1
                url = record.rec_headers.get_header("WARC-Target-URI") or ""
                page = record.content_stream().read(_LARGEST)
                fields = {
                    "url": url.strip("<>"),
                    "html": page,
                    "charset": _charset(parameters),
                    "date": record.rec_headers.get_header("WARC-Date"),
                }
                yield Row(number, fields, "" if page else "the page is empty", done=raw.tell())
        except failure as error:
            raise BatchError(f"{path} can't be read: {error}") from error


def _charset(parameters: str) -> str | None:
    """Charset among the parameters of a Content-Type.

    >>> _charset(' boundary=x; Charset="GBK"')
    'GBK'
    """
    for part in parameters.split(";"):
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset" and value:
            return value.strip().strip("\"'")
    return None
