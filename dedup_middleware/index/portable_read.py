"""Reading a portable file, with or without an index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.errors import IndexRefusedError
from dedup_middleware.index.base import differences
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.portable_format import (
    FORMAT,
    PREFIX,
    Checksum,
    arrow,
    content_layout,
    fingerprint_of,
    from_arrow,
    schema,
)

ROWS = 50_000  # pages read at once


@attrs.frozen(kw_only=True)
class Portable:
    """A portable file; its columns are described in :mod:`.portable_format`.

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
            batches = _batches(file, size)
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
        # What is added when a file is finished stands with the file, not with its schema.
        raw = {**raw, **(file.metadata.metadata or {})}
        known = {
            key.decode()[len(PREFIX) :]: value.decode()
            for key, value in raw.items()
            if key.startswith(PREFIX.encode())
        }
        names, rows = file.schema_arrow.names, file.metadata.num_rows
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
        content: dict[str, str] = json.loads(known["content"])
        parameters: dict[str, str] = json.loads(known["parameters"])
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
    missing = set(schema().names) - set(names)
    if missing:
        raise _damaged(path, f"the columns {', '.join(sorted(missing))} are missing")
    if stated != str(rows):
        raise _damaged(path, f"it says {stated} pages and holds {rows}")
    if fingerprint != fingerprint_of(parameters):
        raise _damaged(path, "its parameters were changed")
    return Portable(path=path, parameters=parameters, rows=rows, checksum=checksum)


def _batches(file: Any, size: int) -> Iterator[Any]:
    """Rows of a Parquet file, at most ``size`` at a time."""
    # Asked for all groups of rows, pyarrow holds 220 bytes of memory for each row of the file.
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=size, row_groups=[group])


def _damaged(path: Path, what: str) -> IndexRefusedError:
    return IndexRefusedError(f"{path} is damaged: {what}; export the index again, or copy it anew")


def _opened(path: Path) -> Any:
    pa = arrow()
    if not path.is_file():
        raise IndexRefusedError(f"there is no file {path}: name one that an index was exported to")
    try:
        return pa.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise IndexRefusedError(
            f"{path} is no whole Parquet file: it is a file of another kind or was cut short "
            f"({error})"
        ) from error


class _explained:  # noqa: N801 - used like a function
    """Turns what a damaged file makes pyarrow raise into one error."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: object) -> None:
        pa = arrow()
        if isinstance(error, (pa.ArrowException, OSError, ValueError, KeyError, TypeError)):
            raise _damaged(self._path, f"{type(error).__name__}: {error}") from error
