"""Fixtures and hooks of all tests; marks the tests that need more than Python."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import inspect
import os
import random
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from dedup_middleware.base import compiled
from dedup_middleware.base.options import Options
from dedup_middleware.core import fingerprinter
from dedup_middleware.core.deduplicator import Deduplicator
from tests.servers import RedisServer, running_cluster, running_redis

if TYPE_CHECKING:
    from dedup_middleware.text.shingle import Shingler

# This process tests the kernels as numba compiles them. Processes that tests start use the
# extension module where there is one, as users do; tests/test_compiled.py compares the two: it runs
# tests with the modules of an installation, and says which these must be.
with pytest.MonkeyPatch.context() as patch:
    modules = os.environ.get("DEDUP_TEST_MODULES", "").split()
    if not modules:
        patch.setenv("DEDUP_COMPILE", "1")
    assert [one.__name__ for one in compiled._modules()] == modules

# redis-py reads its version from a file for each connection, which takes longer than the rest.
importlib.metadata.version = functools.cache(importlib.metadata.version)
# Scrapy reads the metadata of all packages for each command that a test runs in this process.
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)


def shared_shinglers(make: Callable[..., Shingler]) -> Callable[..., Shingler]:
    """`make_shingler` that makes one shingler of each kind, not two for each index that is opened.

    A shingler does not change. One with a dictionary of its own, a file that a test may change, is
    made each time.
    """
    made: dict[tuple[Any, ...], Shingler] = {}

    def shared(options: Options, hash_key: int, segmenter: str = "") -> Shingler:
        kind = (
            segmenter or options.segmenter, options.shingle_width, hash_key, options.max_chars,
            options.fold_traditional,
        )  # fmt: skip
        if options.user_dictionary or kind not in made:
            found = make(options, hash_key, segmenter)
            if options.user_dictionary:
                return found
            if len(made) > 50:
                made.clear()
            made[kind] = found
        return made[kind]

    return shared


fingerprinter.make_shingler = shared_shinglers(fingerprinter.make_shingler)


def warm_once(use_kernels: Callable[[Deduplicator], None]) -> Callable[[Deduplicator], None]:
    """`Deduplicator._use_kernels` that does nothing where this process has used them all.

    Tests open thousands of indexes. What opening one compiles is tested in processes of its own:
    tests/test_warm.py, tests/test_cold_start.py.
    """
    known: set[tuple[Any, ...]] = set()

    def once(self: Deduplicator) -> None:
        kind = (
            type(getattr(self._index, "_index", self._index)),  # a pipeline's counts calls
            *attrs.astuple(
                self.options,
                recurse=False,
                filter=lambda field, _: field.name not in {"index_url", "hash_key"},
            ),
        )
        if self.options.user_dictionary or kind not in known:
            use_kernels(self)
            known.add(kind)

    return once


Deduplicator._use_kernels = warm_once(Deduplicator._use_kernels)  # type: ignore[method-assign]

# A busy machine is no reason to fail: the first call of a kernel may compile it.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
# `make check` draws so many examples at most; `make test` as many as each test says.
FEWER_EXAMPLES = 10

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
    "make_in",
    "redis_binary",
    "running_redis",
    "spark",
    "venv",
    "watched_redis",
    "wheel",
}
# So does a test that runs for one of these kinds of index.
KINDS = {"redis", "cluster"}
# A test that uses these starts other processes, each of which imports numba and Scrapy.
PROCESSES = {
    "Popen",
    "fork_context",
    "Probes",
    "create_subprocess_exec",
    "Forked",
    "ProcessPoolExecutor",
    "Process",
    "multiprocessing",
    "spawn",
    "subprocess",
}
# One process runs all files of a group, so that Java starts once, or Chromium, or what crawls are
# forked from (tests/forks.py).
SPARK = "tests/spark/"
BROWSER = (
    "tests/report/test_browser.py",
    "tests/report/test_accessibility.py",
    "tests/report/test_decisions.py",
    "tests/report/test_views.py",
)
FORKS = (
    "tests/crawler/test_news.py",
    "tests/index/test_processes.py",
    "tests/methods/test_crawl.py",
    "tests/test_commands.py",
    "tests/test_compose.py",
    "tests/test_cut_feed.py",
    "tests/test_moving_crawl.py",
    "tests/test_sample_crawl.py",
    "tests/test_sharing.py",
    "tests/test_shutdown.py",
    "tests/test_user_errors.py",
)
GROUPS = ((SPARK,), BROWSER, FORKS)
# In this order, before all other files: with several processes the long ones begin first, and those
# that wait for others together with those that compute.
SLOWEST = (
    SPARK,
    "tests/test_new_user.py",
    "tests/test_quickstart.py",
    "tests/torture/",
    "tests/test_cold_start.py",
    "tests/index/test_versions.py",
    "tests/index/test_cluster.py",
    "tests/index/test_sentinel.py",
    "tests/index/test_flood.py",
    "tests/report/test_browser.py",
    "tests/test_compiled.py",  # with the wheel that tests/test_new_user.py has made meanwhile
    "tests/test_warm.py",
    "tests/index/test_cluster_m",
    "tests/operation/test_containers.py",
    "tests/hostile/",
    "tests/report/",
    "tests/index/test_portable_bombs.py",
    "tests/index/test_maintenance.py",
    "tests/index/test_processes.py",
    "tests/crawler/test_news.py",
    "tests/test_docs.py",
    "tests/test_cache_trust.py",
    "tests/methods/test_crawl.py",
    "tests/batch/",
    "tests/index/",
    "tests/test_wheel.py",  # in the environment that tests/test_new_user.py has made meanwhile
    "tests/test_",
    "tests/evaluation/",
    "tests/crawler/",
    "tests/commands/",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: next to nothing of thousands of tests is garbage.

    It leaves alone what is there then: each full collection while tests run looked at a million
    objects of tests and modules, a third of a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Skip doctest for files without an example: looking at each function takes a tenth of the
    collection."""
    found = yield
    if b">>> " in file_path.read_bytes():
        return found
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a service or processes, and put the slowest files first."""
    services, processes = Uses(SERVICES), Uses(PROCESSES)
    fewer = config.getoption("fewer_examples")
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if services.has(item) or _is_for_a_server(item):
            item.add_marker("services")
        if processes.has(item):
            item.add_marker("processes")
        if fewer and hasattr(item.function, "hypothesis"):
            chosen = item.function._hypothesis_internal_use_settings
            item.function._hypothesis_internal_use_settings = settings(
                chosen, max_examples=min(chosen.max_examples, FEWER_EXAMPLES)
            )
    items.sort(key=_turn)


def _is_for_a_server(item: pytest.Function) -> bool:
    """Whether a parameter of a test, or of a fixture that it uses, is one of ``KINDS``."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(value, str) and value in KINDS for value in parameters)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--fewer-examples`` makes the quick loop quick."""
    parser.addoption(
        "--fewer-examples",
        action="store_true",
        help=f"draw {FEWER_EXAMPLES} examples at most for each property",
    )


