"""Pages for the Spark benchmark: texts multiplied by the edit generator, duplicates planted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_middleware.evaluation.corpus import read_documents
from dedup_middleware.evaluation.edits import edit, split_sentences
from dedup_middleware.evaluation.madeup import documents
from dedup_middleware.evaluation.stream import COPIES

_SHARE = 0.2  # of planted duplicates
_PART = 20_000
_BACK = 50_000  # pages between an original and its copy, at the most


@attrs.frozen
class Page:
    """A page; ``story`` is the place of the page that it is a copy of, or its own."""

    place: int
    text: str
    story: int


def source_texts(path: Path | None) -> list[str]:
    """Texts of a file of JSON lines, or invented ones."""
    if path is None:
        return [line["text"] for line in documents(2000)]
    return [one.document.text or "" for one in read_documents([path])]


def pages(texts: Sequence[str], count: int, seed: int = 1) -> Iterator[Page]:
    """Pages of sentences of three texts each, no two alike, and light edits of a fifth of them."""
    rng = random.Random(seed)
    sentences = [one for one in ([s for s, _ in split_sentences(t)] for t in texts) if len(one) > 3]
    recent: list[Page] = []
    for place in range(count):
        if recent and rng.random() < _SHARE:
            original = recent[rng.randrange(len(recent))]
            kind, intensity = COPIES[place % len(COPIES)]
            yield Page(place, edit(original.text, kind, intensity, place), original.story)
            continue
        drawn = [s for one in rng.sample(sentences, 3) for s in rng.sample(one, min(6, len(one)))]
        rng.shuffle(drawn)
        page = Page(place, "".join(drawn), place)
        if len(recent) < _BACK:
            recent.append(page)
        else:
            recent[place % _BACK] = page
        yield page


def write(folder: Path, texts: Sequence[str], count: int) -> tuple[Path, dict[int, int]]:
    """The pages as Parquet, and the story of each place; what is there already is used again."""
    path, truth = folder / f"pages-{count}", folder / f"truth-{count}.json"
    if not truth.exists():
        path.mkdir(parents=True, exist_ok=True)
        stories: list[int] = []
        part: list[Page] = []
        for page in pages(texts, count):
            part.append(page)
            stories.append(page.story)
            if len(part) == _PART or page.place == count - 1:
                rows = [
                    {"place": p.place, "url": f"https://h{p.place}.example/", "text": p.text}
                    for p in part
                ]
                pq.write_table(pa.Table.from_pylist(rows), path / f"{page.place:09}.parquet")
                part = []
        truth.write_text(json.dumps(stories))
    return path, dict(enumerate(json.loads(truth.read_text())))


@attrs.frozen
class Score:
    """Planted duplicates found, and dropped pages that are none."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def score(dropped: set[int], stories: dict[int, int]) -> Score:
    """Of pages that were dropped; a page is a duplicate if it is a copy of another one."""
    planted = {place for place, story in stories.items() if place != story}
    right = len(dropped & planted)
    return Score(right / max(1, len(dropped)), right / max(1, len(planted)))
