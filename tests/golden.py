"""What is stored of some pages, byte for byte: the golden vectors.

An index outlives the code that filled it, so a change of what is stored of a page must be noticed.
If it has to, the format that changed gets another number (so that older indexes are refused), and
``python -m tests.golden`` writes the vectors anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dedup_middleware import Document, Options
from dedup_middleware.base.options import METHODS
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.methods.base import content_bytes
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import BucketKeys
from tests.languages import REPORTS
from tests.texts import article

FILE: Final = Path(__file__).with_name("golden.json")
KEY: Final = 0x5EED
#: methods whose whole records are kept; of others only digests
WHOLE: Final = ("content",)


def documents() -> list[Document]:
    """Pages in several languages, short and empty ones among them."""
    texts = {name: report.format(12, 3, 4.5) for name, (report, _) in REPORTS.items()}
    texts["chinese"] = article(1)
    texts["notice"] = (
        "本报讯（记者 李文博）云泊市体育局3月8日公布（下）半年赛事：市队教练王建国率队参加，"
        "全程１２公里，奖金三千五百元。" + article(2, 12)
    )
    texts["short"] = "玉兰花开了。"
    texts["stop words"] = "的了是在"
    texts["empty"] = ""
    return [
        Document(f"https://one.example/{name}", f"标题 {name}", text)
        for name, text in texts.items()
    ]


def stored(method: str) -> Iterator[tuple[str, BucketKeys, bytes, bytes]]:
    """What an index stores of each page by a method: its name, places, record and payload."""
    options = Options(method=method, index_url="memory:")
    chosen, fingerprinter = choose_method(options), Fingerprinter(options, KEY)
    for document in documents():
        page = fingerprinter(document)
        places = BucketKeys.of(chosen.bucket_key_array(page))
        yield document.title, places, content_bytes(page), page.payload


def vectors(method: str) -> dict[str, str]:
    """The vector of each page by its name."""
    return {name: vector(method, *rest) for name, *rest in stored(method)}


def vector(method: str, places: BucketKeys, content: bytes, payload: bytes) -> str:
    """What is stored of a page, as hexadecimal digits; of most methods a digest of it."""
    raw = places.words.astype("<u8").tobytes() + content + payload
    return raw.hex() if method in WHOLE else hashlib.blake2b(raw, digest_size=16).hexdigest()


def made() -> dict[str, Any]:
    """The vectors that the code makes now."""
    return {method: vectors(method) for method in METHODS}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
