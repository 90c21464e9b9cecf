"""From the result of a job to an index, so that a crawl goes on against the archive."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import Pages, starts_of
from dedup_middleware.index.parameters import HASH_KEY, RECORD, RecordLayout
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import cut_address
from dedup_middleware.spark.against import hash_key_in_use
from dedup_middleware.spark.columns import to_content, words
from dedup_middleware.spark.job_settings import job_options
from dedup_middleware.spark.stages import listed
from dedup_middleware.spark.steps import Steps
from dedup_middleware.tools.portable.file_reader import read_portable
from dedup_middleware.tools.portable.file_writer import Exported, PortableWriter
from dedup_middleware.tools.portable.portable import Imported, import_index

_ROWS = 50_000  # pages in memory at once

Progress = Callable[[int, int], None]


def index_parameters(options: Options, key: str = "") -> dict[str, str]:
    """Parameters of an index that holds what a job with these options keeps.

    :param key: the whole key of the index, of which the options have a part
    """
    options = job_options(options)
    method = choose_method(options)
    layout = RecordLayout(method.fields, text=options.keep_address or method.keeps_payload)
    return {
        **Fingerprinter(options, 0).parameters,
        RECORD: layout.parameter,
        HASH_KEY: key or f"{int(options.hash_key, 16):032x}",
    }


def index_table(steps: Steps) -> DataFrame:
    """What an index keeps of the kept pages, in their order: pages that a crawl had stored."""

    def made() -> DataFrame:
        gone = steps.matches.select("order")
        pages = steps.ordered.where(F.col("size") > 0).join(gone, "order", "left_anti")
        return pages.select("order", "key", "named", "content", "slots", "payload").sort("order")

    return steps.stages.table("work/index", made)


def write_index_file(steps: Steps, path: str | Path, key: str = "") -> Exported:
    """Write the kept pages to one file, as ``scrapy dedup export`` does.

    It can be imported into an index of any kind, and a later job can read new pages ``against`` it.

    :param path: on this machine, replaced if it exists
    :param key: the whole key of the index that it is for
    :raises DedupError: the file can't be written
    """
    table = index_table(steps)
    names = listed(table.sparkSession, steps.stages.path("work/index"))
    if not key and steps.job.against is not None:
        key = read_portable(steps.job.against).parameters[HASH_KEY]
    with PortableWriter(path, index_parameters(steps.options, key)) as writer:
        # Spark names the parts of a sorted table in their order.
        for name in sorted(names):
            for batch in _batches(name):
                writer.write(_pages(batch, steps.options.keep_address))
        return writer.finish()


def _batches(path: str) -> Iterator[Any]:
    parts = urlsplit(path)
    if parts.scheme in {"", "file"}:
        with pq.ParquetFile(unquote(parts.path)) as file:
            yield from file.iter_batches(_ROWS)
        return
    from pyarrow.fs import FileSystem

    files, name = FileSystem.from_uri(path)
    with files.open_input_file(name) as raw, pq.ParquetFile(raw) as file:
        yield from file.iter_batches(_ROWS)


def _pages(batch: Any, keep_address: bool) -> Pages:
    bucket_keys = batch.column("slots")
    named = batch.column("named").to_pylist()
    keys = batch.column("key").to_pylist()
    return Pages(
        to_content(batch.column("content")),
        [
            cut_address(key) if name and keep_address else None
            for key, name in zip(keys, named, strict=True)
        ],
        batch.column("payload").to_pylist(),
        np.zeros(batch.num_rows, np.uint32),
        words(pa.compute.list_flatten(bucket_keys)).astype(np.uint64),
        starts_of(words(pa.compute.list_value_length(bucket_keys))),
    )


async def with_key_of_index(options: Options, index: Index) -> Options:
    """Options with the hash key of the index that a job shall be loaded into.

    :param index: closed afterwards
    :raises OptionsError: there is no index yet, and no ``DEDUP_HASH_KEY``
    """
    try:
        stored = await index.attach()
    except IndexRefusedError:
        if not options.hash_key:
            raise OptionsError(
                "DEDUP_HASH_KEY", options.hash_key,
                "the index does not exist yet, and a job must know its key: give a random "
                "hexadecimal number of 16 digits, the same in every run",
            ) from None  # fmt: skip
        return options
    finally:
        await index.close()
    return attrs.evolve(options, hash_key=hash_key_in_use(stored))


async def load(steps: Steps, index: Index, progress: Progress | None = None) -> Imported:
    """Enter the kept pages into an index, as committed ones.

    Pages that are there already are passed over, so a load that was broken off may be repeated.

    :param index: made if it does not exist; open afterwards
    :raises IndexRefusedError: it was made with other parameters, or another hash key
    :raises IndexUnavailableError: it can't be reached
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.parquet"
        write_index_file(steps, path, await _whole_key(steps, index))
        return await import_index(index, path, progress)


async def _whole_key(steps: Steps, index: Index) -> str:
    """The key of an index whose lower half is that of the job; empty for any other."""
    try:
        stored = await index.attach()
    except IndexRefusedError:
        return ""
    same = int(hash_key_in_use(stored), 16) == int(steps.options.hash_key, 16)
    return stored[HASH_KEY] if same else ""
