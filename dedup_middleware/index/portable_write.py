"""Writing a portable file: under another name first, checked, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.errors import DedupError
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.portable_format import (
    PREFIX,
    Checksum,
    arrow,
    metadata_of,
    schema,
    to_arrow,
)
from dedup_middleware.index.portable_read import read_portable
from dedup_middleware.newfiles import PRIVATE, make

if TYPE_CHECKING:
    from typing_extensions import Self

_ROWS = 50_000  # of a row group, at most


@attrs.frozen
class Written:
    """A finished file: its number of pages, its checksum and its bytes."""

    pages: int
    checksum: str
    bytes: int


class PortableWriter:
    """Writes pages to a portable file.

    Use it in a ``with`` block. Nothing is written to ``path`` before :meth:`finish`, which replaces
    an existing file. The unfinished file is in :attr:`folder` next to it, which is removed at the
    end; a process that is killed leaves it behind.

    :param path: the file to be
    :param parameters: of the index, with its hash key
    :raises DedupError: pyarrow is not installed, or the folder can't be written to
    """

    def __init__(self, path: str | Path, parameters: Mapping[str, str]) -> None:
        pa = arrow()
        self._path = Path(path)
        try:
            self._room = tempfile.TemporaryDirectory(
                dir=self._path.parent, prefix=f".{self._path.name}-", suffix=".part"
            )
        except OSError as error:
            raise DedupError(f"{self._path} can't be written: {error}") from error
        self._unfinished = self.folder / "pages"
        make(self._unfinished, PRIVATE).close()  # it holds the index's key
        self._checksum = Checksum()
        self._writer = pa.parquet.ParquetWriter(
            self._unfinished,
            schema().with_metadata(metadata_of(parameters)),
            compression="zstd",
            # Hashes are all different; a dictionary of them would only cost time.
            use_dictionary=["size", "time"],
        )

    @property
    def folder(self) -> Path:
        """A folder for what is only needed until the file is finished."""
        return Path(self._room.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._room.cleanup()

    def write(self, pages: Pages) -> None:
        """Write further pages."""
        for start in range(0, len(pages), _ROWS):
            part = pages.part(start, start + _ROWS)
            self._checksum.add(part)
            self._writer.write_batch(to_arrow(part))

    def finish(self) -> Written:
        """Write the end, read the whole file again, and give it its name.

        :raises DedupError: what was read is not what was written
        """
        ends: dict[str, Any] = {
            PREFIX + "rows": str(self._checksum.rows),
            PREFIX + "checksum": self._checksum.value(),
        }
        self._writer.add_key_value_metadata(ends)
        self._writer.close()
        with self._unfinished.open("rb") as file:
            os.fsync(file.fileno())
        read_portable(self._unfinished).verify()
        size = self._unfinished.stat().st_size
        self._unfinished.replace(self._path)
        return Written(self._checksum.rows, self._checksum.value(), size)
