"""The import graph of the package, read from its sources without importing them.

A room is a set of folders and modules that sits on one floor; a module may import modules of its
own room and of rooms on lower floors. Edit `ROOMS` when files move.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "dedup_middleware"

Graph = Mapping[str, set[str]]

# Room -> its floor, and the folders and modules in it. The longest matching path wins.
ROOMS: dict[str, tuple[int, str]] = {
    "base": (0, "base"),
    "text": (1, "text"),
    "model": (1, "model"),
    "signature": (2, "signature"),
    "index": (3, "index"),
    "methods": (3, "methods"),
    "journal": (4, "journal"),
    "core": (4, "core"),
    "plugin": (5, "plugin"),
    "": (6, "__init__"),
    "evaluation": (6, "evaluation"),
    "tools": (7, "spark tools"),
}


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Dotted name below the package -> source file; the package itself is `__init__`."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = parts if parts == ("__init__",) or parts[-1] != "__init__" else parts[:-1]
        found[".".join(name)] = path
    return found


@functools.cache
def import_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, in functions and for types too."""
    files = modules(package)
    return {
        name: {found for found in _imported(path, package.name, files) if found != name}
        for name, path in files.items()
    }


def _imported(path: Path, root: str, files: Mapping[str, Path]) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            if module != root and not module.startswith(f"{root}."):
                continue
            inside = module[len(root) + 1 :]
            for candidate in (f"{inside}.{name}".strip("."), inside or "__init__"):
                if candidate in files:
                    yield candidate
                    break


def circles(graph: Graph) -> list[frozenset[str]]:
    """Strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    count = itertools.count()
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = next(count)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.append(frozenset(part))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def room_of(module: str, rooms: Mapping[str, tuple[int, str]] = ROOMS) -> str:
    """The room of a module.

    :raises LookupError: the table has no room for it
    """
    places = {place: room for room, (_, listed) in rooms.items() for place in listed.split()}
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        place = ".".join(parts[:length])
        if place in places:
            return places[place]
    raise LookupError(f"ROOMS has no room for {module}")


def upward_imports(
    graph: Graph, rooms: Mapping[str, tuple[int, str]] = ROOMS
) -> set[tuple[str, str]]:
    """Imports (importer, imported) of another room on the same or a higher floor."""
    home = {name: room_of(name, rooms) for name in graph}
    return {
        (name, other)
        for name, imported in graph.items()
        for other in imported
        if home[name] != home[other] and rooms[home[other]][0] >= rooms[home[name]][0]
    }


def room_graph(graph: Graph, rooms: Mapping[str, tuple[int, str]] = ROOMS) -> dict[str, set[str]]:
    """Room -> rooms on lower floors that it imports; upward imports are left out."""
    upward = upward_imports(graph, rooms)
    found: dict[str, set[str]] = {room_of(name, rooms): set() for name in graph}
    for name, imported in graph.items():
        for other in imported:
            one, two = room_of(name, rooms), room_of(other, rooms)
            if one != two and (name, other) not in upward:
                found[one].add(two)
    return found


def floors(below: Graph) -> dict[str, int]:
    """Room -> its floor as the imports make it: 1 plus the highest floor that it imports."""
    found: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in found:
            found[room] = 1 + max(map(floor, below[room]), default=0)
        return found[room]

    for room in below:
        floor(room)
    return found


def repeated_names(package: Path = PACKAGE) -> dict[str, list[str]]:
    """File name -> its paths below the package, of the names that several files have."""
    found: dict[str, list[str]] = {}
    for path in modules(package).values():
        if path.name != "__init__.py":
            found.setdefault(path.name, []).append(str(path.relative_to(package)))
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1}
