"""The tables of docs/methods.md: what one command makes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.corpus import read_documents
from research import madeup
from research.__main__ import main
from research.tables import TABLES, Sizes, Source, Table, begin, fill

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
#: columns whose cells depend neither on the documents nor on the machine
FIXED = {"copies": (0, 1, 3, 5), "hashes": (0, 1, 2, 3, 4, 5)}
SMALL = Sizes(li=20, zhou=25, planted=10, stream=24)


def committed(name: str) -> list[list[str]]:
    """The cells of a table of the page, header first."""
    _, _, rest = PAGE.read_text("utf-8").partition(begin(name))
    lines = rest.partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


@lru_cache(maxsize=1)
def source(folder: Path) -> Source:
    """A small slice of made-up pages."""
    path = madeup.write(folder / "pages.jsonl", madeup.documents(150, 1))
    return Source(read_documents([path]), SMALL, 1, Options())


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_committed_table_is_what_the_command_makes(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Title, columns and rows are those of a run; so are the cells that depend on nothing but the
    code: figures of the papers, and collisions."""
    made = TABLES[name](source(tmp_path_factory.getbasetemp()))
    header, _, *rows = committed(name)
    assert header == list(made.header)
    fixed = FIXED.get(name, (0,))
    if name == "copies":
        # Of the samples half are unchanged: 250 there, 10 here.
        assert {row[1] for row in rows} == {"250"}
        assert {row[1] for row in made.rows} == {"10"}
        fixed = (0, 3, 5)
    found = [[row[i] for i in fixed] for row in made.rows]
    assert found == [[row[i].strip(" |") for i in fixed] for row in rows]
    assert {len(row) for row in rows} == {len(made.header)} or name == "hashes"


@pytest.mark.slow
def test_command_fills_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables that are selected are printed, and replace those below their lines."""
    pages = madeup.write(tmp_path / "pages.jsonl", madeup.documents(10, 1))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin('hashes')}| old |\n\nafter\n", "utf-8")
    assert main(["tables", str(pages), "--only", "hashes", "--page", str(page)]) == 0
    lines = page.read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "| old |" not in lines
    assert any(line.startswith("| BKDR | 601 | +5.5 |") for line in lines)
    assert begin("hashes") in capsys.readouterr().out
    assert main(["tables", str(pages), "--only", "hash"]) == 1
    assert "copies, planted, csu, simd, vectors, stream, hashes" in capsys.readouterr().err


def test_page_without_the_line_of_a_table_is_an_error(tmp_path: Path) -> None:
    """The message names the line."""
    page = tmp_path / "page.md"
    page.write_text("", "utf-8")
    with pytest.raises(ValueError, match="<!-- table x -->"):
        fill(page, [Table("x", ("a",), (("b",),))])