def _turn(item: pytest.Item) -> int:
    return _turn_of(item.nodeid.partition("::")[0])


@functools.cache
def _turn_of(file: str) -> int:
    return next(
        (turn for turn, start in enumerate(SLOWEST) if file.startswith(start)), len(SLOWEST)
    )


class Groups(LoadFileScheduling):
    """One process runs a file, and all files of ``GROUPS`` that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        group = next((group for group in GROUPS if nodeid.startswith(group)), None)
        return super()._split_scope(nodeid) if group is None else group[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    """``--dist loadfile`` with :class:`Groups`; all others as they are."""
    return Groups(config, log) if config.getvalue("dist") == "loadfile" else None


class Uses:
    """Which tests use one of some names, themselves or in what they call.

    :param wanted: names of modules, classes, functions and fixtures
    """

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted
        self._known: dict[Callable[..., Any], bool] = {}

    def has(self, item: pytest.Function) -> bool:
        """Whether a test uses one, or a fixture of it does."""
        used = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
        inner = getattr(item.function, "hypothesis", None)
        used.append(item.function if inner is None else inner.inner_test)
        return not self._wanted.isdisjoint(item.fixturenames) or any(map(self._is_in, used))

    def _is_in(self, function: Callable[..., Any]) -> bool:
        if function not in self._known:
            self._known[function] = False  # of one that calls itself
            self._known[function] = self._is_in_code(inspect.unwrap(function))
        return self._known[function]

    def _is_in_code(self, function: Callable[..., Any]) -> bool:
        if not isinstance(function, FunctionType):
            return False
        names = _names(function.__code__)
        called = (function.__globals__.get(name) for name in names)
        return not self._wanted.isdisjoint(names) or any(
            self._is_in(one)
            for one in called
            if isinstance(one, FunctionType) and one.__module__.startswith("tests.")
        )


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(_names, inner))


class HashKeys:
    """Draws the hash keys of new indexes in place of `secrets`: the same ones in every test.

    What is found of pages near a limit depends on the key; a test shall not pass by its luck.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The next key is the first one again."""
        self._random = random.Random(0)

    def token_hex(self, size: int) -> str:
        """So many bytes in hexadecimal digits."""
        return self._random.randbytes(size).hex()


HASH_KEYS = HashKeys()


@functools.cache
def make_way() -> None:
    """Leave the processor to the process that runs Spark's tests.

    They take longer than those of any other process. With an equal share of two cores they ended a
    minute after all others, with one core idle.
    """
    os.nice(3)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the hash keys before the fixtures of a test, so that those of a module begin with the
    first key too."""
    HASH_KEYS.restart()
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(SPARK):
        make_way()


@pytest.fixture(scope="session", autouse=True)
def repeatable_hash_keys() -> Iterator[None]:
    """An index that is made in this process has the same hash key in each run."""
    from dedup_middleware.index import parameters

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "secrets", HASH_KEYS)
        yield


@pytest.fixture
def compiled_by_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let numba compile kernels in processes that a test starts, too."""
    monkeypatch.setenv("DEDUP_COMPILE", "1")


@pytest.fixture
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis of the test's own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server that tests share; each uses a namespace of its own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_masters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Three masters that share all slots; each test uses a namespace of its own."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), 3) as masters:
        yield masters
