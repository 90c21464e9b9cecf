"""Serves the sample site on loopback, one port per outlet."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import urlsplit

from crawler.sample_site.manifest import SamplePage, manifest
from crawler.sample_site.outlets import OUTLETS
from crawler.sample_site.render import Answer, render
from crawler.sample_site.stories import load_stories

HOST = "127.0.0.1"
FRONT_PRIORITY = 100


class SampleSiteError(Exception):
    """The sample site can't be served; the message names the cause and the fix."""


class SampleSite:
    """Five invented news outlets on five ports of 127.0.0.1, as a context manager.

    `ports` are five port numbers, in the order of `OUTLETS`; None takes free ones. The address of a
    page changes with the port, its rel=canonical does not: use the latter as document key.

    A crawl gets every original before its copies, whatever the order of requests: only the page of
    the original links to them ("also published by"), and the server delays a copy until `lag`
    seconds after its last response with the original. If that was never sent, there is no delay.
    """

    def __init__(self, ports: Sequence[int] | None = None, *, lag: float = 0.4) -> None:
        """Check the arguments; raise `SampleSiteError` on bad ones. Nothing is opened yet."""
        self._ports = _check_ports(ports)
        if not 0 <= lag <= 10:
            raise SampleSiteError(f"lag={lag!r}: give seconds from 0 to 10")
        self._lag = lag
        self.urls: dict[str, str] = {}
        """Outlet name to base address, without a slash at the end; filled while it serves."""
        self._stories = load_stories()
        self._pages = manifest(self._stories)
        self._servers: list[_Server] = []
        self._changing = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._order = _Order(self._lag)

    def __enter__(self) -> SampleSite:
        with self._changing:
            if self._servers:
                raise SampleSiteError("this SampleSite is already being served")
            self._order = _Order(self._lag)
            try:
                self._serve()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:  # a crawl may be stopped while another thread starts the site
            self._close()

    def _serve(self) -> None:
        for outlet, port in zip(OUTLETS, self._ports, strict=True):
            self._servers.append(_bind(outlet.name, port, self._order))
        # Pages link across outlets, so all ports must be known before rendering.
        self.urls = {
            server.outlet: f"http://{HOST}:{server.server_address[1]}" for server in self._servers
        }
        answers = render(self._stories, self._pages, self.urls)
        for server in self._servers:
            server.answers = answers[server.outlet]
            thread = threading.Thread(
                target=server.serve_forever, args=(0.05,), name=f"sample-site-{server.outlet}"
            )
            thread.start()
            self._threads.append(thread)

    def _close(self) -> None:
        self._order.release()
        for server, _ in zip(self._servers, self._threads, strict=False):
            server.shutdown()
        for server in self._servers:
            server.server_close()
        for thread in self._threads:
            thread.join()
        self._servers.clear()
        self._threads.clear()
        self.urls = {}

    def start_urls(self) -> list[tuple[str, int]]:
        """Return the front page of every outlet and the priority to request it with."""
        return [(url + "/", FRONT_PRIORITY) for url in self.urls.values()]

    def pages(self) -> list[SamplePage]:
        """Return every page of the site, its kind and the expected result of a crawl."""
        return list(self._pages)


class _Order:
    """Delays the responses with copies until after those with their originals."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._released = threading.Event()
        self._answered: dict[str, float] = {}

    def wait(self, answer: Answer) -> None:
        """Wait until `lag` seconds after the last response with the original of a copy."""
        since = self._answered.get(answer.after) if answer.after else None
        if since is not None:
            self._released.wait(max(0.0, since + self._lag - time.monotonic()))

    def note(self, answer: Answer) -> None:
        """Note that an article was sent now."""
        if answer.story is not None:
            self._answered[answer.story] = time.monotonic()

    def release(self) -> None:
        """Release all waiting responses, because the site is closing."""
        self._released.set()


class _Server(ThreadingTCPServer):
    # Not http.server.HTTPServer: it looks up the host's name, which can take seconds.
    allow_reuse_address = True
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, outlet: str, port: int, order: _Order) -> None:
        super().__init__((HOST, port), _Handler)
        self.order = order
        self.outlet = outlet
        self.answers: dict[str, Answer] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a crawler that stops early breaks connections."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "SampleSite"
    sys_version = ""
    # A client that connects and sends nothing must not keep the site from closing.
    timeout = 2

    def do_GET(self) -> None:
        """Respond with the page, 304 for a matching ETag, or 404."""
        parts = urlsplit(self.path)
        answers = self.server.answers
        query = f"{parts.path}?{parts.query}"
        answer = answers.get(query) or answers.get(parts.path) or answers["404"]
        self.server.order.wait(answer)
        headers = dict(answer.headers)
        unchanged = "ETag" in headers and self.headers.get("If-None-Match") == headers["ETag"]
        self.send_response(HTTPStatus.NOT_MODIFIED if unchanged else answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not unchanged:
            self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET" and not unchanged:
            # Before the client receives it, since it may then request a copy at once.
            self.server.order.note(answer)
            self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        """Respond with the headers of the page."""
        self.do_GET()

    def log_message(self, *args: Any, **_: Any) -> None:
        """Print nothing, to keep the output of the crawl readable."""


def _check_ports(ports: Sequence[int] | None) -> tuple[int, ...]:
    if ports is None:
        return (0,) * len(OUTLETS)
    names = ", ".join(outlet.name for outlet in OUTLETS)
    if len(ports) != len(OUTLETS):
        raise SampleSiteError(f"ports={ports!r}: give {len(OUTLETS)} ports, for {names}")
    for port in ports:
        if not 1 <= port <= 65535:
            raise SampleSiteError(f"ports={ports!r}: {port!r} is not a port from 1 to 65535")
    if len(set(ports)) != len(ports):
        raise SampleSiteError(f"ports={ports!r}: every outlet needs a port of its own")
    return tuple(ports)


def _bind(outlet: str, port: int, order: _Order) -> _Server:
    try:
        return _Server(outlet, port, order)
    except OSError as error:
        raise SampleSiteError(
            f"port {port} for the outlet {outlet!r} cannot be opened on {HOST}: "
            f"{error.strerror}; stop the program that uses it, or give other ports, "
            "or none to take free ones"
        ) from error
