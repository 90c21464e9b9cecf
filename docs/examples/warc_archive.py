"""An archive of a crawl: response records of stored pages, revisit records of their copies."""

import base64
import hashlib
import io
import logging
import sqlite3
from datetime import datetime, timezone
from http import HTTPStatus

from scrapy import signals
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dedup_middleware.plugin.signals import dedup_duplicate

NEAR_DUPLICATE = "https://dedup-middleware.readthedocs.io/en/latest/warc.html#near-duplicate"
# Scrapy has removed these codings from the body.
CODINGS = {b"Content-Encoding", b"Content-Length", b"Transfer-Encoding"}
logger = logging.getLogger(__name__)


def capture(response):
    """The fields of an item that its records are made of: ``html`` and ``http``."""
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        if name not in CODINGS
        for value in values
    ]
    now = datetime.now(timezone.utc)
    http = {"date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "status": response.status, "headers": headers}
    return {"html": response.body, "http": http}


class WarcArchive:
    """An item pipeline behind the plugin, last before other storage.

    It appends to ``WARC_FILE``. ``WARC_CAPTURES``, a SQLite file, keeps what revisit records of
    later crawls refer to.
    """

    def __init__(self, file, captures):
        self._file = open(file, "ab")  # noqa: PTH123, SIM115
        self._writer = WARCWriter(self._file, gzip=True, warc_version="1.1")
        self._captures = sqlite3.connect(captures)
        self._captures.execute(
            "CREATE TABLE IF NOT EXISTS captures (uri PRIMARY KEY, date, digest, record)"
        )

    @classmethod
    def from_crawler(cls, crawler):
        """Called by Scrapy."""
        archive = cls(crawler.settings["WARC_FILE"], crawler.settings["WARC_CAPTURES"])
        crawler.signals.connect(archive.on_duplicate, dedup_duplicate)
        # Pipelines are closed before the plugin has sent its last signals.
        crawler.signals.connect(archive.close, signals.spider_closed)
        return archive

    def process_item(self, item):
        """Write a response record; the page counts as stored after that."""
        http = item["http"]
        record = self._writer.create_warc_record(
            item["url"],
            "response",
            payload=io.BytesIO(item["html"]),
            length=len(item["html"]),
            http_headers=_headers(http, len(item["html"])),
            warc_headers_dict={"WARC-Date": http["date"]},
        )
        self._writer.write_record(record)
        self._file.flush()
        digest, name = map(record.rec_headers.get_header, ("WARC-Payload-Digest", "WARC-Record-ID"))
        with self._captures:
            self._captures.execute(
                "REPLACE INTO captures VALUES (?, ?, ?, ?)",
                (item["url"], http["date"], digest, name),
            )
        return item

    def on_duplicate(self, item, verdict, match, dropped):
        """Write a revisit record for an item that goes no further."""
        if not dropped:
            return
        found = self._captures.execute(
            "SELECT date, digest, record FROM captures WHERE uri = ?", (match.key,)
        ).fetchone()
        if found is None:
            logger.warning("%s has no record: no capture of %s", item["url"], match.key)
            return
        date, stored_digest, record_id = found
        digest = "sha1:" + base64.b32encode(hashlib.sha1(item["html"]).digest()).decode()
        fields = {"WARC-Date": item["http"]["date"], "WARC-Refers-To": record_id}
        if digest != stored_digest:
            fields["Dedup-Reason"] = verdict.reason
            fields["Dedup-Similarity"] = f"{match.similarity:.3f}"
        record = self._writer.create_revisit_record(
            item["url"],
            digest,
            match.key,
            date,
            http_headers=_headers(item["http"], len(item["html"])),
            warc_headers_dict=fields,
        )
        record.rec_headers.add_header("WARC-Truncated", "length")
        if digest != stored_digest:
            record.rec_headers.replace_header("WARC-Profile", NEAR_DUPLICATE)
        self._writer.write_record(record)
        self._file.flush()

    def close(self):
        """The signal ``spider_closed``."""
        self._file.close()
        self._captures.close()


def _headers(http, length):
    status = http["status"]
    headers = [*http["headers"], ("Content-Length", str(length))]
    line = f"{status} {HTTPStatus(status).phrase}"
    return StatusAndHeaders(line, headers, protocol="HTTP/1.1")
