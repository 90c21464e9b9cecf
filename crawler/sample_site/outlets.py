"""The five outlets: how each one encodes, lays out, and announces its pages."""

from __future__ import annotations

from attrs import frozen


@frozen
class Outlet:
    """One publisher: a host name, a template folder and a character encoding."""

    name: str
    title: str
    host: str
    """The stable name in rel=canonical; no such host exists (`.example` is reserved)."""
    language: str
    charset: str
    """Python codec of the bytes that are sent."""
    content_type: str
    """The Content-Type header, with or without a charset, as this kind of site sends it."""
    sections: tuple[tuple[str, str], ...]
    """(path segment, label) of every section."""
    next_list: str
    """Path of list page 2 and up, with `{section}` and `{page}`."""
    disallow: str
    feed: str | None = None
    """Template and type of the feed: "rss", "atom" or None."""
    news_sitemap: bool = False
    """Whether robots.txt leads to a sitemap index and from there to a news sitemap."""

    @property
    def feed_path(self) -> str:
        """Path of the feed."""
        return f"/{self.feed}.xml"


OUTLETS = (
    Outlet(
        name="chenbao",
        title="云泊晨报",
        host="www.yunbo-chenbao.example",
        language="zh-CN",
        charset="utf-8",
        content_type="text/html; charset=utf-8",
        sections=(
            ("shizheng", "时政"),
            ("minsheng", "民生"),
            ("wenhua", "文化"),
            ("tianqi", "天气"),
            ("english", "English"),
        ),
        next_list="/{section}/index_{page}.html",
        disallow="/print/",
        feed="rss",
    ),
    Outlet(
        name="portal",
        title="九汀热线",
        host="news.jiuting-rexian.example",
        language="zh-CN",
        charset="gbk",
        content_type="text/html",
        sections=(("news", "新闻"), ("finance", "财经"), ("society", "社会")),
        next_list="/{section}/list_{page}.htm",
        disallow="/cgi-bin/",
    ),
    Outlet(
        name="gazette",
        title="The Harrowmere Gazette",
        host="www.harrowmere-gazette.example",
        language="en",
        charset="utf-8",
        content_type="text/html; charset=UTF-8",
        sections=(("local", "Local"), ("business", "Business"), ("culture", "Culture")),
        next_list="/{section}/page/{page}",
        disallow="/account/",
        feed="atom",
    ),
    Outlet(
        name="minbao",
        title="竹汀民報",
        host="www.zhuting-minbao.example",
        language="zh-TW",
        charset="big5",
        content_type="text/html",
        sections=(("local", "地方"), ("life", "生活"), ("instant", "即時")),
        next_list="/{section}/{page}.html",
        disallow="/member/",
        news_sitemap=True,
    ),
    Outlet(
        name="hui",
        title="汇览网",
        host="www.huilan-wang.example",
        language="zh-CN",
        charset="utf-8",
        # The charset is only in the header; the page has no meta charset.
        content_type="text/html;charset=utf-8",
        sections=(
            ("difang", "地方"),
            ("caijing", "财经"),
            ("shenghuo", "生活"),
            ("global", "Global"),
        ),
        next_list="/{section}/?page={page}",
        disallow="/user/",
        feed="rss",
    ),
)
