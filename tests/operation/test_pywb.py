"""What a player of archives, pywb, shows for the records of docs/warc.md."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator
from warcio.warcwriter import WARCWriter

from tests.operation.required import program
from tests.servers import free_port
from tests.test_warc import PAGES, Archive, archive  # noqa: F401


def test_copies_are_shown_and_near_duplicates_are_not(
    archive: Archive,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The stored page is shown for the same bytes alone. Without its own digest a record of a
    near-duplicate would show the stored page under an address that never sent it."""
    manager, wayback = program("wb-manager"), program("wayback")
    misleading = tmp_path / "no-digest.warc.gz"
    with archive.file.open("rb") as file, misleading.open("wb") as out:
        writer = WARCWriter(out, gzip=True, warc_version="1.1")
        for record in ArchiveIterator(file):
            if "#near-duplicate" in (record.rec_headers.get_header("WARC-Profile") or ""):
                record.rec_headers.remove_header("WARC-Payload-Digest")
            writer.write_record(record)
    for name, path in (("pages", archive.file), ("misleading", misleading)):
        for arguments in (("init", name), ("add", name, str(path))):
            subprocess.run([manager, *arguments], cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        player = subprocess.Popen(
            [wayback, "-b", "127.0.0.1", "-p", str(port)], cwd=tmp_path, stdout=log, stderr=log
        )
    try:

        def shown(collection: str, path: str) -> bytes | None:
            url = f"http://127.0.0.1:{port}/{collection}/2100id_/{archive.site}{path}"
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    body: bytes = answer.read()
                    return body
            except urllib.error.HTTPError as error:
                if b"Original for revisit record could not be loaded" in error.read():
                    return None
                raise

        deadline = time.monotonic() + 60
        while True:
            try:
                original = shown("pages", "/original")
                break
            except urllib.error.URLError:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.1)
        assert original == PAGES["/original"]
        assert shown("pages", "/same-bytes") == PAGES["/same-bytes"]
        assert shown("pages", "/other-template") is None
        assert shown("misleading", "/other-template") not in {None, PAGES["/other-template"]}
    finally:
        player.kill()
        player.wait()
