"""Reads the title, date, author, site, language and canonical address that a page states.

Sources in this order: JSON-LD (by extruct), OpenGraph and other ``<meta>`` fields, ``<time>``; for
pages without a date, htmldate. The canonical address comes from ``<link>`` before ``<meta>``, the
language from ``<html>`` before ``<meta>``. Hostile pages never raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import attrs
from w3lib.url import canonicalize_url

from crawler.discovery import absolute, base_address, split
from dedup_middleware.text.extract import clean

# Longest title, name or date, in characters.
MAX_FIELD = 500
# Most JSON-LD blocks of a page, and most characters of one; larger ones are application data.
MAX_BLOCKS = 50
MAX_BLOCK = 300_000
# Most JSON-LD nodes that are read.
MAX_NODES = 2_000
# Longest page, in characters, searched for a date; the search is slow on large pages.
MAX_DATED = 300_000

ARTICLE_TYPES = frozenset(
    "article newsarticle analysisnewsarticle askpublicnewsarticle backgroundnewsarticle "
    "opinionnewsarticle reportagenewsarticle reviewnewsarticle liveblogposting blogposting report "
    "satiricalarticle".split()
)
_TITLES = ("og:title", "twitter:title", "dc.title", "title")
_DATES = (
    "article:published_time og:published_time datepublished pubdate publishdate publish_time "
    "publication_date dc.date dc.date.issued dcterms.created parsely-pub-date sailthru.date date"
).split()
_AUTHORS = ("author", "article:author", "dc.creator", "parsely-author", "byl", "mediaid")
_SITES = ("og:site_name", "application-name", "publisher", "dc.publisher")
# ISO 8601, also with Chinese and other common separators.
_DATE = re.compile(
    r"(?P<year>\d{4})[-/.年](?P<month>\d{1,2})[-/.月](?P<day>\d{1,2})日?"
    r"(?:[T\s]*(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"\s*(?P<zone>[Zz]|[+-]\d\d:?\d\d)?)?"
)
_SPACE = re.compile(r"\s+")


@attrs.frozen
class Metadata:
    """Metadata that a page states; ``None`` for what it does not state in usable form.

    ``published`` is ISO 8601, ``canonical`` an absolute address that is not trusted yet;
    ``is_article`` is true if JSON-LD or OpenGraph marks the page as an article.
    """

    title: str | None = None
    description: str | None = None
    published: str | None = None
    author: str | None = None
    site: str | None = None
    language: str | None = None
    canonical: str | None = None
    is_article: bool = False


def read_metadata(tree: Any, url: str) -> Metadata:
    """Read the metadata of a page.

    :param tree: the page as an lxml element
    :param url: its address, the base of relative references
    """
    meta = _meta_fields(tree)
    article = next((node for node in _nodes(_json_ld(tree)) if _is_article(node)), {})
    return Metadata(
        title=_first([article.get("headline"), article.get("name"), *_pick(meta, _TITLES[:1])]),
        description=_first(_pick(meta, ("description",))),
        published=_published(tree, meta, article),
        author=_first([*_names(article.get("author")), *filter(_is_name, _pick(meta, _AUTHORS))]),
        site=_first([*_names(article.get("publisher")), *_pick(meta, _SITES)]),
        language=_language(tree, meta, article),
        canonical=_canonical(tree, meta, url),
        is_article=bool(article) or meta.get("og:type", "").lower().startswith("article"),
    )


def stated_title(tree: Any) -> str | None:
    """Return the title from ``<meta>`` or ``<title>``, for a page without an article title."""
    element = tree.find(".//title")
    text = element.text_content() if element is not None else None
    return _first([*_pick(_meta_fields(tree), _TITLES), text])


def trusted_key(url: str, canonical: str | None, *, any_host: bool = False) -> str:
    """Return the key of a page: its canonical address if that can be trusted, or else its own.

    Pages with one key are revisits or versions of one page, so a page must not be able to take the
    key of another publisher. Only an address on the same host and port is trusted, by http or
    https: subdomains may belong to different publishers (wordpress.com), and no list of these is
    complete. A front page is never the canonical address of another page. ``any_host`` is for the
    sample site, with its fixed canonical addresses and changing ports.

    >>> trusted_key("https://one.example/1?utm_source=x", "https://one.example/1")
    'https://one.example/1'
    >>> trusted_key("https://evil.example.com/1", "https://www.example.com/1")
    'https://evil.example.com/1'
    """
    own = canonicalize_url(url)
    own_parts, parts = split(url), split(canonical or "")
    if canonical is None or own_parts is None or parts is None:
        return own
    if parts.path in {"", "/"} and not parts.query and own_parts.path not in {"", "/"}:
        return own
    if any_host or _host_and_port(own_parts) == _host_and_port(parts):
        return canonicalize_url(canonical)
    return own


def _host_and_port(parts: SplitResult) -> tuple[str, int | None]:
    """Return host and port of an address; None for the default port of its scheme."""
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return (parts.hostname or "").rstrip("."), None if parts.port == default else parts.port


def find_date(html: str, url: str) -> str | None:
    """Return the publication day found by htmldate, ``YYYY-MM-DD``, or ``None``.

    A last resort for pages that state no date, as it takes 5 to 20 ms per page.
    """
    import htmldate  # takes half a second, needed only for pages without a date

    if len(html) > MAX_DATED:
        return None
    try:
        found = htmldate.find_date(html, extensive_search=False, original_date=True, url=url)
    except Exception:  # a guess on hostile input may raise anything
        return None
    return str(found) if found else None


def _meta_fields(tree: Any) -> dict[str, str]:
    """Return the first content of each ``<meta>`` name or property, in lower case."""
    fields: dict[str, str] = {}
    for element in tree.iter("meta"):
        for attribute in ("property", "name", "itemprop"):
            name, content = element.get(attribute), element.get("content")
            if name and content and content.strip():
                fields.setdefault(name.strip().lower(), content.strip())
    return fields


def _pick(meta: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [meta[name] for name in names if name in meta]


def _json_ld(tree: Any) -> Iterator[Any]:
    """Yield the JSON-LD of a page, parsed block by block: a broken block must not hide others."""
    blocks = [script for script in tree.iter("script") if _is_json_ld(script)]
    if not blocks:
        return
    from extruct.jsonld import JsonLdExtractor  # takes 1.5 s, needed only if a page has JSON-LD

    extractor = JsonLdExtractor()
    for script in blocks[:MAX_BLOCKS]:
        if len(script.text or "") > MAX_BLOCK:
            continue
        try:
            yield from extractor.extract_items(script)
        except (ValueError, RecursionError, TypeError, KeyError, IndexError):
            continue


def _is_json_ld(script: Any) -> bool:
    return (script.get("type") or "").strip().lower() == "application/ld+json"


def _nodes(roots: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield JSON-LD objects breadth-first, with ``@graph`` and ``mainEntity``; bounded."""
    queue = list(roots)
    for seen, node in enumerate(queue):
        if seen >= MAX_NODES:
            return
        if isinstance(node, list):
            queue += node[:MAX_NODES]
        elif isinstance(node, dict):
            yield node
            # The queue grows during the walk, up to MAX_NODES.
            queue += [node[name] for name in ("@graph", "mainEntity") if name in node]


