"""What many tests need, and which tests need more than Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import settings

from tests.servers import running_redis

# A busy machine is no reason to fail: the first call of a kernel may compile it.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# A test or fixture that uses one of these names needs a server, a browser, Java or a network.
SERVICES = {
    "Chrome",
    "HTTPServer",
    "Mirrors",
    "RedisServer",
    "SCENARIOS",
    "SampleSite",
    "SentinelServer",
    "ThreadingHTTPServer",
    "crawl_sample",
    "local_session",
    "make_crawl",
    "redis_binary",
    "running_redis",
    "spark",
    "venv",
    "watched_redis",
    "wheel",
}
# In this order, before all other files: with several processes the long ones begin first.
SLOWEST = (
    "tests/spark/test_job.py",
    "tests/test_new_user.py",
    "tests/torture/",
    "tests/spark/",
    "tests/test_quickstart.py",
    "tests/test_wheel.py",
    "tests/index/test_cluster.py",
    "tests/index/test_sentinel.py",
    "tests/test_cache_trust.py",
    "tests/test_warm.py",
    "tests/methods/test_crawl.py",
    "tests/hostile/",
    "tests/index/",
    "tests/test_",
    "tests/evaluation/",
    "tests/crawler/",
    "tests/commands/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a service, and put the slowest files first."""
    known: dict[Callable[..., Any], bool] = {}
    for item in items:
        if isinstance(item, pytest.Function) and _needs_service(item, known):
            item.add_marker("services")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next(
        (turn for turn, start in enumerate(SLOWEST) if item.nodeid.startswith(start)), len(SLOWEST)
    )


def _needs_service(item: pytest.Function, known: dict[Callable[..., Any], bool]) -> bool:
    used = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
    inner = getattr(item.function, "hypothesis", None)
    used.append(item.function if inner is None else inner.inner_test)
    return not SERVICES.isdisjoint(item.fixturenames) or any(_starts(one, known) for one in used)


def _starts(function: Callable[..., Any], known: dict[Callable[..., Any], bool]) -> bool:
    """Whether a function of the tests names a service, itself or in what it calls."""
    function = inspect.unwrap(function)
    if function in known or not isinstance(function, FunctionType):
        return known.get(function, False)
    known[function] = False
    names = _names(function.__code__)
    called = (function.__globals__.get(name) for name in names)
    known[function] = not SERVICES.isdisjoint(names) or any(
        _starts(one, known)
        for one in called
        if isinstance(one, FunctionType) and one.__module__.startswith("tests.")
    )
    return known[function]


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(_names, inner))


@pytest.fixture
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis of the test's own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url
