"""Reads documents and labelled pairs from files of JSON lines, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.errors import DedupError
from dedup_middleware.model.documents import Document

_KEYS = ("key", "url", "id")


class InputError(DedupError, ValueError):
    """An input file can't be used; the message names the file, the line and the fix."""


@attrs.frozen
class SourceDocument:
    """A document of a file. Its key is ``key``, ``url`` or ``id``, or else file name and line."""

    document: Document
    category: str = ""  # ``category`` or ``cluster`` of the line


@attrs.frozen
class Pair:
    """Two documents, and whether they are near-duplicates."""

    key: str
    a: Document
    b: Document
    label: bool
    kind: str = ""  # ``type`` in the file
    trivial: bool = False  # equal texts (``jaccard_char5`` is 1): any method finds the pair


def read_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield number and object of each non-empty line."""
    number = 0
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise InputError(f"{path}, line {number}: write a JSON object, {{...}}")
                yield number, value
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged after line {number}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: write one JSON object a line ({error})") from None


def _text(path: Path, number: int, line: Mapping[str, Any], field: str, default: Any) -> str:
    value = default if line.get(field) is None else line[field]
    if not isinstance(value, str):
        raise InputError(f"{path}, line {number}: give {field!r} a string, it is {value!r:.40}")
    return _writable(value)


def _writable(value: Any) -> str:
    """Convert a value to text; lone surrogates, which UTF-8 can't encode, become question marks."""
    return str(value).encode("utf-8", "replace").decode()


def read_documents(paths: Iterable[Path], limit: int | None = None) -> list[SourceDocument]:
    """Read the documents of files, in order; only ``text`` is required.

    :raises InputError: a file or line can't be used, or there is no document
    """
    found: list[SourceDocument] = []
    names = []
    for path in paths:
        names.append(str(path))
        for number, line in read_lines(path):
            if limit is not None and len(found) >= limit:
                return found
            key = next((_writable(line[k]) for k in _KEYS if line.get(k)), f"{path.name}:{number}")
            document = Document(
                key=key,
                title=_text(path, number, line, "title", ""),
                text=_text(path, number, line, "text", None),
                description=_text(path, number, line, "description", ""),
            )
            category = line.get("category", line.get("cluster", ""))
            found.append(SourceDocument(document, _writable(category)))
    if not found:
        raise InputError(f"{', '.join(names)}: no document; write lines with a field 'text'")
    return found


def read_pairs(path: Path) -> list[Pair]:
    """Read the labelled pairs of a file; borderline pairs, with a null label, are left out.

    Required fields: ``a_text``, ``b_text`` and ``label`` (1 or 0); optional: ``a_title``,
    ``b_title``, ``pair_id``, ``type`` and ``jaccard_char5``.

    :raises InputError: a line can't be used, or there is no labelled pair
    """
    found = []
    for number, line in read_lines(path):
        if "label" not in line or line["label"] not in (0, 1, None):
            raise InputError(f"{path}, line {number}: give 'label' 1, 0 or null")
        if line["label"] is None:
            continue
        key = _writable(line.get("pair_id", number))
        a, b = (
            Document(
                key=f"{key}/{side}",
                title=_text(path, number, line, f"{side}_title", ""),
                text=_text(path, number, line, f"{side}_text", None),
            )
            for side in "ab"
        )
        trivial = line.get("jaccard_char5") == 1 or a.text == b.text
        kind = _writable(line.get("type", ""))
        found.append(Pair(key, a, b, bool(line["label"]), kind, trivial))
    if not found:
        raise InputError(f"{path}: no labelled pair; write lines with a label 1 or 0")
    return found