def _is_article(node: Mapping[str, Any]) -> bool:
    types = node.get("@type")
    names = types if isinstance(types, list) else [types]
    return any(str(name).rpartition("/")[2].lower() in ARTICLE_TYPES for name in names)


def _names(value: Any) -> list[str]:
    """Return [names of people or organisations, joined], or []; from a string, object or list."""
    values = value[:20] if isinstance(value, list) else [value]
    names = [item.get("name") if isinstance(item, dict) else item for item in values]
    kept = [name for name in names if isinstance(name, str) and _is_name(name)]
    return [", ".join(kept)] if kept else []


def _is_name(value: str) -> bool:
    """Whether a value is a name and not, as on some sites, the address of a profile."""
    return not value.strip().lower().startswith(("http://", "https://"))


def _first(values: Iterable[Any]) -> str | None:
    """Return the first non-empty text, white space collapsed, cut to the largest field length.

    JSON may contain lone surrogates ("\\ud83d"), which databases and feeds reject.
    """
    for value in values:
        if isinstance(value, str):
            text = _SPACE.sub(" ", clean(value[: MAX_FIELD * 4])).strip()[:MAX_FIELD]
            if text:
                return text
    return None


def _published(tree: Any, meta: Mapping[str, str], article: Mapping[str, Any]) -> str | None:
    candidates = [article.get("datePublished"), *_pick(meta, _DATES)]
    candidates += [element.get("datetime") for element in tree.iter("time")][:5]
    dates = (iso_date(value) for value in candidates if isinstance(value, str))
    return next((date for date in dates if date), None)


def iso_date(value: str) -> str | None:
    """Return a date as ISO 8601, with time and zone if stated; ``None`` if it is no date.

    >>> iso_date("2024年5月6日 08:30")
    '2024-05-06T08:30:00'
    >>> iso_date("Mon, 06 May 2024 08:30:00 +0800"), iso_date("08:30")
    ('2024-05-06T08:30:00+08:00', None)
    """
    value = value.strip()[:64]
    try:
        if (match := _DATE.match(value)) is not None:
            parsed = _from_match(match)
            text = parsed.isoformat() if match["hour"] else parsed.date().isoformat()
        else:
            parsed = parsedate_to_datetime(value)
            text = parsed.isoformat()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return text if 1990 <= parsed.year <= datetime.now(timezone.utc).year + 1 else None


def _from_match(match: re.Match[str]) -> datetime:
    day = (int(match["year"]), int(match["month"]), int(match["day"]))
    time = (int(match["hour"] or 0), int(match["minute"] or 0), int(match["second"] or 0))
    zone = match["zone"]
    if not zone:
        return datetime(*day, *time)
    if zone in "Zz":
        return datetime(*day, *time, tzinfo=timezone.utc)
    digits = zone[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return datetime(*day, *time, tzinfo=timezone(-offset if zone[0] == "-" else offset))


def _language(tree: Any, meta: Mapping[str, str], article: Mapping[str, Any]) -> str | None:
    stated = [article.get("inLanguage"), tree.get("lang"), tree.get("xml:lang")]
    stated += _pick(meta, ("og:locale", "content-language", "language"))
    language = _first(stated)
    return language.replace("_", "-")[:35] if language else None


def _canonical(tree: Any, meta: Mapping[str, str], url: str) -> str | None:
    base = base_address(tree, url)
    stated = [
        element.get("href")
        for element in tree.iter("link")
        if "canonical" in (element.get("rel") or "").lower().split()
    ]
    stated += _pick(meta, ("og:url",))
    addresses = (absolute(base, reference) for reference in stated if reference)
    return next((address for address in addresses if address), None)


def host(url: str) -> str:
    """Return the host of an address, the name of a site that states none."""
    return urlsplit(url).hostname or url
