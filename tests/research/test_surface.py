"""The recall surface of edits."""

from __future__ import annotations

from dedup_middleware import Document, Options
from dedup_middleware.evaluation.comparers import methods_available
from research.surface import surface
from tests.evaluation.lines import page

DOCUMENTS = [Document(key=f"d{i}", text=page(i, n)) for n in (6, 24, 60) for i in range(n, n + 6)]


def test_surface_has_a_cell_for_each_kind_intensity_and_length() -> None:
    """Light edits are seen through, heavy ones are not, and cells without a change are empty."""
    comparer = methods_available(Options(), ["content"])["content"]
    kinds = ("words-changed", "traditional", "sentence-order")
    reported: list[int] = []
    cells = surface(
        DOCUMENTS,
        comparer,
        kinds=kinds,
        intensities=(0.01, 0.5),
        lengths=(100, 300, 800),
        per_cell=5,
        progress=reported.append,
    )
    table = {(c.kind, c.intensity, c.length): c for c in cells}
    assert len(table) == len(cells) == sum(reported) == 18
    assert table["words-changed", 0.01, 800].recall == 1
    assert table["words-changed", 0.5, 800].recall == 0
    assert table["sentence-order", 0.01, 800].recall == 1
    assert table["words-changed", 0.01, 300].pages == 5
    assert {c.recall is None for c in cells if c.pages == 0} <= {True}


def test_pages_without_a_change_do_not_count() -> None:
    """A copy that the edit left as it was would be found by anything."""
    comparer = methods_available(Options(), ["md5"])["md5"]
    plain = [Document(key="p", text="灯塔。" * 100)]
    (cell,) = surface(
        plain, comparer, kinds=("figures-changed",), intensities=(1.0,), lengths=(100,)
    )
    assert (cell.pages, cell.recall) == (0, None)
