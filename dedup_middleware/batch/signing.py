"""Rows to fingerprints, in processes of their own: this is where the time goes."""

from __future__ import annotations

import json
from typing import Any

import attrs
from itemadapter import ItemAdapter

from dedup_middleware import fingerprint as fp
from dedup_middleware.batch.rows import Row
from dedup_middleware.fingerprint import Fingerprint, Fingerprinter
from dedup_middleware.itemfields import to_document
from dedup_middleware.options import Options


@attrs.frozen
class Signed:
    """A row understood: its page, or why there is none.

    ``text`` is the body text if it was asked for or had to be taken out of HTML, else None.
    """

    key: str = ""
    title: str = ""
    text: str | None = None
    page: Fingerprint | None = None
    error: str = ""


class Signer:
    """Makes fingerprints of rows.

    :param texts: whether each row's text is wanted back
    """

    def __init__(self, options: Options, hash_key: int, *, texts: bool) -> None:
        self._options = options
        self._fingerprinter = Fingerprinter(options, hash_key)
        self._texts = texts

    def __call__(self, row: Row) -> Signed:
        """What a row says; never raises for any row."""
        if row.error:
            return Signed(error=row.error)
        try:
            fields = fields_of(row)
        except ValueError as error:
            return Signed(error=str(error))
        options = self._options
        content = [fields.get(name) for name in (options.text_field, options.html_field)]
        if all(value is None for value in content):
            return Signed(error=f"no field {options.text_field!r} or {options.html_field!r}")
        if not isinstance(content[0], (str, list, type(None))):
            return Signed(error=f"field {options.text_field!r} is no text")
        document = to_document(ItemAdapter(fields), options)
        if document is None:
            return Signed(error="neither a key nor any content")
        read = fp.read(document, options.extractor)
        wanted = self._texts or read is not document
        text = read.text if wanted else None
        return Signed(read.key, read.title, text, self._fingerprinter(read))


def fields_of(row: Row) -> dict[str, Any]:
    """Fields of a row.

    :raises ValueError: its line is no JSON object
    """
    if not isinstance(row.raw, bytes):
        return row.raw
    try:
        fields = json.loads(row.raw)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    return fields
