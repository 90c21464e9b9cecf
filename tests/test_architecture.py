"""The package is built in floors: no import circle, no import upwards, one meaning a file name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dedup_middleware.base.compiled import FOLDERS
from dedup_middleware.base.kernels import SOURCES
from docs import rooms
from tests.architecture import (
    PACKAGE,
    circles,
    floors,
    import_graph,
    modules,
    repeated_names,
    room_graph,
    room_of,
    upward_imports,
)

MOST_FLOORS = 8
# The same thing in several rooms: a base class, a back end, a command line.
SAME_THING = set("__main__ base index minhash propose signing simhash upkeep".split())


def test_no_circle() -> None:
    """No module imports itself by way of others."""
    assert circles(import_graph()) == []


def test_no_import_upwards() -> None:
    """A module imports modules of its own room and of lower floors only."""
    assert upward_imports(import_graph()) == set()


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
        if name.removesuffix(".py") not in SAME_THING
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


def test_cached_kernels_follow_what_they_are_made_of() -> None:
    """What a module with kernels imports is in the folders by whose sources the cache is named:
    else a kernel compiled with constants of an older version would go on being used."""
    files = modules()
    for name, imported in import_graph().items():
        if re.search(r"^@(allocating_)?(sub)?kernel\b", files[name].read_text("utf-8"), re.M):
            folders = {files[other].parent.relative_to(PACKAGE).as_posix() for other in imported}
            own = files[name].parent.relative_to(PACKAGE).as_posix()
            assert folders <= {own, *SOURCES}, name
            # An extension module depends on all sources of its kernels.
            assert folders | {own} <= {*FOLDERS}, name


def test_picture_is_up_to_date() -> None:
    """docs/images/rooms.svg is what docs/rooms.py draws of the imports of today."""
    assert rooms.IMAGE.read_text(encoding="utf-8") == rooms.render()
