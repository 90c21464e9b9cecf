"""Runs `scrapy dedup files` in this process, and makes the files that it reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.commands.running import dedup
from tests.texts import article

PAGE = b"<html><head><title>T</title></head><body><article><p>%s</p></article></body></html>"


def rows(count: int) -> list[dict[str, Any]]:
    """Pages, every third of them a light edit of the one before."""
    made = []
    for n in range(count):
        text = article(n - 1)[7:] + "记者报道。" if n % 3 == 2 else article(n)
        made.append({"url": f"https://h{n % 5}.example/{n}", "title": f"题{n}", "text": text})
    return made


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    """A file of JSON lines."""
    path.write_text(
        "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8"
    )
    return path


def lines(path: Path) -> list[Any]:
    """The JSON lines of a file, packed or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def batch(*arguments: str | Path, **settings: Any) -> Any:
    """Run it in this process alone."""
    return dedup("files", *map(str, arguments), "--workers", "0", **settings)


def warc(path: Path, pages: list[tuple[str, str, str, bytes]]) -> None:
    """A WARC file of (address, status, content type, body); packed record by record."""
    with path.open("wb") as file:
        for number, (address, status, kind, body) in enumerate(pages):
            http = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n\r\n".encode() + body
            head = (
                "WARC/1.0\r\nWARC-Type: response\r\n"
                f"WARC-Target-URI: {address}\r\nWARC-Date: 2026-01-02T03:04:05Z\r\n"
                f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"
                "Content-Type: application/http; msgtype=response\r\n"
                f"Content-Length: {len(http)}\r\n\r\n"
            )
            record = head.encode() + http + b"\r\n\r\n"
            file.write(gzip.compress(record) if path.suffix == ".gz" else record)
