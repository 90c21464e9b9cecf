"""Renders stories to the bytes that each outlet serves: pages, feeds, sitemaps, robots.txt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from attrs import frozen
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from crawler.sample_site.manifest import EXTRAS, Extra, SamplePage, address, listed, section_path
from crawler.sample_site.outlets import OUTLETS, Outlet
from crawler.sample_site.stories import Story

UPDATED = datetime(2026, 3, 8, 9, 0, tzinfo=timezone(timedelta(hours=8)))
"""When fronts, lists, feeds and sitemaps were last changed."""
RELATED = 4
"""Most related links under an article."""


@frozen
class Answer:
    """An HTTP response, ready to send."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...]
    body: bytes
    story: str | None = None
    """`outlet/path` of the article in it."""
    after: str | None = None
    """`outlet/path` of the article that has to be sent before."""


@frozen
class Link:
    """A link in a template: its text, its target and, for articles, the date."""

    label: str
    url: str
    date: datetime | None = None


def render(
    stories: tuple[Story, ...], pages: Iterable[SamplePage], urls: Mapping[str, str]
) -> dict[str, dict[str, Answer]]:
    """Return for every outlet its responses by path; the key "404" is for all other paths.

    `urls` are the base addresses of the outlets.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    paths = {outlet.name: [p for p in pages if p.outlet == outlet.name] for outlet in OUTLETS}
    return {
        outlet.name: _Renderer(environment, outlet, stories, urls).answers(paths[outlet.name])
        for outlet in OUTLETS
    }


class _Renderer:
    """Renders the pages and files of one outlet."""

    def __init__(
        self,
        environment: Environment,
        outlet: Outlet,
        stories: tuple[Story, ...],
        urls: Mapping[str, str],
    ) -> None:
        self._environment = environment
        self._outlet = outlet
        self._urls = urls
        self._stories = stories
        self._own = {story.path: story for story in stories if story.outlet == outlet.name}
        self._names = {story.id: story for story in stories}
        self._lists = {
            section: listed(stories, outlet.name, section) for section, _ in outlet.sections
        }

    def answers(self, pages: Iterable[SamplePage]) -> dict[str, Answer]:
        extras = {extra.path: extra for extra in EXTRAS if extra.outlet == self._outlet.name}
        answers = {"/": self._front(), "404": self._failure(HTTPStatus.NOT_FOUND)}
        for page in pages:
            if page.path in self._own:
                answers[page.path] = self._article(self._own[page.path])
            elif page.path in extras:
                answers |= self._extra(extras[page.path])
        for section, label in self._outlet.sections:
            for number in range(1, len(self._lists[section]) + 1):
                path = section_path(self._outlet, section, number)
                answers[path] = self._list(section, label, number)
        return answers | self._machine_files()

    def _front(self) -> Answer:
        groups = [
            (Link(label, self._url(section_path(self._outlet, section))), self._lists[section][0])
            for section, label in self._outlet.sections
        ]
        extras = [
            Link(extra.label, self._url(extra.path))
            for extra in EXTRAS
            if extra.outlet == self._outlet.name
        ]
        return self._page(
            "list.html",
            UPDATED,
            heading=self._outlet.title,
            canonical=address(self._outlet, "/"),
            groups=[(link, [self._link(s) for s in stories]) for link, stories in groups],
            extras=extras,
            previous=None,
            following=None,
        )

    def _list(self, section: str, label: str, number: int) -> Answer:
        def neighbour(page: int) -> str | None:
            if 1 <= page <= len(self._lists[section]):
                return self._url(section_path(self._outlet, section, page))
            return None

        path = section_path(self._outlet, section, number)
        stories = self._lists[section][number - 1]
        return self._page(
            "list.html",
            UPDATED,
            heading=label,
            canonical=address(self._outlet, path),
            groups=[(Link(label, self._url(path)), [self._link(story) for story in stories])],
            extras=[],
            previous=neighbour(number - 1),
            following=neighbour(number + 1),
        )

    def _article(self, story: Story) -> Answer:
        source = self._names[story.source] if story.source and story.is_copy else None
        copies = [s for s in self._stories if s.is_copy and s.source == story.id]
        return self._page(
            "article.html",
            story.published,
            story=story.id,
            after=source.id if source else None,
            title=story.title,
            paragraphs=story.paragraphs,
            language=story.language,
            published=story.published,
            canonical=address(self._outlet, story.path),
            section=self._section(story.section),
            source=self._outlet_link(source) if source else None,
            copies=[self._outlet_link(copy) for copy in copies],
            related=self._related(story.path),
            number=_number(story.path),
        )

    def _extra(self, extra: Extra) -> dict[str, Answer]:
        if extra.kind == "empty":
            return {extra.path: self._empty(extra)}
        if extra.kind == "error":
            return {extra.path: self._failure(HTTPStatus.INTERNAL_SERVER_ERROR)}
        if extra.kind == "disallowed" and extra.target:
            story = self._own[extra.target]
            return {extra.path: self._page("../print.html", story.published, print=story)}
        if extra.kind == "redirect" and extra.target:
            location = (("Location", self._url(extra.target)),)
            return {extra.path: Answer(HTTPStatus.FOUND, location, b"")}
        # "missing" has no response; "tracking" gets the response for its path without the query.
        return {}

    def _empty(self, extra: Extra) -> Answer:
        return self._page(
            "article.html",
            UPDATED,
            title=extra.label,
            paragraphs=(),
            language=self._outlet.language,
            published=UPDATED,
            canonical=address(self._outlet, extra.path),
            section=self._section(self._outlet.sections[0][0]),
            source=None,
            copies=[],
            related=self._related(extra.path),
            number=_number(extra.path),
        )

    def _failure(self, status: HTTPStatus) -> Answer:
        body = self._text("../error.html", status=status)
        headers = (("Content-Type", self._outlet.content_type),)
        return Answer(status, headers, body.encode(self._outlet.charset))

    def _machine_files(self) -> dict[str, Answer]:
        outlet = self._outlet
        reached = [story for story in self._own.values() if not story.is_copy]
        entries = sorted(reached, key=lambda story: story.published, reverse=True)
        in_feed = [self._link(story) for story in entries if story.via == "feed"]
        in_feed += [self._link(story) for story in entries if story.via == "links"][:8]
        in_map = [self._link(story) for story in entries if story.via != "feed"]
        files = {"/robots.txt": self._file("robots.txt", "text/plain")}
        if outlet.feed:
            kind = f"application/{outlet.feed}+xml; charset=utf-8"
            files[outlet.feed_path] = self._file(f"{outlet.feed}.xml", kind, entries=in_feed)
        if outlet.news_sitemap:
            files["/sitemap.xml"] = self._file("sitemap-index.xml", "application/xml")
            files["/sitemap-news.xml"] = self._file(
                "sitemap-news.xml", "application/xml", entries=in_map
            )
        else:
            files["/sitemap.xml"] = self._file("sitemap.xml", "application/xml", entries=in_map)
        return files

    def _file(self, template: str, content_type: str, **values: Any) -> Answer:
        body = self._text("../" + template, **values).encode("utf-8")
        return Answer(HTTPStatus.OK, _headers(content_type, UPDATED, body), body)

    def _page(
        self,
        template: str,
        changed: datetime,
        *,
        story: str | None = None,
        after: str | None = None,
        **values: Any,
    ) -> Answer:
        # Strict: a character that the outlet can't encode is an error in the content file.
        body = self._text(template, **values).encode(self._outlet.charset)
        headers = _headers(self._outlet.content_type, changed, body)
        return Answer(HTTPStatus.OK, headers, body, story, after)

    def _text(self, template: str, **values: Any) -> str:
        shared = template.startswith("../")
        name = template[3:] if shared else f"{self._outlet.name}/{template}"
        outlet = self._outlet
        navigation = [
            Link(label, self._url(section_path(outlet, section)))
            for section, label in outlet.sections
        ]
        return self._environment.get_template(name).render(
            outlet=outlet,
            home=self._url("/"),
            feed=self._url(outlet.feed_path) if outlet.feed else None,
            navigation=navigation,
            updated=UPDATED,
            rfc822=format_datetime,
            **values,
        )

    def _url(self, path: str) -> str:
        return self._urls[self._outlet.name] + path

    def _link(self, story: Story) -> Link:
        return Link(story.title, self._url(story.path), story.published)

    def _section(self, section: str) -> Link:
        label = dict(self._outlet.sections)[section]
        return Link(label, self._url(section_path(self._outlet, section)))

    def _outlet_link(self, story: Story) -> Link:
        title = next(outlet.title for outlet in OUTLETS if outlet.name == story.outlet)
        return Link(title, self._urls[story.outlet] + story.path, story.published)

    def _related(self, path: str) -> list[Link]:
        """Return links to other stories in the lists of the outlet, never to a copy."""
        chosen = [s for s in self._own.values() if s.via == "links" and not s.is_copy]
        start = _number(path) % max(1, len(chosen))
        turned = chosen[start:] + chosen[:start]
        return [self._link(story) for story in turned if story.path != path][:RELATED]


def _number(path: str) -> int:
    """Return a number that is constant for the page, to vary adverts and comments."""
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=4).digest(), "big")


def _headers(content_type: str, changed: datetime, body: bytes) -> tuple[tuple[str, str], ...]:
    return (
        ("Content-Type", content_type),
        ("Last-Modified", format_datetime(changed.astimezone(timezone.utc), usegmt=True)),
        ("ETag", f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"'),
        ("Cache-Control", "max-age=60"),
    )
