"""Lists every page of the sample site, its kind, and whether a crawl should store it."""

from __future__ import annotations

from attrs import frozen

from crawler.sample_site.outlets import OUTLETS, Outlet
from crawler.sample_site.stories import Story

LIST_LENGTH = 4
"""Articles on one page of a section list."""


@frozen
class SamplePage:
    """One address of the sample site and the expected result of a crawl."""

    outlet: str
    path: str
    kind: str
    original: str | None
    """`outlet/path` of the page whose content this one repeats, else None."""
    stored: bool
    """Whether a crawl stores it, if it fetches originals before their copies."""
    address: str
    """The canonical address, the same in every run; a copy has its own."""


@frozen
class Extra:
    """A page that is not a story: an error, an empty page, or a second address of an article."""

    outlet: str
    path: str
    kind: str
    label: str
    target: str | None = None
    """Path of the article it leads to or repeats, on the same outlet."""


EXTRAS = (
    Extra("chenbao", "/2026/03/07/c1990.html", "empty", "图集：三月的云泊河岸"),
    Extra(
        "chenbao",
        "/print/c1001.html",
        "disallowed",
        "打印版：夜间公交试运行",
        "/2026/03/04/c1001.html",
    ),
    Extra("portal", "/news/20260307/20990.htm", "error", "专题：三月企业服务月"),
    Extra("portal", "/goto/20101", "redirect", "推荐：轴承企业订单", "/news/20260304/20101.htm"),
    Extra("gazette", "/local/withdrawn-parking-notice", "missing", "Parking notice (withdrawn)"),
    Extra("hui", "/a/202603/5990.html", "empty", "视频：竹乡清晨"),
    Extra(
        "hui",
        "/a/202603/5001.html?utm_source=home&utm_medium=banner",
        "tracking",
        "头条推荐：竹编进课堂",
        "/a/202603/5001.html",
    ),
)


def section_path(outlet: Outlet, section: str, page: int = 1) -> str:
    """Return the path of a page of a section list, counted from 1."""
    if page == 1:
        return f"/{section}/"
    return outlet.next_list.format(section=section, page=page)


def listed(stories: tuple[Story, ...], outlet: str, section: str) -> list[tuple[Story, ...]]:
    """Return the pages of a section list, newest story first.

    Copies are in no list; only the page they copy links to them.
    """
    chosen = [
        story
        for story in stories
        if (story.outlet, story.section) == (outlet, section)
        and story.via == "links"
        and not story.is_copy
    ]
    chosen.sort(key=lambda story: (story.published, story.path), reverse=True)
    starts = range(0, max(1, len(chosen)), LIST_LENGTH)
    return [tuple(chosen[start : start + LIST_LENGTH]) for start in starts]


def address(outlet: Outlet, path: str) -> str:
    """Return the canonical address of a path."""
    return f"https://{outlet.host}{path}"


def manifest(stories: tuple[Story, ...]) -> tuple[SamplePage, ...]:
    """Return every page of the site: fronts, lists, articles, and extra pages."""
    pages: list[SamplePage] = []
    for outlet in OUTLETS:
        pages.append(_page(outlet, "/", "front"))
        for section, _ in outlet.sections:
            count = len(listed(stories, outlet.name, section))
            pages += [
                _page(outlet, section_path(outlet, section, number), "list")
                for number in range(1, count + 1)
            ]
        pages += [
            _page(outlet, story.path, story.kind, story.source if story.is_copy else None)
            for story in stories
            if story.outlet == outlet.name
        ]
        for extra in EXTRAS:
            if extra.outlet == outlet.name:
                original = outlet.name + extra.target if extra.target else None
                pages.append(_page(outlet, extra.path, extra.kind, original))
    return tuple(pages)


def _page(outlet: Outlet, path: str, kind: str, original: str | None = None) -> SamplePage:
    own = path.partition("?")[0] if kind == "tracking" else path
    return SamplePage(
        outlet=outlet.name,
        path=path,
        kind=kind,
        original=original,
        stored=kind in {"original", "rewrite", "bulletin", "caption", "script"},
        address=address(outlet, own),
    )
