"""Starts and stops what a crawl has besides its index: journal, clusters, metrics, field check."""

from __future__ import annotations

import asyncio
import datetime
import errno
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import path_problem
from dedup_middleware.journal.access import choose_journal
from dedup_middleware.journal.clusters import (
    collect_clusters,
    encoder,
    is_replaceable,
    write_clusters,
)
from dedup_middleware.journal.entries import Query
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.journal.writer import JournalWriter
from dedup_middleware.plugin.acting import Action
from dedup_middleware.plugin.metrics import Exporter
from dedup_middleware.plugin.reports import Reports
from dedup_middleware.plugin.settings import folder_errors, is_same_file, refuse_shared_file

if TYPE_CHECKING:
    from dedup_middleware.plugin.notices import FieldCheck

logger = logging.getLogger(__name__)

_OTHER_FILE = "it is no cluster file, such as a feed, and would be lost; name another file"


class Companions:
    """Clusters, metrics, journal and field check of a crawl.

    They are made before the index is opened, started even if it can't be, and stopped after it has
    been closed.

    :param action: gets the writer of the journal
    :ivar field_check: None before :meth:`start`
    """

    def __init__(
        self, crawler: Crawler, options: Options, reports: Reports, action: Action
    ) -> None:
        self._crawler, self._options = crawler, options
        self._reports, self._action = reports, action
        self._clusters: ClusterFile | None = None
        self._is_started = False
        self._exporter: Exporter | None = None
        self.field_check: FieldCheck | None = None

    def make(self, spider: str, crawl: str) -> None:
        """Make the cluster file and the exporter of metrics, if the settings want them.

        :raises OptionsError: the settings can't be used
        """
        options = self._options
        if options.clusters:
            self._clusters = ClusterFile(options, spider, crawl, self._reports)
            if options.clusters in map(str, self._crawler.settings.getdict("FEEDS")):
                fix = "it is a feed of this crawl; name another file"
                raise OptionsError("DEDUP_CLUSTERS", options.clusters, fix)
        if options.metrics_port:
            host, port = options.metrics_host, options.metrics_port
            self._exporter = Exporter(self._reports.get_stats, spider, host, port)

    async def start(self, spider: str, crawl: str) -> None:
        """Start the parts; the parameters are those of :meth:`make`."""
        from dedup_middleware.plugin.notices import FieldCheck, warn_of_slips

        settings = self._crawler.settings
        warn_of_slips(settings)
        self.field_check = FieldCheck(settings, replaces=self._options.versions == "replace")
        count, store = self._reports.count, choose_journal(self._options)
        if store is not None:
            self._action.journal = JournalWriter(store, count, spider=spider, crawl=crawl)
            self._action.journal.start()
        self._reports.start(settings.getfloat("LOGSTATS_INTERVAL"), self._count_journal)
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.start)
        self._is_started = True

    def _count_journal(self) -> None:
        if self._action.journal is not None:
            self._action.journal.report_counts()

    async def stop(self) -> None:
        """Write what is still to be written, and stop the parts."""
        if self._action.journal is not None:
            await asyncio.to_thread(self._action.journal.close)
            self._count_journal()
        # A crawl that did not start has found none: the file of the last one stays.
        if self._clusters is not None and self._is_started:
            from dedup_middleware.plugin.feeds import files_of_feeds

            await asyncio.to_thread(self._clusters.write, files_of_feeds(self._crawler))
        if self.field_check is not None:
            self.field_check.end()
        self._reports.stop()
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.stop)


class ClusterFile:
    """Writes the clusters of a crawl from the journal to a file at its end (``DEDUP_CLUSTERS``).

    :param crawl: id of the crawl, by which the journal is filtered
    :raises OptionsError: there is no journal, or the file can't be written there or in this format
    """

    def __init__(self, options: Options, spider: str, crawl: str, reports: Reports) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        self._since = now.timestamp()
        self._path = Path(
            options.clusters.replace("%(name)s", spider)
            .replace("%(time)s", now.isoformat().replace(":", "-"))
            .replace("%(crawl)s", crawl)
        )
        self._near, self._crawl, self._reports = options.clusters_near, crawl, reports
        journal = choose_journal(options)
        if journal is None:
            fix = "clusters are read from the journal: name its file in DEDUP_JOURNAL"
            raise OptionsError("DEDUP_CLUSTERS", options.clusters, fix)
        self._journal = journal
        if fix := path_problem(str(self._path)):
            raise OptionsError("DEDUP_CLUSTERS", str(self._path), fix)
        refuse_shared_file("DEDUP_CLUSTERS", self._path, options)
        if isinstance(journal, SQLiteJournal) and is_same_file(self._path, journal.path):
            fix = "it is the file of the journal; name another file"
            raise OptionsError("DEDUP_CLUSTERS", options.clusters, fix)
        folder = self._path.parent
        with folder_errors("DEDUP_CLUSTERS", options.clusters, f"{folder} can't be written to"):
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        try:
            encoder(self._path)
        except DedupError as error:
            raise OptionsError("DEDUP_CLUSTERS", options.clusters, str(error)) from None
        if self._path.is_file() and not is_replaceable(self._path):
            raise OptionsError("DEDUP_CLUSTERS", str(self._path), _OTHER_FILE)

    def write(self, feeds: Collection[Path]) -> None:
        """Write the file, or log why not. Blocks; the journal must be complete.

        :param feeds: files that are not replaced although they may still be empty
        """
        # With `since` a journal of months is not read from its beginning.
        query = Query(crawls=frozenset({self._crawl}), since=self._since)
        try:
            self._journal.open(create=True)
            with self._journal:
                clusters = collect_clusters(self._journal, query, near=self._near)
                is_feed = any(is_same_file(self._path, feed) for feed in feeds)
                if is_feed or (self._path.is_file() and not is_replaceable(self._path)):
                    raise DedupError(f"{self._path}: {_OTHER_FILE}")
                written = write_clusters(clusters, self._path, replace=True)
        except (DedupError, OSError, ValueError) as error:
            self._reports.count("clusters/error", 1)
            logger.error(
                "The clusters are not written: %s. They are in the journal: "
                "scrapy dedup clusters -o FILE --crawl %s",
                error,
                self._crawl,
            )
            return
        self._reports.count("clusters/written", written)
        logger.info("%d clusters are in %s", written, self._path)
