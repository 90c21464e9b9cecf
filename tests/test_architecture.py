"""The package is built in floors: no import circle, no import upwards, one meaning a file name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture import (
    circles,
    floors,
    import_graph,
    repeated_names,
    room_graph,
    room_of,
    upward_imports,
)

MOST_FLOORS = 11
# The same thing in several rooms: a base class, a back end, a command line.
SAME_THING = {"__main__.py", "base.py", "commandline.py", "redis.py", "sqlite.py"}

# What is not yet as it should be. Remove what has been mended; add nothing.
KNOWN_CIRCLES = [
    {"index.base", "index.maintenance", "index.pages", "index.verification"},
    {
        "fingerprint",
        "methods.charset",
        "methods.csu",
        "methods.csu_shingles",
        "methods.digests",
        "methods.frequencies",
        "methods.idf",
        "methods.literature",
        "methods.luogang",
        "methods.rules",
        "methods.segments",
        "methods.signing",
        "methods.structure",
        "methods.textprofile",
        "methods.weighted",
    },
    {"batch.parquet", "batch.rows", "batch.warc"},
]
KNOWN_UPWARD = {
    ("fingerprint", "methods.blocks"),
    ("fingerprint", "methods.literature"),
    ("fingerprint", "methods.reading"),
    ("fingerprint", "methods.signing"),
}
KNOWN_REPEATED = {
    "blocks.py",
    "clauses.py",
    "figures.py",
    "judging.py",
    "loading.py",
    "minhash.py",
    "names.py",
    "opening.py",
    "pages.py",
    "parameters.py",
    "portable.py",
    "reading.py",
    "signing.py",
    "simhash.py",
    "stats.py",
    "writing.py",
}


def test_no_circle() -> None:
    """No module imports itself by way of others."""
    new = [
        sorted(circle)
        for circle in circles(import_graph())
        if not any(circle <= known for known in KNOWN_CIRCLES)
    ]
    assert new == []


def test_no_import_upwards() -> None:
    """A module imports modules of its own room and of lower floors only."""
    assert sorted(upward_imports(import_graph()) - KNOWN_UPWARD) == []


def test_number_of_floors() -> None:
    """The longest chain of rooms that import each other has a bounded length."""
    found = floors(room_graph(import_graph()))
    for room, floor in sorted(found.items(), key=lambda item: (item[1], item[0])):
        print(f"{floor:3} {room or '__init__'}")
    assert max(found.values()) <= MOST_FLOORS


def test_a_name_means_one_thing() -> None:
    """Two files have one name only if they are the same thing in two rooms."""
    found = {
        name: paths
        for name, paths in repeated_names().items()
        if name not in SAME_THING | KNOWN_REPEATED
    }
    assert found == {}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of two folders whose modules import each other."""
    root = tmp_path / "sample"
    files = {
        "__init__.py": "from sample.high.user import use",
        "low/__init__.py": "",
        "low/tools.py": "def late():\n    from sample.high import user",
        "high/__init__.py": "",
        "high/user.py": "import sample.low.tools\nfrom sample.high.tools import work",
        "high/tools.py": "",
    }
    for name, source in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source, encoding="utf-8")
    return root


def test_faults_are_found(package: Path) -> None:
    """A circle through an import inside a function, an import upwards and a repeated name."""
    rooms = {"": (2, "__init__"), "high": (1, "high"), "low": (0, "low")}
    graph = import_graph(package)
    assert circles(graph) == [{"low.tools", "high.user"}]
    assert upward_imports(graph, rooms) == {("low.tools", "high.user")}
    assert floors(room_graph(graph, rooms)) == {"low": 1, "high": 2, "": 3}
    assert repeated_names(package) == {"tools.py": ["high/tools.py", "low/tools.py"]}
    with pytest.raises(LookupError, match="no room"):
        room_of("elsewhere.module", rooms)
