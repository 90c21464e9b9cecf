"""The steps from fingerprints to the result; most of them write a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import ContentByEvidence
from dedup_middleware.model.documents import EMPTY, REVISIT
from dedup_middleware.spark import alone, verdicts
from dedup_middleware.spark.columns import EVERY_PAIR, limit_of
from dedup_middleware.spark.pair_blocks import SEARCHED, candidate_pairs, table_bit
from dedup_middleware.spark.reading import stored_pages
from dedup_middleware.spark.signing import (
    BY,
    DOUBTFUL,
    FIELDS,
    FILE,
    FILE_SHIFT,
    LATEST,
    LINE,
    ORDER,
    PREFIX,
)
from dedup_middleware.spark.stages import BATCH_BYTES, Job, Stages, in_parts

_RECORDS = 2_000_000  # records of blocks in one partition
_NUMBERS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
}
_READABLE = [name for name in FIELDS.names if name not in ("error", "raw")]
_SINGLE = ("order", "last", "copied", "named", "key_hash", "simhash", "content", "slots", "probes",
           "payload", "sieve")  # fmt: skip


def written(
    name: str, settings: dict[str, str] | None = None
) -> Callable[[Callable[[Steps], DataFrame]], cached_property[DataFrame]]:
    """Make a method of :class:`Steps` a cached property: a table written on first use, by
    :meth:`.Stages.table`."""

    def decorate(make: Callable[[Steps], DataFrame]) -> cached_property[DataFrame]:
        @wraps(make)
        def table(steps: Steps) -> DataFrame:
            return steps.stages.table(name, lambda: make(steps), settings)

        return cached_property(table)

    return decorate


@attrs.define(kw_only=True, slots=False)
class Steps:
    """The tables of one job, each made when first used."""

    stages: Stages
    pages: DataFrame
    options: Options
    job: Job
    method: Method

    @cached_property
    def _sorted(self) -> bool:
        return self.job.keep != "first" or self.job.order_by is not None

    @cached_property
    def dates(self) -> tuple[int, int]:
        """Numbers of pages, and of those without a date, if dates order them; else zeros."""
        if self.job.keep != "earliest-date":
            return 0, 0
        pages = self.pages.where(f"{PREFIX}error IS NULL")
        ((read, undated),) = pages.selectExpr(
            "count(*)", f"count_if({PREFIX}rank = {LATEST}L)"
        ).collect()
        return read, undated

    @cached_property
    def ordered(self) -> DataFrame:
        """Every page that was read, with its ``order``, without columns of the input."""
        names = [f"{PREFIX}{name} AS {name}" for name in _READABLE]
        by = [f"{BY} AS by"] if BY in self.pages.columns else []
        narrow = self.pages.where(f"{PREFIX}error IS NULL").selectExpr(*names, *by)
        if not self._sorted:
            return narrow.withColumn("order", F.col("position"))
        keys = ["rank", *(["by"] if by else []), "position"]
        # The ids follow the partitions, which stay the same because this table is written.
        return self.stages.table(
            "work/ordered",
            lambda: narrow.sort(*keys).withColumn("order", F.monotonically_increasing_id()),
        )

    @cached_property
    def partitions(self) -> int:
        """Number of partitions for blocks: ``job.partitions``, or by the number of pages."""
        if self.job.partitions:
            return self.job.partitions
        old = 0 if self._old is None else self._old.count()
        pages = int(self.ordered.count() + old)
        cores = int(self.pages.sparkSession.sparkContext.defaultParallelism)
        return max(cores, -(-pages * 14 // _RECORDS))

    @written("work/groups")
    def _groups(self) -> DataFrame:
        """Pages (first, last, order, key_hash) that have exact copies, with the first and the last
        order of their group. A page whose key occurs again is a copy only of pages with that key,
        as its verdict depends on the key too."""
        pages = self.ordered.where("size > 0")
        again = pages.groupBy("key_hash").agg(F.count("*").alias("n")).where("n > 1")
        marked = pages.join(again, "key_hash", "left").selectExpr(
            "order", "twin", "key_hash", "n IS NOT NULL AS again", "if(n > 1, key_hash, 0) AS own"
        )
        same = ["twin", "again", "own"]
        ends = marked.groupBy(*same).agg(
            F.min("order").alias("first"), F.max("order").alias("last")
        )
        ends = ends.where("first < last")
        return marked.join(ends, same).select("first", "last", "order", "key_hash")

    @written("work/single")
    def single(self) -> DataFrame:
        """The first page of each group of exact copies, and the pages of an exported index."""
        # Most pages have no copy: joining the few groups avoids a shuffle of all pages.
        groups = self._groups.select("order", "first", "last")
        own = (
            self.ordered.where("size > 0")
            .join(groups, "order", "left")
            .where("first IS NULL OR first = order")
            .withColumn("copied", F.col("last").isNotNull())
            .withColumn("last", F.coalesce("last", "order"))
            .select(*_SINGLE)
        )
        return own if self._old is None else own.unionByName(self._old.select(*_SINGLE))

    @cached_property
    def _old(self) -> DataFrame | None:
        if self.job.against is None:
            return None
        return stored_pages(self.pages.sparkSession, self.job.against)

    @cached_property
    def _copies(self) -> DataFrame:
        """Exact copies (page, candidate, same): the first page of a group, a copy of it, and
        whether their keys are equal."""
        first = self._groups.where("order = first").selectExpr("first", "key_hash AS own")
        copies = self._groups.where("order <> first").join(first, "first")
        return copies.selectExpr("first AS page", "order AS candidate", "key_hash = own AS same")

    @written("work/pairs", _NUMBERS)
    def _pairs(self) -> DataFrame:
        """Pairs of pages and candidates, found by :mod:`.pair_blocks`."""
        # A near miss may have more new words than a duplicate.
        limit = EVERY_PAIR if self.job.near else limit_of(self.method)
        found = candidate_pairs(
            self.single, self.job, self.method.scan_distance, limit, self.partitions
        )
        # Two pages may share several anchors of one table and so pair several times.
        return found.distinct() if isinstance(self.method, ContentByEvidence) else found

    def _with_judged(self, some: DataFrame) -> DataFrame:
        """Add the column ``judged`` to pages. It is the longest column, and few pages need it."""
        return some.join(self.ordered.select("order", "judged"), "order")

    def _to_judge(self, pairs: DataFrame, *more: str) -> DataFrame:
        """Return rows for :func:`.judge_pairs`: own rows of pages and rows of candidates."""
        theirs = self.single.selectExpr(
            "order AS candidate", "slots AS places", "content", "payload"
        )
        rows = pairs.join(theirs, "candidate").selectExpr(
            "page", f"{verdicts.CANDIDATE} AS kind", "candidate", "places", "content", "payload"
        )
        # Most pages have no candidates.
        searching = pairs.selectExpr("page AS order").distinct()
        own = self._with_judged(self.single.join(searching, "order", "left_semi")).selectExpr(
            "order AS page", f"{verdicts.OWN} AS kind", "CAST(NULL AS bigint) AS candidate",
            f"{SEARCHED} AS places", "content", "judged AS payload", *more,
        )  # fmt: skip
        return self._by_page(own.unionByName(rows, allowMissingColumns=True))

    @written("work/edges", _NUMBERS)
    def edges(self) -> DataFrame:
        """Contested pages and the candidates that matter to them, by :func:`.judge_pairs`."""
        return self._to_judge(self._pairs).mapInArrow(
            partial(verdicts.judge_pairs, options=self.options), from_arrow_schema(verdicts.EDGES)
        )

    def _by_page(self, rows: DataFrame) -> DataFrame:
        return rows.repartition(self.partitions, "page").sortWithinPartitions(
            "page", "kind", "candidate"
        )

    @written("work/settled", _NUMBERS)
    def settled(self) -> DataFrame:
        """The order at which each contested page was kept, see :func:`.verdicts.settled`."""
        copies = self._copies.select("page", "candidate")
        return verdicts.settled(
            self.edges, copies, self.method, self.job.settle,
            lambda table, name: self.stages.table(f"work/{name}", lambda: table),
        )  # fmt: skip

    @written("work/matches", _NUMBERS)
    def matches(self) -> DataFrame:
        """Dropped pages and their matches, by :func:`.match_pages`, or for small jobs by
        :mod:`.alone` without the steps before this one."""
        found = self._alone()
        if found is not None:
            return self.stages.session.createDataFrame(found)
        return self._by_page(self._to_match()).mapInArrow(
            partial(verdicts.match_pages, options=self.options), from_arrow_schema(verdicts.MATCHES)
        )

    @cached_property
    def _few(self) -> tuple[list[Path], dict[str, str]] | None:
        """Files of the fingerprints of a small local job, and for each column of
        :data:`.alone.EVERY` its name in the files; None: Spark makes all tables."""
        if self.job.near or self.job.against is not None:
            return None
        cores = self.stages.session.sparkContext.defaultParallelism
        if not self.job.alone or self.stages.rows("work/pages") * cores > self.job.alone:
            return None
        _ = self.ordered  # writes the table, unless it is the pages themselves
        files = self.stages.local_files("work/ordered" if self._sorted else "work/pages")
        if files is None:
            return None
        prefix = "" if self._sorted else PREFIX
        own = {name: f"{prefix}{name}" for name in (*alone.EVERY, "key")}
        own["order"] = "order" if self._sorted else f"{PREFIX}position"
        return files, own

    def _alone(self) -> Any:
        """Return the matches found by :mod:`.alone`, or None if Spark has to find them."""
        pages = self.stages.local_files("work/pages")
        if pages is None:
            return None
        folder = pages[0].parents[1] / "alone"
        shutil.rmtree(folder, ignore_errors=True)  # left by a job that was killed
        if self._few is None or self.options.probes:
            return None
        self.stages.note("work/alone")
        files, names = self._few
        folder.mkdir(exist_ok=True)
        try:
            session = self.stages.session
            parts = partial(in_parts, session, folder)
            cores = session.sparkContext.defaultParallelism
            return alone.matches(files, names, self.options, self.job, parts, cores)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _to_match(self) -> DataFrame:
        """Return rows for :func:`.match_pages`: pages that were dropped or have copies."""
        pages = self.single.where("order >= 0").join(self._state("order"), "order", "left")
        found = pages.where("copied OR contested AND (kept_at IS NULL OR kept_at <> order)")
        own = self._with_judged(found).selectExpr(
            "order AS page", f"{verdicts.OWN} AS kind",
            f"aggregate(slots, 0L, (mask, one) -> mask | {table_bit('one')}) AS tables",
            "CAST(named AS bigint) AS flags", "content", "judged AS payload",
            "if(contested, kept_at, order) AS kept_at",
        )  # fmt: skip
        theirs = (
            self.edges.where("candidate IS NOT NULL")
            .join(own.select("page"), "page", "left_semi")
            .join(self._state("candidate"), "candidate", "left")
            .where("contested IS NULL OR kept_at IS NOT NULL")
            .selectExpr(
                "page", f"{verdicts.CANDIDATE} AS kind",
                "coalesce(kept_at, candidate) AS candidate", "tables", "content", "payload",
            )
        )  # fmt: skip
        copies = self._copies.selectExpr(
            "page", f"{verdicts.COPY} AS kind", "candidate", "CAST(same AS bigint) AS flags"
        )
        return own.unionByName(theirs, allowMissingColumns=True).unionByName(
            copies, allowMissingColumns=True
        )

    def _state(self, name: str) -> DataFrame:
        """Return the contested pages (``name``, kept_at, contested); ``name`` is the column of
        their orders."""
        return self.settled.selectExpr(f"page AS {name}", "kept_at", "true AS contested")

    @cached_property
    def _keys(self) -> DataFrame:
        """Keys (order, key) of all pages, including those of an exported index."""
        keys = self.ordered.select("order", "key")
        return keys if self._old is None else keys.union(self._old.select("order", "key"))

    @written("duplicates")
    def duplicates(self) -> DataFrame:
        """Dropped pages with their matches; see ``docs/spark.md``."""
        matches = self.matches
        if self._few is not None and (files := self.stages.local_files("work/matches")):
            pages, own = self._few
            names = [own[name] for name in ("order", "key", "size")]
            found = alone.duplicates(files, pages, names, self.options)
            return self.stages.session.createDataFrame(found)
        names = self._keys.selectExpr("order AS match", "key AS match_key")
        found = (
            matches.join(self.ordered.select("order", "key"), "order")
            .join(names, "match", "left")
            .select(
                "order", "key", "match", "match_key",
                "outcome", "reason", "similarity", "jaccard", "distance", "tables",
            )
        )  # fmt: skip
        if not is_dropped(REVISIT, self.options):
            found = found.where(f"outcome <> '{REVISIT}'")
        if is_dropped(EMPTY, self.options):
            empty = self.ordered.where("size = 0").selectExpr(
                "order", "key", f"'{EMPTY}' AS outcome", "'no-text' AS reason"
            )
            found = found.unionByName(empty, allowMissingColumns=True)
        return found

    @written("kept")
    def kept(self) -> DataFrame:
        """Input rows of the kept pages."""
        own = [f"{PREFIX}{name}" for name in FIELDS.names if name not in ("position", "key")]
        place = f"{PREFIX}position"
        pages = self.pages.where(f"{PREFIX}error IS NULL").drop(*own, BY, DOUBTFUL)
        if self._sorted:
            orders = self.ordered.selectExpr(f"position AS {place}", f"order AS {ORDER}")
            pages = pages.join(orders, place)
        else:
            pages = pages.withColumn(ORDER, F.col(place))
        dropped = self.duplicates.selectExpr(f"order AS {ORDER}")
        left = pages.join(dropped, ORDER, "left_anti").drop(place)
        if LINE in left.columns:
            left = left.select(F.decode(LINE, "UTF-8").alias("line"), "*").drop(LINE)
        return left

    @written("clusters")
    def clusters(self) -> DataFrame:
        """Kept pages, each with the pages dropped for it, and near misses if ``job.near``."""
        duplicates = self.duplicates
        if self._few is not None and (files := self.stages.local_files("duplicates")):
            return self.stages.session.createDataFrame(alone.clusters(files))
        found = duplicates.where("match IS NOT NULL").selectExpr(
            "match AS cluster", "order", "match_key AS stored", "outcome AS kind", "key", "reason",
            "similarity",
        )  # fmt: skip
        if self.job.near:
            found = found.unionByName(self._near())
        return (
            found.repartition("cluster")
            .sortWithinPartitions("cluster")
            .mapInArrow(verdicts.with_kept, from_arrow_schema(verdicts.CLUSTERS))
        )

    def _near(self) -> DataFrame:
        """Return near misses found by :func:`.near_pages`, with the columns of clusters."""
        # A dropped page may have an exact copy that was kept later.
        kept = (
            self.single.select("order")
            .join(self._state("order"), "order", "left")
            .selectExpr("order", "if(contested, kept_at, order) AS at")
            .where("at IS NOT NULL")
        )
        pages = kept.selectExpr("order AS page", "at AS page_at")
        candidates = kept.selectExpr("order AS candidate", "at AS other_at")
        pairs = (
            self._pairs.join(pages, "page")
            .join(candidates, "candidate")
            .where("other_at < page_at")
            .select("page", "candidate")
        )
        rows = self._to_judge(pairs, "named")
        found = rows.mapInArrow(
            partial(verdicts.near_pages, options=self.options),
            from_arrow_schema(verdicts.NEAR_MISSES),
        )
        return (
            found.join(pages, "page")
            .join(candidates, "candidate")
            .selectExpr(
                "other_at AS cluster", "page_at AS order", "'near' AS kind", "reason", "similarity"
            )
            .join(self._keys.selectExpr("order AS cluster", "key AS stored"), "cluster", "left")
            .join(self.ordered.select("order", "key"), "order")
        )

    def doubtful(self) -> tuple[int, str]:
        """Return how many rows of CSV may contain other rows, and where the first one is."""
        if DOUBTFUL not in self.pages.columns:
            return 0, ""
        some = self.pages.where(f"{DOUBTFUL} AND {PREFIX}error IS NULL")
        place = f"{PREFIX}position"
        ((count, position, file),) = some.selectExpr(
            "count(*)", f"min({place})", f"min_by({FILE}, {place})"
        ).collect()
        if not count:
            return 0, ""
        return count, f"row {position % (1 << FILE_SHIFT)} of {unquote(file)}"

    @written("work/index")
    def index(self) -> DataFrame:
        """Records of the kept pages for an index, in order, as a crawl would have stored them."""
        gone = self.matches.select("order")
        pages = self.ordered.where("size > 0").join(gone, "order", "left_anti")
        return pages.select("order", "key", "named", "content", "slots", "payload").sort("order")

    @written("rejects")
    def rejects(self) -> DataFrame:
        """Rows that could not be read, and why."""
        place, row = f"{PREFIX}position", f"{PREFIX}position & {(1 << FILE_SHIFT) - 1}L"
        if LINE in self.pages.columns:  # Spark counts lines within the parts of a file only
            row = "CAST(NULL AS bigint)"
        file = [f"{FILE} AS file", f"{row} AS row"] if FILE in self.pages.columns else []
        return self.pages.where(f"{PREFIX}error IS NOT NULL").selectExpr(
            *file,
            f"{place} AS position",
            f"{PREFIX}error AS reason",
            f"{PREFIX}raw AS raw",
        )
