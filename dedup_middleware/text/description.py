"""The summary that a page gives of itself, for methods that compare it."""

from __future__ import annotations

import html
import re
from typing import Final

from dedup_middleware.text.decode import decode

HEAD: Final = 1 << 16  # where a page's metadata stands: bytes or characters that are looked at
# A tag ends at the next "<" at the latest, so the search takes time linear in the page.
_META: Final = re.compile(r"<meta\b([^<>]{0,4096})>", re.I)
_ATTRIBUTE: Final = re.compile(r"""([a-z:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)


def meta_description(page: bytes | str, charset: str | None = None) -> str:
    """Content of ``<meta name="description">`` in HTML, empty if there is none; never raises.

    :param charset: of the Content-Type header, if known

    >>> meta_description('<meta content="A &amp; B" name="Description">')
    'A & B'
    """
    head = page[:HEAD]
    text = decode(head, charset).text if isinstance(head, bytes) else head
    for tag in _META.finditer(text):
        found = {
            name.lower(): double or single or bare
            for name, double, single, bare in _ATTRIBUTE.findall(tag[1])
        }
        if found.get("name", "").lower() == "description" and "content" in found:
            return " ".join(html.unescape(found["content"]).split())
    return ""
