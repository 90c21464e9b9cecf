"""Corrects the encoding of responses that declare a codec that is no charset."""

from __future__ import annotations

from typing import Any

from scrapy.http import Response, TextResponse

from dedup_middleware.text.decode import codec_of, decode


class CharsetMiddleware:
    """Replaces a charset that is no text encoding, such as ``base64``, by a detected one.

    Scrapy would use the declared name and raise when it needs the text, as its middleware for
    ``<meta http-equiv="refresh">`` does for every page, and the page would be lost.
    """

    async def process_response(self, request: Any, response: Response) -> Response:  # noqa: ARG002
        """Return the response, or a copy with the encoding detected from its bytes."""
        if not isinstance(response, TextResponse):
            return response
        try:
            if codec_of(response.encoding) is not None:
                return response
        except (LookupError, ValueError):
            pass  # Scrapy failed to find the encoding
        return response.replace(encoding=decode(response.body).charset)
