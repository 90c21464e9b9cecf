"""Correct the encoding of pages that declare a codec that is not a charset."""

from __future__ import annotations

from typing import Any

from scrapy.http import Response, TextResponse

from dedup_middleware.text.decode import codec_of, decode


class CharsetMiddleware:
    """Sets the encoding of responses whose charset is no text encoding, ``base64`` for example.

    Scrapy uses the declared name and raises when it needs the text, which its middleware for
    ``<meta http-equiv="refresh">`` does for every page; the page would be lost.
    """

    async def process_response(self, request: Any, response: Response) -> Response:  # noqa: ARG002
        """Return the response, or a copy with the encoding detected from its bytes."""
        if not isinstance(response, TextResponse):
            return response
        try:
            if codec_of(response.encoding) is not None:
                return response
        except (LookupError, ValueError):
            pass  # found while Scrapy looked for the encoding
        return response.replace(encoding=decode(response.body).charset)
