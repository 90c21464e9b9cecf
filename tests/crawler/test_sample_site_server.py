"""Opening and closing the sample site."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from crawler.sample_site import SampleSite, SampleSiteError
from crawler.sample_site.outlets import OUTLETS
from tests.crawler.sample_site_client import (
    ask,
    first_copy,
    fronts,
)


@pytest.fixture(scope="module")
def site() -> Iterator[SampleSite]:
    """The site on free ports, copies not held back."""
    with SampleSite(lag=0) as served:
        yield served


def sample_threads() -> list[str]:
    """Names of the threads that serve a sample site."""
    return [t.name for t in threading.enumerate() if t.name.startswith("sample-site")]


def test_closing_frees_ports_and_threads() -> None:
    """After the with block no port answers, no thread is left, and the site can be served again."""
    site = SampleSite(lag=0)
    before = sample_threads()
    for _ in range(2):
        with site:
            urls = dict(site.urls)
            assert ask(urls["hui"] + "/").status == 200
        assert sample_threads() == before
        assert site.urls == {}
        for url in urls.values():
            with pytest.raises(ConnectionRefusedError):
                ask(url + "/")


def test_closing_does_not_wait_for_held_or_idle_clients() -> None:
    """A held copy is let go and a silent connection is dropped when the site closes."""
    held_back = SampleSite(lag=10)
    held_back._lag = 500.0  # longer than any machine takes to close it
    with ThreadPoolExecutor(1) as pool:
        with held_back as site:
            copy, original = first_copy(site)
            idle = socket.create_connection(("127.0.0.1", urlsplit(copy).port or 0))
            ask(original)
            held = pool.submit(ask, copy)
            time.sleep(0.2)
            assert not held.done()
            begin = time.monotonic()
        assert time.monotonic() - begin < 200
        assert held.result(timeout=200).status == 200
        idle.close()


def test_a_client_that_hangs_up_is_no_fault(
    site: SampleSite, capfd: pytest.CaptureFixture[str]
) -> None:
    """A crawler that closes its connection half-way leaves no traceback behind."""
    for _ in range(5):
        port = urlsplit(site.urls["chenbao"]).port or 0
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert ask(site.urls["chenbao"] + "/").status == 200
    assert capfd.readouterr().err == ""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def test_fixed_ports() -> None:
    """Given ports are used in the order of the outlets."""
    ports = free_ports(5)
    with SampleSite(ports, lag=0) as site:
        assert [urlsplit(url).port for url, _ in site.start_urls()] == ports
        assert [outlet.name for outlet in OUTLETS] == list(site.urls)


def test_a_taken_port_is_named() -> None:
    """A port in use gives an error that names it, and the other ports are free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        ports = [*free_ports(4), port]
        with pytest.raises(SampleSiteError, match=f"port {port} for the outlet 'hui'"):
            SampleSite(ports).__enter__()
        for other in ports[:4]:
            socket.create_server(("127.0.0.1", other)).close()


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ([8701, 8702], "give 5 ports"),
        ([8701, 8702, 8703, 8704, 0], "0 is not a port"),
        ([8701, 8702, 8703, 8704, 70000], "70000 is not a port"),
        ([8701, 8702, 8703, 8704, 8704], "a port of its own"),
    ],
)
def test_bad_ports_are_refused(ports: list[int], message: str) -> None:
    """Ports that cannot work are refused before anything is opened, with the fix."""
    with pytest.raises(SampleSiteError, match=message):
        SampleSite(ports)


def test_bad_lag_and_double_use_are_refused(site: SampleSite) -> None:
    """A lag outside of 0 to 10 seconds, and serving a site that is served, are errors."""
    with pytest.raises(SampleSiteError, match="lag=11"):
        SampleSite(lag=11)
    with pytest.raises(SampleSiteError, match="already"):
        site.__enter__()
    assert ask(fronts(site)[0]).status == 200
