"""The news spider: crawls the sample site, or real sites with ``-a start=``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.asyncio import run_in_thread
from w3lib.encoding import http_content_type_encoding

from crawler.arguments import BAD_ARGUMENT, ArgumentError, Arguments, parse_arguments
from crawler.article import ReadPage, read_page
from crawler.discovery import Sites, absolute, feed_entries, robots_sitemaps, sitemap
from crawler.frontier import EXPLANATIONS, Frontier, Skip
from crawler.items import Article
from crawler.metadata import host, trusted_key
from crawler.sample_site import SampleSite, SampleSiteError
from dedup_middleware.plugin.reports import fail

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure
    from typing_extensions import Self

# Most feeds and sitemaps read per site, and the deepest nesting of sitemap indexes.
MAX_SOURCES = 50
MAX_NESTING = 3
# Requested before all pages, since they list the addresses of articles.
_SOURCE_PRIORITY = 1_000


class NewsSpider(Spider):
    """Finds article pages by links, feeds and news sitemaps, and yields an item for each.

    ``-a start=URL,URL``: the sites to crawl; without it the sample site is served and crawled.
    ``-a pages=N``: stop after N article pages. ``-a depth=N``: at most N clicks from the start.
    """

    name = "news"
    _job: str | None = None

    def __init__(self, arguments: Arguments, problem: str | None = None) -> None:
        super().__init__()
        self.arguments = arguments
        self.problem = problem
        self.sample: SampleSite | None = None
        self.frontier = Frontier(Sites(()), None, self._count_skip)
        self._articles = 0
        self._sources: set[str] = set()
        self._sources_of: dict[int, int] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, *_: Any, **given: str) -> Self:
        """Check the arguments; a bad one ends the crawl with a message once the spider opens."""
        try:
            spider = cls(parse_arguments(given))
        except ArgumentError as error:
            spider = cls(Arguments(), problem=str(error))
        spider._job = given.get("_job")  # which the journal has as the id of the crawl
        spider._set_crawler(crawler)
        if not spider.arguments.start:
            _set_sample_pace(crawler.settings)
        crawler.signals.connect(spider.stop_sample, signals.spider_closed)
        crawler.signals.connect(spider.check_redirect, signals.request_scheduled)
        crawler.signals.connect(spider.note_dropped, signals.request_dropped)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Request the start pages, and the sitemaps listed in their robots.txt."""
        if self.problem is not None:
            self.logger.error("%s", self.problem)
            fail(self.crawler)
            raise CloseSpider(BAD_ARGUMENT)
        addresses = list(self.arguments.start) or await self._start_sample()
        self.frontier = Frontier(Sites.of(addresses), self.arguments.depth, self._count_skip)
        for address in addresses:
            if (robots := absolute(address, "/robots.txt")) is not None:
                for request in self._source(robots, kind="robots"):
                    yield request
            for request in self._page(address, 0):
                yield request

    async def _start_sample(self) -> list[str]:
        try:
            self.sample = sample = SampleSite()
            # Rendering its pages and binding its ports blocks.
            await run_in_thread(sample.__enter__)
        except SampleSiteError as error:
            self.logger.error("The sample site can't be served: %s", error)
            fail(self.crawler)
            raise CloseSpider("sample_site_unavailable") from error
        self.logger.info("Crawling the sample site on loopback; -a start=URL crawls a real one")
        return [address for address, _ in sample.start_urls()]

    async def stop_sample(self) -> None:
        """Stop serving the sample site, if it is served."""
        if self.sample is not None:
            sample, self.sample = self.sample, None
            await run_in_thread(sample.__exit__, None, None, None)

    # Pages

    async def parse_page(
        self, response: Response, address: str, depth: int, listed: bool = False
    ) -> AsyncIterator[Any]:
        """Yield an item if a page is an article, and requests for its links."""
        if self.frontier.full:
            return
        if isinstance(response, XmlResponse):
            # A feed reached by an ordinary link.
            self.frontier.done(address)
            async for request in self.parse_feed(response, depth):
                yield request
            return
        if not _is_html(response):
            self._leave_out(address, Skip.NOT_HTML, _content_type(response))
            return
        url = response.url
        listed = listed or self.frontier.is_listed(address) or self.frontier.is_listed(url)
        charset = http_content_type_encoding(_content_type(response))
        page = await run_in_thread(read_page, response.body, url, charset=charset, listed=listed)
        if self.frontier.full:
            # The page limit was reached while this page was read.
            return
        for request in self._followed(page, depth):
            yield request
        if not page.is_article:
            self.frontier.leave_out(address, Skip.LIST_PAGE)
            return
        self.frontier.done(address)
        self._articles += 1
        last = self._articles == self.arguments.pages
        if last:
            self.frontier.fill()
        yield self._article(page, url)
        if last:
            raise CloseSpider("pages")

    def _article(self, page: ReadPage, url: str) -> Article:
        metadata = page.metadata
        key = trusted_key(url, metadata.canonical, any_host=self.sample is not None)
        keep_html = self.settings.getbool("NEWS_STORE_HTML")
        return Article(
            url=key,
            title=page.title,
            description=metadata.description,
            text=page.text,
            html=page.html if keep_html else None,
            site=metadata.site or host(key),
            author=metadata.author,
            published=metadata.published,
            language=metadata.language,
            source_url=url,
            fetched=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _followed(self, page: ReadPage, depth: int) -> Iterator[Request]:
        for feed in page.feeds:
            yield from self._source(feed, kind="feed", depth=depth)
        for link in page.links:
            yield from self._page(link.url, depth + 1, nofollow=link.nofollow)

    def _page(
        self, url: str, depth: int, *, nofollow: bool = False, listed: bool = False
    ) -> Iterator[Request]:
        if self.frontier.admit(url, depth, nofollow=nofollow):
            yield Request(
                url,
                callback=self.parse_page,
                errback=self.page_failed,
                # A crawl that is resumed (JOBDIR) does not read its feeds again.
                cb_kwargs={"address": url, "depth": depth, "listed": listed},
                priority=-depth,
            )

    async def page_failed(self, failure: Failure) -> None:
        """Count a page that could not be fetched, with the reason."""
        address = failure.request.cb_kwargs["address"]  # type: ignore[attr-defined]
        error = failure.value
        if isinstance(error, HttpError):
            self._leave_out(address, Skip.ERROR, f"HTTP {error.response.status}")
        elif isinstance(error, IgnoreRequest) and "robots.txt" in str(error):
            self._leave_out(address, Skip.ROBOTS)
        else:
            self._leave_out(address, Skip.ERROR, f"{type(error).__name__}: {error}"[:200])

    # Feeds, sitemaps, robots.txt

    def _source(
        self, url: str, *, kind: str, depth: int = 0, nesting: int = 0
    ) -> Iterator[Request]:
        site = self.frontier.sites.index(url)
        if site is None or url in self._sources or self._sources_of.get(site, 0) >= MAX_SOURCES:
            return
        self._sources.add(url)
        self._sources_of[site] = self._sources_of.get(site, 0) + 1
        arguments: dict[str, Any] = {"depth": depth}
        if kind == "sitemap":
            arguments["nesting"] = nesting
        yield Request(
            url,
            callback=getattr(self, f"parse_{kind}"),
            errback=self.source_failed,
            cb_kwargs=arguments,
            priority=_SOURCE_PRIORITY,
            # robots.txt may always be fetched, whatever it forbids.
            meta={"dont_obey_robotstxt": True} if kind == "robots" else None,
        )

    async def parse_robots(self, response: Response, depth: int) -> AsyncIterator[Any]:
        """Follow the ``Sitemap:`` lines of a robots.txt."""
        for address in robots_sitemaps(response.body, response.url):
            for request in self._source(address, kind="sitemap", depth=depth):
                yield request

    async def parse_feed(self, response: Response, depth: int) -> AsyncIterator[Any]:
        """Follow the entries of an RSS or Atom feed, as articles."""
        for address in await run_in_thread(feed_entries, response.body, response.url):
            self.frontier.list_as_article(address)
            for request in self._page(address, depth + 1, listed=True):
                yield request

    async def parse_sitemap(
        self, response: Response, depth: int, nesting: int
    ) -> AsyncIterator[Any]:
        """Follow the pages of a sitemap, as articles if marked as news, and its sitemaps."""
        content = await run_in_thread(sitemap, response.body, response.url)
        for address in content.sitemaps if nesting < MAX_NESTING else ():
            for request in self._source(address, kind="sitemap", depth=depth, nesting=nesting + 1):
                yield request
        for address in content.news:
            self.frontier.list_as_article(address)
        for address in content.news:
            for request in self._page(address, depth + 1, listed=True):
                yield request
        for address in content.pages:
            for request in self._page(address, depth + 1):
                yield request

    async def source_failed(self, failure: Failure) -> None:
        """Ignore a missing robots.txt, feed or sitemap."""
        url = failure.request.url  # type: ignore[attr-defined]
        self.logger.debug("No use of %s: %s", url, failure.value)

    # Bookkeeping

    def check_redirect(self, request: Request) -> None:
        """Keep redirects on the sites of the crawl.

        :raises IgnoreRequest: makes Scrapy drop the request
        """
        address = request.cb_kwargs.get("address")
        if (
            "redirect_urls" not in request.meta
            or self.frontier.sites.index(request.url) is not None
        ):
            return
        if address in self.arguments.start:
            self.logger.warning(
                "%s leads to another site, %s; give that address to -a start", address, request.url
            )
        if address is not None:
            self._leave_out(address, Skip.OFFSITE, f"redirects to {request.url}")
        raise IgnoreRequest("redirected to another site")

    def note_dropped(self, request: Request) -> None:
        """Note that an address redirects to one that was already requested; it is not counted."""
        if (address := request.cb_kwargs.get("address")) is not None:
            self.frontier.done(address)

    def _leave_out(self, address: str, reason: Skip, detail: str = "") -> None:
        self.frontier.leave_out(address, reason)
        detail = f" ({detail})" if detail else ""
        self.logger.info("Skipped %s: %s%s", address, EXPLANATIONS[reason], detail)

    def _count_skip(self, reason: Skip, change: int) -> None:
        self.crawler.stats.inc_value(f"news/skipped/{reason.value}", change)


def _set_sample_pace(settings: BaseSettings) -> None:
    """Fetch one page at a time, without delays.

    Of several similar pages the first one is kept, so this makes it the same one in every run.
    ``-s`` on the command line overrides these settings.
    """
    for name, value in {
        "AUTOTHROTTLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": 1,
        # Fetch the next page when the items of the last one have passed all pipelines.
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
        # A cut page shares two thirds of its shingles with the whole one. With a random hash key,
        # one in thirty such pages would share no bucket with it, a different one in each run.
        "DEDUP_HASH_KEY": "5eed",
    }.items():
        settings.set(name, value, priority="spider")


def _content_type(response: Response) -> str:
    header = response.headers.get("Content-Type") or b""
    return header.decode("latin-1")


def _is_html(response: Response) -> bool:
    """Whether a response is HTML, by its type, or by its first byte if the type is generic text."""
    if isinstance(response, HtmlResponse):
        return True
    return type(response) is TextResponse and response.body.lstrip()[:1] == b"<"
