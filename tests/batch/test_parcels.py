"""Rows and fingerprints between processes are what they were."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import attrs
import pytest

from dedup_middleware import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.tools.files.rows import Row
from dedup_middleware.tools.files.run import batch_options
from dedup_middleware.tools.files.signing import Signer, pack, sign_rows, unpack
from tests.texts import article

ROWS = [
    Row(1, json.dumps({"url": "https://a/1", "title": "题", "text": article(1)}).encode()),
    Row(2, b"no JSON"),
    Row(3, {"url": "https://a/3", "text": "短"}),
    Row(4, {}, "it has 2 fields, the first line has 3"),
    Row(5, {"url": "https://a/5", "html": f"<h1>题</h1><p>{article(5)}</p>".encode()}),
    Row(6, {"url": "https://a/6", "text": ""}),
]


def plain(value: Any) -> Any:
    """A value that can be compared: arrays as lists."""
    if attrs.has(type(value)):
        names = [field.alias for field in attrs.fields(type(value))]
        return {name: plain(getattr(value, name)) for name in names}
    if callable(value):  # words that are read when they are needed
        return list(value())
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("method", ["content", "simhash", "minhash", "charset", "weighted-simhash"])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[1:2], []])
def test_what_was_packed_comes_back(method: str, rows: list[Row]) -> None:
    """All fields of all pages but the minima, in the order of the rows, errors among them."""
    options = batch_options(Options(method=method))
    signer = Signer(Fingerprinter(options), texts=False)
    signed = [signer(row) for row in rows]
    back = unpack(pickle.loads(pickle.dumps(pack(signed))))
    assert len(back) == len(rows)
    for one, other in zip(signed, back, strict=True):
        expected, found = plain(one), plain(other)
        if one.page is not None:
            assert expected["page"].pop("minhash")
            assert found["page"].pop("minhash") == []
        assert found == expected


def test_a_worker_does_the_same() -> None:
    """What a worker process sends back is what the rows say."""
    options = batch_options(Options())
    signer = Signer(Fingerprinter(options), texts=True)
    found = unpack(sign_rows(options, True, pickle.loads(pickle.dumps(ROWS))))
    for row, one in zip(ROWS, found, strict=True):
        expected = signer(row)
        assert (one.key, one.text, one.error) == (expected.key, expected.text, expected.error)


def test_workers_load_no_scrapy() -> None:
    """What a worker process imports and needs to sign a row leaves Scrapy and Twisted out."""
    script = (
        "import sys\n"
        "from dedup_middleware import Options\n"
        "from dedup_middleware.tools.files.rows import Row\n"
        "from dedup_middleware.tools.files.signing import sign_rows\n"
        "text = 'one two three four five six seven eight nine'\n"
        "rows = [Row(1, {'url': 'https://a/1', 'text': text})]\n"
        "assert sign_rows(Options(hash_key='1'), False, rows).rows[0][-1]\n"
        "print(sorted({'scrapy', 'twisted', 'itemadapter'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"
