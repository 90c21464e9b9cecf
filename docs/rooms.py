"""Draws the folders of the package by floor: docs/images/rooms.svg, for docs/architecture.md.

Run ``python -m docs.rooms`` after a change of ``ROOMS`` in tests/architecture.py.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from tests.architecture import floors, import_graph, room_graph

IMAGE = Path(__file__).parent / "images" / "rooms.svg"
HOLDS = {
    "base": "options, errors, compiled kernels, files",
    "model": "frozen values: documents, fingerprints, records, claims",
    "text": "page to shingles: extraction, segments, numerals, names",
    "signature": "shingles to MinHash, SimHash, sketches; the Hamming kernel",
    "methods": "candidates to a judgement, and why",
    "index": "buckets, page records, claims: memory, SQLite, Redis",
    "journal": "what was dropped and why",
    "core": "fingerprinter, driver, judge, ranking, deduplicator",
    "plugin": "pipeline, items, settings, stats: all that knows Scrapy",
    "evaluation": "the methods on pairs and streams of your own",
    "tools": "commands, report, files, Spark, export and import",
}
_WIDTH, _HEIGHT, _GAP = 440, 52, 14


def render() -> str:
    """The picture as SVG."""
    found = floors(room_graph(import_graph()))
    by_floor: dict[int, list[str]] = {}
    for room in HOLDS:
        by_floor.setdefault(found[room], []).append(room)
    top = max(by_floor)
    height = top * (_HEIGHT + _GAP) + _GAP
    width = 2 * (_WIDTH + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for floor, rooms in by_floor.items():
        y = (top - floor) * (_HEIGHT + _GAP) + _GAP
        whole = 2 * _WIDTH + _GAP if len(rooms) == 1 else _WIDTH
        for column, room in enumerate(rooms):
            x = _GAP + column * (_WIDTH + _GAP)
            parts += [
                f'<rect x="{x}" y="{y}" width="{whole}" height="{_HEIGHT}" rx="6" '
                'fill="#eef3f8" stroke="#5b7a99"/>',
                f'<text x="{x + 14}" y="{y + 22}" font-size="15" font-weight="bold">{room}/</text>',
                f'<text x="{x + 14}" y="{y + 41}" font-size="13">{escape(HOLDS[room])}</text>',
            ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the picture."""
    IMAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
