"""Files of documents and pairs for the tests of the evaluation."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dedup_middleware.evaluation.edits import edit
from tests.texts import article


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON lines, packed if the name ends in .gz."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    packed = path.suffix == ".gz"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


def page(seed: int, sentences: int = 24) -> str:
    """A made-up page of about 300 shingles with figures of its own."""
    body = article(seed, sentences).split("。")
    return "。".join(f"{line}，共{seed * 1000 + i}人" for i, line in enumerate(body) if line) + "。"


def documents(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Lines of a file of documents, all different."""
    return [
        {"url": f"https://example.org/{i}", "title": f"第{i}篇", "text": page(i)}
        for i in range(first, first + count)
    ]


def labelled(count: int) -> list[dict[str, Any]]:
    """Lines of a file of pairs: edited copies, equal texts, other pages, and a borderline one."""
    lines: list[dict[str, Any]] = []
    for i in range(count):
        text = page(i)
        near = edit(text, "words-changed", 0.01, i)
        lines += [
            {"pair_id": f"near{i}", "label": 1, "type": "edit", "a_text": text, "b_text": near},
            {"pair_id": f"same{i}", "label": 1, "type": "copy", "a_text": text, "b_text": text},
            {
                "pair_id": f"far{i}",
                "label": 0,
                "type": "other",
                "a_text": text,
                "b_text": page(i + 1000),
                "jaccard_char5": 0.2,
            },
        ]
    return [*lines, {"pair_id": "unsure", "label": None, "a_text": "a", "b_text": "b"}]


def rows(out: Path, name: str) -> list[dict[str, str]]:
    """A table that was written, after checking that CSV and JSON agree."""
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    values = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert [list(row) for row in values] == [list(row) for row in table]
    return table
