"""What may follow ``-a``."""

from __future__ import annotations

import pytest
from scrapy.utils.test import get_crawler

from crawler.arguments import ArgumentError, Arguments, parse_arguments
from crawler.spiders.news import NewsSpider


def test_nothing_given_means_the_sample_site() -> None:
    """Without arguments there is no start address and no limit."""
    assert parse_arguments({}) == Arguments(start=(), pages=None, depth=None)


def test_commas_inside_an_address_are_kept() -> None:
    """Only a comma or a space before the next address separates two."""
    given = {"start": "https://one.example/a,b,1.html,https://two.example/ http://three.example"}
    assert parse_arguments(given).start == (
        "https://one.example/a,b,1.html",
        "https://two.example/",
        "http://three.example",
    )


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("start", "one.example", "https://"),
        ("start", "ftp://one.example/", "https://"),
        ("start", "https://", "https://"),
        ("start", "https://one.example:port/", "https://"),
        ("start", " ", "leave it out"),
        ("pages", "many", "from 1 up"),
        ("pages", "0", "from 1 up"),
        ("depth", "-1", "from 0 up"),
        ("page", "3", "start, pages, depth"),
    ],
)
def test_bad_arguments_name_themselves_and_the_fix(name: str, value: str, fix: str) -> None:
    """The message has the argument, its value and what to write instead."""
    with pytest.raises(ArgumentError) as caught:
        parse_arguments({name: value})
    assert f"-a {name}={value}" in str(caught.value)
    assert fix in str(caught.value)


def test_the_id_of_a_job_is_no_argument_of_the_crawl() -> None:
    """scrapyd gives it to every spider."""
    given = {"_job": "abc", "start": "https://one.example/"}
    assert parse_arguments(given) == Arguments(start=("https://one.example/",))
    spider = NewsSpider.from_crawler(get_crawler(NewsSpider), **given)
    assert (spider.problem, spider._job) == (None, "abc")
