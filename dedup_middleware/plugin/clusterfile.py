"""The file that gets the clusters of a crawl at its end (``DEDUP_CLUSTERS``)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from pathlib import Path

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.journal.access import choose_journal
from dedup_middleware.journal.clusters import (
    ClusterFileError,
    collect_clusters,
    encoder,
    write_clusters,
)
from dedup_middleware.journal.entries import Query

logger = logging.getLogger(__name__)


class ClusterFile:
    """Written once, from the journal.

    :param crawl: id of the crawl, by which the journal is filtered
    :param count: called with a counter and what to add to it
    :raises OptionsError: the file can't be made of what the settings keep
    """

    def __init__(
        self, options: Options, spider: str, crawl: str, count: Callable[[str, float], None]
    ) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        self._since = now.timestamp()
        self._path = Path(
            options.clusters.replace("%(name)s", spider)
            .replace("%(time)s", now.isoformat().replace(":", "-"))
            .replace("%(crawl)s", crawl)
        )
        self._options, self._crawl, self._count = options, crawl, count
        if choose_journal(options) is None:
            raise OptionsError(
                "DEDUP_CLUSTERS",
                options.clusters,
                "clusters are read from the journal: name its file in DEDUP_JOURNAL",
            )
        try:
            encoder(self._path)
        except ClusterFileError as error:
            raise OptionsError("DEDUP_CLUSTERS", options.clusters, str(error)) from None

    def write(self) -> None:
        """Write the file, or log why not. Blocks; the journal has to be written before."""
        journal = choose_journal(self._options)
        assert journal is not None
        # A journal of months is not read from its beginning.
        query = Query(crawls=frozenset({self._crawl}), since=self._since)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            journal.open(create=True)
            with journal:
                clusters = collect_clusters(journal, query, near=self._options.clusters_near)
                written = write_clusters(clusters, self._path, replace=True)
        except (DedupError, OSError) as error:
            self._count("clusters/error", 1)
            logger.error(
                "The clusters are not written: %s. They are in the journal: "
                "scrapy dedup clusters -o FILE --crawl %s",
                error,
                self._crawl,
            )
            return
        self._count("clusters/written", written)
        logger.info("%d clusters are in %s", written, self._path)
