"""From an item of any kind to a document, and back."""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter

from dedup_middleware.fingerprint import Document, Verdict, as_dict, content_key
from dedup_middleware.options import Options


def _value(adapter: ItemAdapter, field: str) -> Any:
    try:
        return adapter.get(field)
    except (KeyError, AttributeError):
        # A declared field of some kinds of item may have no value yet.
        return None


def is_skipped(adapter: ItemAdapter, options: Options) -> bool:
    """Whether the item asks not to be looked at."""
    return bool(_value(adapter, options.skip_field))


def document_key(adapter: ItemAdapter, options: Options) -> str | None:
    """What names the page: the key field, else a hash of its content; None for neither."""
    key = _value(adapter, options.key_field)
    if key is not None and str(key):
        return str(key)
    content = _content(adapter, options)
    return None if content is None else content_key(content)


def _content(adapter: ItemAdapter, options: Options) -> str | bytes | None:
    for field in (options.text_field, options.html_field):
        value = _value(adapter, field)
        if isinstance(value, (str, bytes)) and value:
            return value
    return None


def to_document(adapter: ItemAdapter, options: Options, key: str | None = None) -> Document | None:
    """The item's page, or None when it has neither a key nor any content.

    A list of strings in the text field, as item loaders leave it, is joined.

    :param key: what :func:`document_key` says, if that is known
    """
    text = _value(adapter, options.text_field)
    if isinstance(text, (list, tuple)) and all(isinstance(part, str) for part in text):
        text = "\n".join(text)
    html = _value(adapter, options.html_field)
    title = _value(adapter, options.title_field)
    charset = _value(adapter, options.charset_field)
    has_text = isinstance(text, str) and bool(text.strip())
    has_html = isinstance(html, (str, bytes)) and bool(html)
    key = key or document_key(adapter, options)
    if key is None and has_text:
        key = content_key(str(text))
    if key is None:
        return None
    return Document(
        key=key,
        title=title if isinstance(title, str) else "",
        text=text if has_text else None if has_html else "",
        html=html if has_html and not has_text else None,
        charset=charset if isinstance(charset, str) else None,
    )


def fill(adapter: ItemAdapter, document: Document, options: Options) -> None:
    """Put the extracted text and title into fields the item has and that are empty."""
    for field, value in (
        (options.text_field, document.text),
        (options.title_field, document.title),
    ):
        if value and _has_field(adapter, field) and not _value(adapter, field):
            adapter[field] = value


def mark(adapter: ItemAdapter, verdict: Verdict, options: Options) -> bool:
    """Put the verdict into the item; False if it has no such field."""
    try:
        adapter[options.mark_field] = as_dict(verdict)
    except (KeyError, AttributeError, TypeError, ValueError):
        return False
    return True


def _has_field(adapter: ItemAdapter, field: str) -> bool:
    return field in adapter or field in adapter.field_names()
