"""Reads the stories of an outlet from its content file.

A content file is plain UTF-8 text. A line `@ /path` opens a story; `name: value` lines
follow, then an empty line, then one paragraph a line. A copy names its source with
`of: outlet/path` and holds only what it changes, so its relation to the source is exact. Any copy
may have its own `title:`; a headline copy must.

============  ====================================================================
kind          paragraphs of the page
============  ====================================================================
verbatim      those of the source; "caption copy" likewise, of a photo caption
headline      those of the source
lead          its own first one, then those of the source from the second on
cut           the first two thirds of the source
note          those of the source, its own line joined to the start of the first
advert        those of the source, then its own
============  ====================================================================

A bulletin with `like: outlet/path` repeats that page with other `figures`, in reading order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from attrs import frozen

from crawler.sample_site.outlets import OUTLETS

CONTENT = Path(__file__).parent / "content"
COPIES = frozenset({"verbatim", "headline", "lead", "cut", "note", "advert", "caption copy"})
KINDS = COPIES | {"original", "rewrite", "bulletin", "caption", "script"}
FIGURE = re.compile(r"\d+(?:\.\d+)?")

_FIELDS = frozenset(
    {"kind", "of", "like", "figures", "section", "date", "title", "via", "language"}
)
_VIA = frozenset({"links", "feed", "sitemap"})
_ZONE = timezone(timedelta(hours=8))


@frozen
class Story:
    """An article as it is published, with all edits of a copy applied."""

    outlet: str
    path: str
    kind: str
    section: str
    published: datetime
    title: str
    paragraphs: tuple[str, ...]
    language: str
    source: str | None
    """`outlet/path` of the story this one copies, rewrites or converts."""
    via: str
    """What leads to the page: "links", "feed" or "sitemap"; to a copy only the page it copies."""

    @property
    def id(self) -> str:
        """`outlet/path`, as `of:` lines name a story."""
        return self.outlet + self.path

    @property
    def is_copy(self) -> bool:
        """Whether the source page already has its content."""
        return self.kind in COPIES


@frozen
class _Draft:
    outlet: str
    path: str
    fields: dict[str, str]
    lines: tuple[str, ...]

    def fail(self, problem: str) -> ValueError:
        return ValueError(f"content/{self.outlet}.txt, story {self.path}: {problem}")

    def need(self, field: str) -> str:
        if field not in self.fields:
            raise self.fail(f"add a line `{field}: ...`")
        return self.fields[field]


def load_stories(folder: Path = CONTENT) -> tuple[Story, ...]:
    """Return the stories of all outlets, in the order of the content files in `folder`.

    Raises `ValueError` with the file, the story and what is wrong with it.
    """
    drafts: dict[str, _Draft] = {}
    for outlet in OUTLETS:
        text = (folder / f"{outlet.name}.txt").read_text(encoding="utf-8")
        for draft in parse(outlet.name, text):
            if draft.outlet + draft.path in drafts:
                raise draft.fail("the path is used twice, give one of them another")
            drafts[draft.outlet + draft.path] = draft
    stories: dict[str, Story] = {}
    for draft in drafts.values():
        _resolve(draft, drafts, stories)
    return tuple(stories[name] for name in drafts)


def parse(outlet: str, text: str) -> Iterator[_Draft]:
    """Split a content file into drafts, before copies are resolved."""
    for block in re.split(r"^@ ", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n\n")
        path, *lines = head.splitlines()
        pairs = (line.partition(":") for line in lines)
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        paragraphs = tuple(line.strip() for line in body.splitlines() if line.strip())
        draft = _Draft(outlet, path.strip(), fields, paragraphs)
        if unknown := sorted(fields.keys() - _FIELDS):
            raise draft.fail(f"unknown field {unknown[0]!r}, use one of {sorted(_FIELDS)}")
        yield draft


def set_figures(texts: tuple[str, ...], figures: list[str]) -> tuple[str, ...]:
    """Return the texts with their numerals replaced, in reading order.

    Raises `ValueError` if the number of figures differs from that of the numerals.
    """
    wanted = sum(len(FIGURE.findall(text)) for text in texts)
    if wanted != len(figures):
        raise ValueError(f"the page has {wanted} numerals, `figures:` has {len(figures)}")
    rest = iter(figures)
    return tuple(FIGURE.sub(lambda _: next(rest), text) for text in texts)


def _resolve(draft: _Draft, drafts: dict[str, _Draft], stories: dict[str, Story]) -> Story:
    name = draft.outlet + draft.path
    if name in stories:
        return stories[name]
    kind = draft.need("kind")
    if kind not in KINDS:
        raise draft.fail(f"unknown kind {kind!r}, use one of {sorted(KINDS)}")
    reference = draft.fields.get("of") or draft.fields.get("like")
    source = None
    if reference is not None:
        if reference not in drafts:
            raise draft.fail(f"there is no story {reference!r} to refer to")
        source = _resolve(drafts[reference], drafts, stories)
    elif kind in COPIES:
        raise draft.fail("a copy needs a line `of: outlet/path`")
    stories[name] = _story(draft, kind, source)
    return stories[name]


def _story(draft: _Draft, kind: str, source: Story | None) -> Story:
    title = draft.fields.get("title") or (source.title if source else draft.need("title"))
    paragraphs = _paragraphs(draft, kind, source)
    if "like" in draft.fields and source is not None:
        figures = draft.need("figures").split()
        try:
            title, *rest = set_figures((source.title, *source.paragraphs), figures)
        except ValueError as error:
            raise draft.fail(str(error)) from error
        paragraphs = tuple(rest)
    if not paragraphs:
        raise draft.fail("write at least one paragraph")
    outlet = next(outlet for outlet in OUTLETS if outlet.name == draft.outlet)
    section = draft.need("section")
    if section not in dict(outlet.sections):
        raise draft.fail(f"unknown section {section!r}, use one of {sorted(dict(outlet.sections))}")
    via = draft.fields.get("via", "links")
    if via not in _VIA:
        raise draft.fail(f"unknown via {via!r}, use one of {sorted(_VIA)}")
    try:
        published = datetime.strptime(draft.need("date"), "%Y-%m-%d %H:%M").replace(tzinfo=_ZONE)
    except ValueError as error:
        raise draft.fail(f"write the date as `date: 2026-03-05 08:10` ({error})") from error
    inherited = source.language if source and kind in COPIES else outlet.language
    return Story(
        outlet=draft.outlet,
        path=draft.path,
        kind=kind,
        section=section,
        published=published,
        title=title,
        paragraphs=paragraphs,
        language=draft.fields.get("language", inherited),
        source=source.id if source and "of" in draft.fields else None,
        via=via,
    )


def _paragraphs(draft: _Draft, kind: str, source: Story | None) -> tuple[str, ...]:
    own = draft.lines
    if source is None or kind not in COPIES:
        return own
    text = source.paragraphs
    if kind in {"lead", "note", "advert"}:
        if not own:
            raise draft.fail(f"a copy of kind {kind!r} needs its own paragraph")
    elif own:
        raise draft.fail(f"a copy of kind {kind!r} has no paragraph of its own")
    if kind == "headline":
        draft.need("title")
    if kind == "lead":
        return own + text[1:]
    if kind == "cut":
        return text[: max(1, len(text) * 2 // 3)]
    if kind == "note":
        return (own[0] + text[0], *text[1:])
    return text + own
