"""The body that a page states in its JSON-LD, for pages that have none in their markup."""

import json
from typing import Any, Final

_TYPE: Final = "application/ld+json"
# What is looked at: scripts of a page, characters of a script, values in it.
_SCRIPTS: Final = 20
_SIZE: Final = 1_000_000
_VALUES: Final = 10_000


def article_body(html: str) -> str:
    """The longest ``articleBody`` in the JSON-LD of a page, as it stands there; "" for none.

    >>> page = '<script type="application/ld+json">{"articleBody": "It rained."}</script>'
    >>> article_body(page)
    'It rained.'
    """
    found = ""
    position = 0
    for _ in range(_SCRIPTS):
        position = html.find(_TYPE, position)
        start = html.find(">", position) + 1 if position >= 0 else 0
        end = html.find("</script", start) if start else -1
        if end < 0:
            break
        if end - start <= _SIZE and "articleBody" in html[start:end]:
            found = max(found, _longest(html[start:end]), key=len)
        position = end
    return found


def _longest(script: str) -> str:
    try:
        values: list[Any] = [json.loads(script, strict=False)]
    except (ValueError, RecursionError):
        return ""
    found = ""
    for _ in range(_VALUES):
        if not values:
            break
        value = values.pop()
        if isinstance(value, dict):
            body = value.get("articleBody")
            if isinstance(body, str) and len(body) > len(found):
                found = body
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
    return found
