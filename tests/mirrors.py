"""A site and its mirrors on loopback: the same articles, each mirror in a template of its own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.texts import article

CHROME = (
    (
        "<header><nav><a href=/>首页</a> <a href=/>体育</a></nav></header>",
        "<footer>版权所有</footer>",
    ),
    ("<div id=top>Welcome | <a href=/>Home</a></div>", "<div>Contact us</div>"),
    ("<table><tr><td><a href=/>回首頁</a></td></tr></table>", "<p>Powered by mirrors</p>"),
    ("", "<aside>热门：<a href=/>更多新闻</a></aside>"),
)


class Mirrors:
    """Serves ``articles`` articles on as many ports as there are templates.

    Use as a context manager; ``urls`` are the start pages.
    """

    def __init__(self, articles: int, *, mirrors: int = 4) -> None:
        self.articles = articles
        self._servers = [self._server(number) for number in range(mirrors)]
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            for server in self._servers
        ]
        self.urls = [f"http://127.0.0.1:{server.server_port}/" for server in self._servers]

    def __enter__(self) -> Mirrors:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()

    def _server(self, mirror: int) -> ThreadingHTTPServer:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = site.page(self.path, mirror)
                body = b"not here" if page is None else page.encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        return ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def page(self, path: str, mirror: int) -> str | None:
        """A page of a mirror as HTML, or None."""
        before, after = CHROME[mirror % len(CHROME)]
        if path == "/":
            links = "".join(
                f"<li><a href='/2026/{n}.html'>{headline(n)}</a></li>" for n in range(self.articles)
            )
            return f"<html><head><title>新闻</title></head><body>{before}<ul>{links}</ul></body>"
        name = path.removeprefix("/2026/").removesuffix(".html")
        if not name.isdecimal() or int(name) >= self.articles:
            return None
        text = article(int(name), 24)
        third = len(text) // 3
        paragraphs = [text[:third], text[third : 2 * third], text[2 * third :]]
        body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        return (
            f"<html><head><meta charset=utf-8><title>{headline(int(name))}</title>"
            "<meta property=og:type content=article></head>"
            f"<body>{before}<article><h1>{headline(int(name))}</h1>{body}</article>{after}</body>"
        )


def headline(number: int) -> str:
    """Headline of an article, the same on every mirror."""
    return f"{article(number, 1)[:12]}（{number}）"
