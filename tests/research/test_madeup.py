"""Made-up documents and pairs."""

from __future__ import annotations

from pathlib import Path

from dedup_middleware.evaluation.corpus import read_documents, read_pairs
from dedup_middleware.text.shingle import Shingler
from research import madeup


def test_documents_are_different_and_the_same_in_every_run(tmp_path: Path) -> None:
    """No two share more than a tenth of their shingles; a seed gives the same ones again."""
    lines = list(madeup.documents(60, seed=3))
    assert lines == list(madeup.documents(60, seed=3))
    assert lines[0]["text"] != next(madeup.documents(1, seed=4))["text"]
    read = read_documents([madeup.write(tmp_path / "d.jsonl", lines)])
    assert len({source.document.key for source in read}) == 60
    assert {source.category for source in read} == {f"category {i}" for i in range(5)}
    shingler = Shingler()
    shingles = [set(shingler(source.document.text or "").features.tolist()) for source in read]
    for i, a in enumerate(shingles):
        assert all(len(a & b) < 0.1 * len(a | b) for b in shingles[:i])


def test_pairs_have_every_kind(tmp_path: Path) -> None:
    """Edited copies are near-duplicates, other figures and other documents are not."""
    pairs = read_pairs(madeup.write(tmp_path / "p.jsonl", madeup.pairs(20)))
    kinds = {pair.kind: pair.label for pair in pairs}
    assert kinds["copy"]
    assert kinds["words-changed"]
    assert kinds["truncation"]
    assert not kinds["other"]
    assert not kinds["figures-changed"]
    assert len({pair.key for pair in pairs}) == len(pairs)
    assert sum(pair.trivial for pair in pairs) == 2
