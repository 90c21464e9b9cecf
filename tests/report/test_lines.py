"""From which threshold on a page would be kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup_middleware import Options
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.tools.files.rows import read_rows
from dedup_middleware.tools.report.htmlreport import line_of, settled
from tests.commands.running import dedup
from tests.report.samples import drop
from tests.texts import article


def pages() -> Iterator[str]:
    """Texts, short and long, each followed by a version with more and more replaced."""
    for length in (2, 3, 5, 12):
        for n in range(12):
            text = article(100 * length + n, length)
            other = article(5000 + 100 * length + n, length)
            yield text
            cut = len(text) * n // 30
            yield other[:cut] + text[cut:]


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["containment", "jaccard", "novelty"])
def test_line_foretells_what_another_threshold_decides(tmp_path: Path, measure: str) -> None:
    """A page is dropped at thresholds below its line and kept above, but for rounding."""
    source = tmp_path / "in.csv"
    rows = [f'https://h{n}.example/,"{text}"' for n, text in enumerate(pages())]
    source.write_text("\n".join(["url,text", *rows]), encoding="utf-8")
    assert len(list(read_rows(source, "csv"))) == len(rows)

    def run(threshold: float) -> dict[str, tuple[str, float | None]]:
        path = tmp_path / f"{threshold}.db"
        settings = {"DEDUP_THRESHOLD": threshold, "DEDUP_MEASURE": measure}
        done = dedup(
            "files", str(source), "-o", str(tmp_path / "kept"), "--overwrite", "--workers", "0",
            "--journal", str(path), **settings,
        )  # fmt: skip
        assert done.code == 0, done.err
        line = line_of(choose_method(Options.from_mapping(settings)))
        journal = SQLiteJournal(path, max_bytes=10_000_000)
        journal.open(create=False)
        with journal:
            return {
                one.key: (one.outcome, line(one))
                for one in journal.drops()
                if one.reason in {"near-duplicate", "too-little-in-common"}
            }

    reported = run(0.8)
    assert len(reported) > 5
    for threshold in (0.7, 0.8, 0.9):
        decided = run(threshold)
        compared = 0
        for key, (_, line) in reported.items():
            if key not in decided or line is None or abs(line - threshold) < 0.05:
                continue
            compared += 1
            assert (decided[key][0] == "duplicate") == (line >= threshold), (key, line)
        assert compared > 3


def test_decision_is_stronger_than_the_estimate() -> None:
    """A page is drawn on its side of the threshold of its decision."""
    assert settled(0.83, drop("a", 0.85, outcome="new"), 0.8) == pytest.approx(0.7999)
    assert settled(0.7, drop("b", 0.75, outcome="duplicate"), 0.8) == 0.8
    assert settled(0.9, drop("c", 0.9), 0.8) == 0.9
    assert settled(None, drop("d", None), 0.8) is None


def test_other_methods_compare_the_similarity() -> None:
    """So the line of a page is its similarity."""
    method = choose_method(Options(method="minhash"))
    assert line_of(method)(drop("a", 0.85)) == 0.85
