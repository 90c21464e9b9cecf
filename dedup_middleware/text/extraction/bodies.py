"""The slow extractor: markup in, raw body out."""

import logging

_log = logging.getLogger("trafilatura")


def thorough_body(html: str, *, url: str | None, comments: bool, fast: bool = True) -> str:
    """Body by trafilatura, empty when it finds none or fails.

    Only for pages whose shape is ordinary: the time is not bounded otherwise. Nothing is kept from
    page to page: ``deduplicate`` stays off. ``fast`` leaves out its slower algorithms.
    """
    import trafilatura  # here, not above: it takes 0.3 s

    if _log.level == logging.NOTSET:
        # It reports every page without a body as an error; whoever wants that sets the level.
        _log.setLevel(logging.CRITICAL)
    try:
        text: str | None = trafilatura.extract(
            html, url=url, fast=fast, include_comments=comments, deduplicate=False
        )
    except Exception:  # any fault of the library on one page must not stop a crawl
        return ""
    return text or ""
