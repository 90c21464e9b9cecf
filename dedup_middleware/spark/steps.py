"""The steps from fingerprints to the result, each a table that is written down."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import ContentByEvidence
from dedup_middleware.model.documents import EMPTY, REVISIT
from dedup_middleware.spark import alone
from dedup_middleware.spark.columns import EVERY_PAIR, limit_of
from dedup_middleware.spark.job_settings import BATCH_BYTES, Job
from dedup_middleware.spark.pair_blocks import candidate_pairs, searched, table_bit
from dedup_middleware.spark.reading import stored_pages
from dedup_middleware.spark.settling import settled
from dedup_middleware.spark.signing import BY, FIELDS, FILE, LINE, ORDER, PREFIX
from dedup_middleware.spark.stages import Stages
from dedup_middleware.spark.verdicts import (
    CANDIDATE,
    COPY,
    EDGES,
    MATCHES,
    NEAR_MISSES,
    OWN,
    judge_pairs,
    match_pages,
    near_pages,
)

_RECORDS = 2_000_000  # of blocks, in one partition
_NUMBERS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
}
_SINGLE = ("order", "last", "copied", "named", "key_hash", "simhash", "content", "slots", "probes",
           "payload", "sieve")  # fmt: skip


def written(
    name: str, settings: dict[str, str] | None = None
) -> Callable[[Callable[[Steps], DataFrame]], cached_property[DataFrame]]:
    """Make a method of :class:`Steps` a property: a table that is written down when it is first
    needed, as :meth:`.Stages.table` does."""

    def decorate(make: Callable[[Steps], DataFrame]) -> cached_property[DataFrame]:
        @wraps(make)
        def table(steps: Steps) -> DataFrame:
            return steps.stages.table(name, lambda: make(steps), settings)

        return cached_property(table)

    return decorate


@attrs.define(kw_only=True, slots=False)
class Steps:
    """The tables of one job.

    :param pages: see :mod:`.signing`
    """

    stages: Stages
    pages: DataFrame
    options: Options
    job: Job
    method: Method

    def _own(self, name: str) -> str:
        return f"{PREFIX}{name}"

    @cached_property
    def _sorted(self) -> bool:
        return self.job.keep != "first" or self.job.order_by is not None

    @cached_property
    def ordered(self) -> DataFrame:
        """Every page that was read, with its ``order``: narrow, without the input's columns."""
        names = [name for name in FIELDS.names if name not in ("error", "raw")]
        readable = self.pages.where(F.col(self._own("error")).isNull())
        by = [F.col(BY).alias("by")] if BY in self.pages.columns else []
        narrow = readable.select(*(F.col(self._own(name)).alias(name) for name in names), *by)
        if not self._sorted:
            return narrow.withColumn("order", F.col("position"))
        keys = ["rank", *(["by"] if by else []), "position"]
        # Numbers of a partition and within it: both are written down and stay as they are.
        return self.stages.table(
            "work/ordered",
            lambda: narrow.sort(*keys).withColumn("order", F.monotonically_increasing_id()),
        )

    @cached_property
    def partitions(self) -> int:
        """Number of partitions for blocks, by the number of pages."""
        if self.job.partitions:
            return self.job.partitions
        old = 0 if self._old is None else self._old.count()
        pages = int(self.ordered.count() + old)
        cores = int(self.pages.sparkSession.sparkContext.defaultParallelism)
        return max(cores, -(-pages * 14 // _RECORDS))

    @written("work/groups")
    def _groups(self) -> DataFrame:
        """Pages that have exact copies, with the orders ``first`` and ``last`` of all of them.

        A page whose key occurs again is an exact copy only of pages of that key, since its key
        decides as well.
        """
        pages = self.ordered.where(F.col("size") > 0)
        again = pages.groupBy("key_hash").agg(F.count("*").alias("n")).where("n > 1")
        marked = (
            pages.select("order", "twin", "key_hash")
            .join(again.select("key_hash", F.lit(True).alias("again")), "key_hash", "left")
            .withColumn("again", F.coalesce("again", F.lit(False)))
            .withColumn("own", F.when(F.col("again"), F.col("key_hash")).otherwise(F.lit(0)))
        )
        same = ["twin", "again", "own"]
        ends = marked.groupBy(*same).agg(
            F.min("order").alias("first"), F.max("order").alias("last")
        )
        ends = ends.where("first < last")
        return marked.join(ends, same).select("first", "last", "order", "key_hash")

    @written("work/single")
    def single(self) -> DataFrame:
        """One page of each group of exact copies: the first; and those of an index."""
        # Most pages have no copy: the few groups are brought to the pages, not both together.
        groups = self._groups.select("order", "first", "last")
        own = (
            self.ordered.where(F.col("size") > 0)
            .join(groups, "order", "left")
            .where(F.coalesce(F.col("first") == F.col("order"), F.lit(True)))
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
        """Exact copies (page, candidate, same): of which page, the copy, whether of one key."""
        first = self._groups.where(F.col("order") == F.col("first")).select(
            "first", F.col("key_hash").alias("own")
        )
        copies = self._groups.where(F.col("order") != F.col("first"))
        return copies.join(first, "first").select(
            F.col("first").alias("page"),
            F.col("order").alias("candidate"),
            (F.col("key_hash") == F.col("own")).alias("same"),
        )

    @written("work/pairs", _NUMBERS)
    def _pairs(self) -> DataFrame:
        """Pages with their candidates, by :mod:`.pair_blocks`."""
        # A near miss may have more words of its own than a duplicate.
        limit = EVERY_PAIR if self.job.near else limit_of(self.method)
        found = candidate_pairs(
            self.single, self.job, self.method.scan_distance, limit, self.partitions
        )
        # Pages may share several anchors of one table, each of which makes them a pair.
        return found.distinct() if isinstance(self.method, ContentByEvidence) else found

    def _with_judged(self, some: DataFrame) -> DataFrame:
        """Some pages of the input with ``judged``, the longest column: few steps need it."""
        return some.join(self.ordered.select("order", "judged"), "order")

    def _to_judge(self, pairs: DataFrame, *more: str) -> DataFrame:
        """Rows for :func:`.judge_pairs`: of each page its own and those of its candidates.

        :param pairs: (page, candidate)
        :param more: further columns of the page's own row
        """
        of_page = ("content", "payload")
        theirs = self.single.select(
            F.col("order").alias("candidate"), F.col("slots").alias("places"), *of_page
        )
        rows = pairs.join(theirs, "candidate").select(
            "page", F.lit(CANDIDATE).alias("kind"), "candidate", "places", *of_page
        )
        # Most pages have no candidates.
        searching = pairs.select(F.col("page").alias("order")).distinct()
        own = self._with_judged(self.single.join(searching, "order", "left_semi")).select(
            F.col("order").alias("page"),
            F.lit(OWN).alias("kind"),
            F.lit(None).cast("bigint").alias("candidate"),
            searched().alias("places"),
            "content",
            F.col("judged").alias("payload"),
            *more,
        )
        return self._by_page(own.unionByName(rows, allowMissingColumns=True))

    @written("work/edges", _NUMBERS)
    def edges(self) -> DataFrame:
        """Candidates that matter, by :func:`.judge_pairs`."""
        return self._to_judge(self._pairs).mapInArrow(
            judge_pairs(self.options), from_arrow_schema(EDGES)
        )

    def _by_page(self, rows: DataFrame) -> DataFrame:
        return rows.repartition(self.partitions, "page").sortWithinPartitions(
            "page", "kind", "candidate"
        )

    @written("work/settled", _NUMBERS)
    def settled(self) -> DataFrame:
        """When each contested page was kept, see :mod:`.settling`."""
        copies = self._copies.select("page", "candidate")
        return settled(
            self.edges, copies, self.method, self.job.settle,
            lambda table, name: self.stages.table(f"work/{name}", lambda: table),
        )  # fmt: skip

    @written("work/matches", _NUMBERS)
    def matches(self) -> DataFrame:
        """Dropped pages and the match of each, by :func:`.match_pages`; of few pages by
        :mod:`.alone`, without the steps before this one."""
        found = self._alone()
        if found is not None:
            return self.stages.session.createDataFrame(found)
        return self._by_page(self._to_match()).mapInArrow(
            match_pages(self.options), from_arrow_schema(MATCHES)
        )

    @cached_property
    def _few(self) -> tuple[list[Path], dict[str, str]] | None:
        """Files of pages that are few and on this machine, and the names of their columns by those
        of :data:`.alone.EVERY`; None: Spark makes all tables."""
        if self.job.near or self.job.against is not None:
            return None
        cores = self.stages.session.sparkContext.defaultParallelism
        if not self.job.alone or self.stages.rows("work/pages") * cores > self.job.alone:
            return None
        _ = self.ordered  # is written, unless it is the pages themselves
        files = self.stages.local_files("work/ordered" if self._sorted else "work/pages")
        if files is None:
            return None
        own = {name: name if self._sorted else self._own(name) for name in (*alone.EVERY, "key")}
        own["order"] = "order" if self._sorted else self._own("position")
        return files, own

    def _alone(self) -> Any:
        """The matches, by :mod:`.alone`; None: the steps on Spark find them."""
        pages = self.stages.local_files("work/pages")
        if pages:
            shutil.rmtree(_folder(pages), ignore_errors=True)  # of a job that was killed
        if self._few is None or self.options.probes:
            return None
        self.stages.note("work/alone")
        files, names = self._few
        folder = _folder(files)
        folder.mkdir(exist_ok=True)
        try:
            session = self.stages.session
            parts = partial(alone.in_parts, session, folder)
            cores = session.sparkContext.defaultParallelism
            return alone.matches(files, names, self.options, self.job, parts, cores)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _to_match(self) -> DataFrame:
        """Rows for :func:`.match_pages`: pages that were dropped or have copies."""
        state = self.settled.withColumn("contested", F.lit(True))
        pages = self.single.where("order >= 0").join(
            state.withColumnRenamed("page", "order"), "order", "left"
        )
        dropped = F.col("contested") & (
            F.col("kept_at").isNull() | (F.col("kept_at") != F.col("order"))
        )
        mask = F.aggregate("slots", F.lit(0).cast("bigint"), lambda a, b: a.bitwiseOR(table_bit(b)))
        found = pages.where(F.coalesce(dropped, F.lit(False)) | F.col("copied"))
        own = self._with_judged(found).select(
            F.col("order").alias("page"),
            F.lit(OWN).alias("kind"),
            mask.alias("tables"),
            F.col("named").cast("bigint").alias("flags"),
            "content",
            F.col("judged").alias("payload"),
            F.when(F.col("contested"), F.col("kept_at")).otherwise(F.col("order")).alias("kept_at"),
        )
        theirs = (
            self.edges.where(F.col("candidate").isNotNull())
            .join(own.select("page"), "page", "left_semi")
            .join(state.withColumnRenamed("page", "candidate"), "candidate", "left")
            .where(F.col("contested").isNull() | F.col("kept_at").isNotNull())
            .select(
                "page",
                F.lit(CANDIDATE).alias("kind"),
                F.coalesce("kept_at", "candidate").alias("candidate"),
                "tables",
                "content",
                "payload",
            )
        )
        copies = self._copies.select(
            "page",
            F.lit(COPY).alias("kind"),
            "candidate",
            F.col("same").cast("bigint").alias("flags"),
        )
        return own.unionByName(theirs, allowMissingColumns=True).unionByName(
            copies, allowMissingColumns=True
        )

    @cached_property
    def _keys(self) -> DataFrame:
        """Keys (order, key) of all pages, those of an index among them."""
        keys = self.ordered.select("order", "key")
        return keys if self._old is None else keys.union(self._old.select("order", "key"))

    @written("duplicates")
    def duplicates(self) -> DataFrame:
        """Dropped pages with their matches; the columns are those of :class:`.Result`."""
        matches = self.matches
        if self._few is not None and (files := self.stages.local_files("work/matches")):
            pages, own = self._few
            names = [own[name] for name in ("order", "key", "size")]
            found = alone.duplicates(files, pages, names, self.options)
            return self.stages.session.createDataFrame(found)
        names = self._keys.select(F.col("order").alias("match"), F.col("key").alias("match_key"))
        found = (
            matches.join(self.ordered.select("order", "key"), "order")
            .join(names, "match", "left")
            .select(
                "order", "key", "match", "match_key",
                "outcome", "reason", "similarity", "jaccard", "distance", "tables",
            )
        )  # fmt: skip
        if not is_dropped(REVISIT, self.options):
            found = found.where(F.col("outcome") != REVISIT)
        if is_dropped(EMPTY, self.options):
            found = found.unionByName(self._empty(), allowMissingColumns=True)
        return found

    def _empty(self) -> DataFrame:
        return self.ordered.where("size = 0").select(
            "order", "key", F.lit(EMPTY).alias("outcome"), F.lit("no-text").alias("reason")
        )

    @written("kept")
    def kept(self) -> DataFrame:
        """Rows of the input that are kept."""
        own = [self._own(name) for name in FIELDS.names if name not in ("position", "key")]
        place = self._own("position")
        pages = self.pages.where(F.col(self._own("error")).isNull()).drop(*own, BY)
        if self._sorted:
            orders = self.ordered.select(
                F.col("position").alias(place), F.col("order").alias(ORDER)
            )
            pages = pages.join(orders, place)
        else:
            pages = pages.withColumn(ORDER, F.col(place))
        dropped = self.duplicates.select(F.col("order").alias(ORDER))
        left = pages.join(dropped, ORDER, "left_anti").drop(place)
        if LINE in left.columns:
            left = left.select(F.decode(LINE, "UTF-8").alias("line"), "*").drop(LINE)
        return left

    @written("clusters")
    def clusters(self) -> DataFrame:
        """Kept pages, each with all that were dropped for it, and near misses if wanted."""
        duplicates = self.duplicates
        if self._few is not None and (files := self.stages.local_files("duplicates")):
            return self.stages.session.createDataFrame(alone.clusters(files))
        found = duplicates.where("match is not null").select(
            F.col("match").alias("cluster"),
            "order",
            F.col("match_key").alias("stored"),
            F.col("outcome").alias("kind"),
            "key",
            "reason",
            "similarity",
        )
        if self.job.near:
            found = found.unionByName(self._near())
        own = found.select("cluster", "stored").distinct()
        own = own.select(
            "*",
            F.col("cluster").alias("order"),
            F.lit("kept").alias("kind"),
            F.col("stored").alias("key"),
        )
        return own.unionByName(found, allowMissingColumns=True).select(
            "cluster", "order", "stored", _host("stored").alias("stored_host"), "kind", "key",
            _host("key").alias("host"), "reason", "similarity",
        )  # fmt: skip

    def _near(self) -> DataFrame:
        """Near misses, by :func:`.near_pages`, with the columns of clusters."""
        state = self.settled.select(
            F.col("page").alias("order"), "kept_at", F.lit(True).alias("contested")
        )
        # A page may have been dropped, and an exact copy of it kept later.
        kept = (
            self.single.select("order")
            .join(state, "order", "left")
            .select(
                "order",
                F.when(F.col("contested"), F.col("kept_at")).otherwise(F.col("order")).alias("at"),
            )
            .where("at is not null")
        )
        pages = kept.select(F.col("order").alias("page"), F.col("at").alias("page_at"))
        candidates = kept.select(F.col("order").alias("candidate"), F.col("at").alias("other_at"))
        pairs = (
            self._pairs.select("page", "candidate")
            .join(pages, "page")
            .join(candidates, "candidate")
            .where("other_at < page_at")
            .select("page", "candidate")
        )
        rows = self._to_judge(pairs, "named")
        found = rows.mapInArrow(near_pages(self.options), from_arrow_schema(NEAR_MISSES))
        names = self._keys.select(F.col("order").alias("cluster"), F.col("key").alias("stored"))
        return (
            found.join(pages, "page")
            .join(candidates, "candidate")
            .select(
                F.col("other_at").alias("cluster"),
                F.col("page_at").alias("order"),
                F.lit("near").alias("kind"),
                "reason",
                "similarity",
            )
            .join(names, "cluster", "left")
            .join(self.ordered.select("order", "key"), "order")
        )

    @written("work/index")
    def index(self) -> DataFrame:
        """What an index keeps of the kept pages, in their order: pages that a crawl had stored."""
        gone = self.matches.select("order")
        pages = self.ordered.where(F.col("size") > 0).join(gone, "order", "left_anti")
        return pages.select("order", "key", "named", "content", "slots", "payload").sort("order")

    @written("rejects")
    def rejects(self) -> DataFrame:
        """Rows that could not be read, and why."""
        file = [F.col(FILE).alias("file")] if FILE in self.pages.columns else []
        return self.pages.where(F.col(self._own("error")).isNotNull()).select(
            *file,
            F.col(self._own("position")).alias("position"),
            F.col(self._own("error")).alias("reason"),
            F.col(self._own("raw")).alias("raw"),
        )


def _folder(files: Sequence[Path]) -> Path:
    """Where :mod:`.alone` has its files, by those of pages."""
    return files[0].parents[1] / "alone"


def _host(column: str) -> Column:
    """The host of an address, empty if it is none; as :func:`~..journal.entries.host_of`."""
    return F.lower(F.regexp_extract(F.coalesce(column, F.lit("")), alone.HOST, 1))
