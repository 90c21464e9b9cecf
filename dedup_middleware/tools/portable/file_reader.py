"""Reading a portable file, with or without an index."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.index.base import differences
from dedup_middleware.index.pages import MOST_BUCKET_KEYS, Pages
from dedup_middleware.index.parameters import check_hash_key
from dedup_middleware.tools.portable.format import (
    FORMAT,
    PREFIX,
    Checksum,
    arrow,
    content_layout,
    fingerprint_of,
    from_arrow,
    schema,
)
from dedup_middleware.tools.portable.parquetpages import (
    BY_DICTIONARY,
    BYTE_ARRAY,
    INT64,
    PLAIN,
    Chunk,
    read_groups,
)

ROWS = 50_000  # pages read at once
_FEWER_ROWS: Final = 1024  # the same, where they are long
_LONG: Final = 1 << 26  # bytes of the texts of a group of rows, from which on they are long
# Beyond what an export writes: 50,000 rows a group, 255 bucket keys a row, pages of 1 MB or of
# 1,024 payloads.
_MOST_ROWS: Final = 1 << 20
_MOST_VALUES: Final = 1 << 24
_LARGEST_PAGE: Final = 1 << 27
_LEAST_BYTES: Final = 2  # of the file, for each page: its hashes alone are more
# What pyarrow may take for the end of the file: a text of 1 MB, lists of 100,000 things.
_END: Final = {"thrift_string_size_limit": 1 << 20, "thrift_container_size_limit": 100_000}


@attrs.frozen(kw_only=True)
class Portable:
    """A portable file; its columns are described in :mod:`.format`.

    ``parameters``: of the index it was exported from, the hash key included; ``rows``: number of
    pages; ``checksum``: what their columns must add up to.
    """

    path: Path
    parameters: Mapping[str, str] = attrs.field(repr=False)
    rows: int
    checksum: str

    def pages(self, size: int = ROWS) -> Iterator[Pages]:
        """All pages, at most ``size`` at a time.

        :raises IndexRefusedError: the file is damaged; its checksum is known to be right only when
            all pages are read
        """
        found = Checksum()
        with _opened(self.path) as file:
            with _explained(self.path):
                batches = _batches(file, size, _check_sizes(self.path, self.rows))
            while True:
                with _explained(self.path):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    pages = from_arrow(batch)
                found.add(pages)
                yield pages
        if (found.rows, found.value()) != (self.rows, self.checksum):
            raise _damaged(
                self.path, f"it holds {found.rows} pages that do not add up to its checksum"
            )

    def verify(self) -> None:
        """Read the whole file and compare it with its checksum.

        :raises IndexRefusedError: the file is damaged
        """
        for _ in self.pages():
            pass


def read_portable(path: str | Path) -> Portable:
    """Open a portable file: its parameters, and its pages as columns.

    :raises IndexRefusedError: it is none, is damaged, or of another version; says which
    :raises DedupError: pyarrow is not installed
    """
    path = Path(path)
    with _opened(path) as file, _explained(path):
        raw = file.schema_arrow.metadata or {}
        # Metadata added when a file is finished belongs to the file, not to its schema.
        raw = {**raw, **(file.metadata.metadata or {})}
        known = {
            key.decode()[len(PREFIX) :]: value.decode()
            for key, value in raw.items()
            if key.startswith(PREFIX.encode())
        }
        columns, rows = file.schema_arrow, file.metadata.num_rows
    if "format" not in known:
        raise IndexRefusedError(
            f"{path} is a Parquet file, but no index was exported to it: name another file"
        )
    if known["format"] != FORMAT:
        raise IndexRefusedError(
            f"{path} has format {known['format']!r}, this version of dedup-middleware knows "
            f"{FORMAT!r}: use the version that made it"
        )
    with _explained(path):
        content, parameters = _texts(known["content"]), _texts(known["parameters"])
        stated, fingerprint, checksum = known["rows"], known["fingerprint"], known["checksum"]
    lines = differences(content, content_layout())
    if lines:
        raise IndexRefusedError(
            f"{path} was made by another version of dedup-middleware, which keeps other fields of "
            "a page:\n  "
            + "\n  ".join(
                line.replace("the index has", "the file has").replace(
                    "the settings ask for", "this version knows"
                )
                for line in lines
            )
            + "\nUse the version that made it."
        )
    _check_columns(columns, path)
    if stated != str(rows):
        raise _damaged(path, f"it says {stated} pages and holds {rows}")
    if fingerprint != fingerprint_of(parameters):
        raise _damaged(path, "its parameters were changed")
    check_hash_key(parameters, str(path))
    with _explained(path):
        _check_sizes(path, rows)
    return Portable(path=path, parameters=parameters, rows=rows, checksum=checksum)


def _texts(raw: str) -> dict[str, str]:
    """Names and texts written as JSON.

    :raises ValueError: it is something else
    """
    found = json.loads(raw)
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError("its description holds something else than names and texts")
    return found


def _check_columns(columns: Any, path: Path) -> None:
    """Refuse columns that an export does not write, or of other types."""
    pa, wanted = arrow(), schema()
    missing = set(wanted.names) - set(columns.names)
    if missing:
        raise _damaged(path, f"the columns {', '.join(sorted(missing))} are missing")
    if len(columns.names) != len(wanted.names):
        raise _damaged(path, "it has other columns than an export writes")
    for field in wanted:
        found, given = columns.field(field.name).type, field.type
        # The name of a list's elements depends on who wrote the file.
        if pa.types.is_list(found) and pa.types.is_list(given):
            found, given = found.value_type, given.value_type
        if found != given:
            raise _damaged(path, f"the column {field.name} is of type {found}, not {given}")


def _check_sizes(path: Path, rows: int) -> list[int]:
    """Refuse a file that would take more memory than an export does; nothing is unpacked yet.

    :param rows: that it says it has
    :returns: how many rows of each group can be read at once
    :raises ValueError: what is too large
    """
    most = max(ROWS, path.stat().st_size // _LEAST_BYTES)
    if rows > most:
        raise ValueError(f"it claims {rows:,} pages, and its size allows {most:,} at most")
    with path.open("rb") as raw:
        groups = read_groups(raw)
    if sum(group.rows for group in groups) != rows:
        raise ValueError("its groups of rows do not add up to its pages")
    at_once = []
    for group in groups:
        if group.rows > _MOST_ROWS:
            raise ValueError(f"a group of {group.rows:,} rows: an export writes {ROWS:,}")
        texts = sum(_text_bytes(chunk, group.rows) for chunk in group.chunks)
        at_once.append(ROWS if texts <= _LONG else _FEWER_ROWS)
    return at_once


def _text_bytes(chunk: Chunk, rows: int) -> int:
    """Bytes of a column chunk, unpacked, if they are texts; 0 for numbers.

    :raises ValueError: it is larger than it can be, or written as no export writes it
    """
    name, is_text = chunk.name, chunk.kind == BYTE_ARRAY
    most = min(_MOST_VALUES, rows * MOST_BUCKET_KEYS) if chunk.repeated else rows
    if chunk.values > most or (not chunk.repeated and chunk.values != rows):
        raise ValueError(f"the column {name} has {chunk.values:,} values for {rows:,} pages")
    if chunk.largest > _LARGEST_PAGE:
        raise ValueError(f"a part of the column {name} takes {chunk.largest:,} bytes unpacked")
    # A dictionary of texts, or of their beginnings, would unpack to any size.
    known = PLAIN if is_text else PLAIN | BY_DICTIONARY
    if chunk.encodings - known or chunk.kind not in {INT64, BYTE_ARRAY}:
        raise ValueError(f"the column {name} is encoded in a way that an export does not use")
    return chunk.size if is_text else 0


def _batches(file: Any, size: int, at_once: list[int]) -> Iterator[Any]:
    """Rows of a Parquet file, at most ``size`` at a time, and ``at_once`` of each group."""
    # Asked for all groups of rows, pyarrow holds 220 bytes of memory for each row of the file.
    for group, most in enumerate(at_once):
        yield from file.iter_batches(batch_size=min(size, most), row_groups=[group])


def _damaged(path: Path, what: str) -> IndexRefusedError:
    return IndexRefusedError(f"{path} is damaged: {what}; export the index again, or copy it anew")


def _opened(path: Path) -> Any:
    pa = arrow()
    if not path.is_file():
        raise IndexRefusedError(f"there is no file {path}: name one that an index was exported to")
    try:
        # Read as it is needed, not each column of a group as a whole.
        return pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, **_END)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise IndexRefusedError(
            f"{path} is no whole Parquet file: it is a file of another kind or was cut short "
            f"({error})"
        ) from error


# What NumPy and Python raise for malformed values.
_FAULTS: Final = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes pyarrow raise into one error."""
    try:
        yield
    except DedupError:
        raise
    except (arrow().ArrowException, OSError, MemoryError, RecursionError, *_FAULTS) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
