"""The notebook of the documentation runs from its first cell to its last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docblocks import ROOT

NOTEBOOK = ROOT / "docs" / "examples" / "threshold.ipynb"


def text_of(cell: Any) -> str:
    """What a cell printed."""
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_notebook_goes_from_a_crawl_to_a_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """It crawls the sample site, reads drops and near misses, labels them, and names a threshold
    that drops all copies and no bulletin."""
    import nbformat  # here, not above: each process that collects would load a notebook's parts
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "strip the outputs"
    client = NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    )
    client.execute()
    printed = [text_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
    found = re.search(r"(\d+) duplicates of (\d+) pairs", printed[2])
    assert found
    duplicates, pairs = int(found[1]), int(found[2])
    assert 10 <= duplicates < pairs
    assert "0.80  precision 1.00  recall 1.00" in printed[3]
    assert re.fullmatch(r"DEDUP_THRESHOLD = 0\.\d+\n", printed[4])


def test_notebook_is_linked() -> None:
    """Readers find it from the page on the evaluation."""
    page = (ROOT / "docs" / "evaluating.md").read_text("utf-8")
    assert f"examples/{Path(NOTEBOOK).name}" in page
