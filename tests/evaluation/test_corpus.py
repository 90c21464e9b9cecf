"""Files in, documents and pairs out; what can't be used is named with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dedup_middleware.evaluation.corpus import InputError, read_documents, read_pairs
from tests.evaluation.lines import documents, labelled, write_lines


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
def test_documents_keep_their_order(tmp_path: Path, name: str) -> None:
    """Plain and packed files give the same documents, one after the other."""
    path = write_lines(tmp_path / name, documents(5))
    found = read_documents([path, write_lines(tmp_path / "more.jsonl", documents(2, 5))])
    assert [s.document.key for s in found] == [f"https://example.org/{i}" for i in range(7)]
    assert len(read_documents([path], limit=3)) == 3


def test_document_without_a_name_is_named_by_its_line(tmp_path: Path) -> None:
    """Key, address and id name a document, in this order; else file and line do."""
    lines = [{"text": "a"}, {"id": 7, "text": "b"}, {"id": 7, "url": "u", "text": "c"}]
    found = read_documents([write_lines(tmp_path / "p.jsonl", lines)])
    assert [s.document.key for s in found] == ["p.jsonl:1", "7", "u"]


def test_fields_without_a_value(tmp_path: Path) -> None:
    """A title or description of null is none, as in feeds."""
    line = {"text": "a", "title": None, "description": None}
    (found,) = read_documents([write_lines(tmp_path / "p.jsonl", [line])])
    assert (found.document.title, found.document.description) == ("", "")


def test_borderline_pairs_are_left_out(tmp_path: Path) -> None:
    """Only labels 1 and 0 count; equal texts are trivial, whatever the file says of them."""
    pairs = read_pairs(write_lines(tmp_path / "pairs.jsonl.gz", labelled(2)))
    assert [p.key for p in pairs] == ["near0", "same0", "far0", "near1", "same1", "far1"]
    assert [p.trivial for p in pairs] == [False, True, False] * 2
    assert [p.label for p in pairs] == [True, True, False] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n[1]\n', "line 2: write a JSON object"),
        (b'{"text": "a"}\n{"text"\n', "line 2: write one"),
        (b'{"text": 5}\n', "line 1: give 'text' a string"),
        (b'{"title": "a"}\n', "line 1: give 'text' a string"),
        (b"\xff\xfe\n", "one JSON object a line"),
        (b"", "no document"),
        (gzip.compress(b'{"text": "a"}\n' * 99, mtime=0)[:40], "is damaged after line"),
    ],
)
def test_bad_documents_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """The message names the file, the line and the fix."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_documents([path])
    assert "bad.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"a_text": "a", "b_text": "b"}, "'label' 1, 0 or null"),
        ({"a_text": "a", "b_text": "b", "label": 2}, "'label' 1, 0 or null"),
        ({"a_text": "a", "b_text": "b", "label": [1]}, "'label' 1, 0 or null"),
        ({"a_text": "a", "label": 1}, "'b_text' a string"),
        ({"a_text": "a", "b_text": "b", "label": None}, "no labelled pair"),
    ],
)
def test_bad_pairs_are_refused(tmp_path: Path, line: dict[str, object], message: str) -> None:
    """The message names the field and what to write."""
    with pytest.raises(InputError, match=message):
        read_pairs(write_lines(tmp_path / "pairs.jsonl", [line]))


def test_missing_file_is_named(tmp_path: Path) -> None:
    """No traceback for a wrong path."""
    with pytest.raises(InputError, match=r"none\.jsonl can't be read"):
        read_documents([tmp_path / "none.jsonl"])
