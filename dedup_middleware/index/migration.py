"""From an index of an older schema to a new one.

The old index is read, never written: spiders of the older version that still use it are not
disturbed, and a migration that is broken off is begun again. It is a copy because clients look at
the schema only when they connect; one that was changed under them would be damaged by them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dedup_middleware.errors import OptionsError
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.portable import Imported, Progress, export_index, import_index
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from dedup_middleware.index.base import Index
    from dedup_middleware.index.schema1 import OldIndex


async def migrate(
    source: Options,
    target: Options,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Copy all committed pages of an index of schema 1 into a new index, which is made if need be.

    The spiders are switched to the new one by their settings; then the old one can be removed.

    :param source: ``index_url`` and ``namespace`` of the old index
    :param target: the same of the new one, on any back end; another one than the old
    :param folder: where to put about 250 bytes a page aside meanwhile; None: the system's own
    :param progress: called now and then with the number of pages entered and of all
    :raises IndexRefusedError: there is no index of schema 1, or the new one is of other parameters
    :raises IndexUnavailableError: one of the two can't be reached
    :raises OptionsError: both are the same, or the old one is in memory
    """
    if (source.index_url, source.namespace) == (target.index_url, target.namespace):
        raise OptionsError(
            "DEDUP_NAMESPACE", target.namespace, "name another index than the old one"
        )
    old = _open_old(source)
    new = open_index(target)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as room:
            file = Path(room) / "pages.parquet"
            await export_index(cast("Index", old), file)
            return await import_index(new, file, progress)
    finally:
        await old.close()
        await new.close()


def _open_old(options: Options) -> OldIndex:
    from dedup_middleware.index.schema1 import OldRedis, OldSQLite

    scheme, _, rest = options.index_url.partition(":")
    if scheme == "memory":
        raise OptionsError(
            "DEDUP_INDEX_URL", options.safe_index_url, "name an index that outlives us"
        )
    return OldSQLite(rest) if scheme == "sqlite" else OldRedis(options)
