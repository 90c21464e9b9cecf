"""Generates pages for the Spark benchmark from texts, with planted duplicates."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_middleware.evaluation.corpus import read_documents
from dedup_middleware.evaluation.edits import edit, split_sentences
from dedup_middleware.evaluation.stream import COPIES, OTHERS
from research.madeup import documents

_SHARE = 0.2  # of planted duplicates
_OTHERS = 0.05  # share of planted other pages: the same words with other figures
_PART = 20_000  # most pages in a file
_FILES = 8  # least number of files, so that all cores have work
_BACK = 50_000  # most pages between an original and its copy
_LEAST, _MOST = 8, 16  # sentences of a page
_SHORTEST, _LONGEST = 10, 120  # characters of a sentence


@attrs.frozen
class Page:
    """A page. ``story``: place of the page that it copies, or its own; ``kind``: how it was edited,
    empty for an original; ``origin``: place of the page that was edited, or its own."""

    place: int
    text: str
    story: int
    kind: str = ""
    origin: int = attrs.field(default=attrs.Factory(lambda self: self.story, takes_self=True))


def source_texts(paths: Iterable[Path]) -> list[str]:
    """Return the texts of JSON lines files or of folders; invented ones by default."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.jsonl*")) if path.is_dir() else [path])
    ]
    if not files:
        return [line["text"] for line in documents(2000)]
    return [one.document.text or "" for one in read_documents(files)]


def pages(texts: Sequence[str], count: int, seed: int = 1) -> Iterator[Page]:
    """Yield pages of sentences from many texts, light edits, and copies with other figures.

    Each sentence of a page is short and from another text, so pages that are no copies share few
    sentences at most: all duplicates are planted.
    """
    rng = random.Random(seed)
    sentences = [
        fitting
        for text in texts
        if (
            fitting := [
                s for s, _ in split_sentences(text) if _SHORTEST <= len(s.strip()) <= _LONGEST
            ]
        )
    ]
    recent: list[Page] = []
    for place in range(count):
        lot = rng.random()
        if recent and lot < _SHARE + _OTHERS:
            original = recent[rng.randrange(len(recent))]
            kinds = COPIES if lot < _SHARE else OTHERS
            kind, intensity = kinds[place % len(kinds)]
            text = edit(original.text, kind, intensity, place)
            # Some pages have no figure to change.
            if lot < _SHARE or text != original.text:
                story = original.story if lot < _SHARE else place
                yield Page(place, text, story, kind, original.place)
                continue
        drawn = rng.sample(sentences, rng.randint(_LEAST, _MOST))
        page = Page(place, "".join(rng.choice(one) for one in drawn), place)
        if len(recent) < _BACK:
            recent.append(page)
        else:
            recent[rng.randrange(_BACK)] = page
        yield page


@attrs.frozen
class Truth:
    """What was planted, by place: the story, the kind of edit (empty for an original), and the
    place of the edited page, which for a copy is its story."""

    stories: Sequence[int]
    kinds: Sequence[str]
    origins: Sequence[int] = attrs.field(
        default=attrs.Factory(lambda self: self.stories, takes_self=True)
    )


def write(folder: Path, texts: Sequence[str], count: int) -> tuple[Path, Truth]:
    """Write the pages as Parquet, or reuse files; return their folder and what was planted.

    Columns are ``place``, ``url`` and ``text``.
    """
    digest = blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=4).hexdigest()
    path, truth = folder / f"pages-{count}-{digest}", folder / f"truth-{count}-{digest}.json"
    if not truth.exists():
        path.mkdir(parents=True, exist_ok=True)
        stories: list[int] = []
        kinds: list[str] = []
        origins: list[int] = []
        part: list[Page] = []
        size = max(1, min(_PART, count // _FILES))
        for page in pages(texts, count):
            part.append(page)
            stories.append(page.story)
            kinds.append(page.kind)
            origins.append(page.origin)
            if len(part) == size or page.place == count - 1:
                rows = [
                    {"place": p.place, "url": f"https://h{p.place}.example/", "text": p.text}
                    for p in part
                ]
                name = f"{part[0].place:09}.parquet"
                pq.write_table(pa.Table.from_pylist(rows), path / name)
                part = []
        truth.write_text(json.dumps({"stories": stories, "kinds": kinds, "origins": origins}))
    return path, Truth(**json.loads(truth.read_text()))


@attrs.frozen
class Score:
    """How many planted duplicates were dropped, and what else was.

    ``planted``, ``right`` and ``dropped`` count pages; ``others`` counts pages wrongly dropped that
    differ from another one only in figures, which most tools ignore. ``missed``: by kind of edit.
    """

    planted: int
    right: int
    dropped: int
    others: int
    missed: Mapping[str, int]

    @property
    def precision(self) -> float:
        """Share of the dropped pages that are planted duplicates."""
        return self.right / max(1, self.dropped)

    @property
    def recall(self) -> float:
        """Share of the planted duplicates that were dropped."""
        return self.right / max(1, self.planted)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / max(1, self.dropped + self.planted)

    @property
    def f1_without_others(self) -> float:
        """F1 if pages with other figures did not count."""
        return 2 * self.right / max(1, self.dropped - self.others + self.planted)


def score(dropped: Iterable[int], truth: Truth) -> Score:
    """Score the places that were dropped.

    Tools differ in which page of a story they keep, and any will do: all pages but one should be
    dropped, and if the last one is dropped too, one drop was wrong.
    """
    gone = set(dropped)
    sizes = Counter(truth.stories)
    lost = Counter(truth.stories[place] for place in gone)
    right = sum(min(count, sizes[story] - 1) for story, count in lost.items())
    families = Counter(truth.origins)
    within = Counter(truth.origins[place] for place in gone)
    alike = sum(min(count, families[origin] - 1) for origin, count in within.items())
    missed = Counter(
        kind
        for place, (story, kind) in enumerate(zip(truth.stories, truth.kinds, strict=True))
        if story != place and place not in gone and lost[story] < sizes[story] - 1
    )
    return Score(
        planted=len(truth.stories) - len(sizes),
        right=right,
        dropped=len(gone),
        others=alike - right,
        missed=dict(missed.most_common()),
    )
