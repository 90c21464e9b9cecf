"""Traditional to simplified characters, one by one, through OpenCC's tables.

Character by character is enough here, and better: the mapping is put into the character table
once, so it costs a page nothing, and it is applied to every page alike, simplified pages
included. What a phrase table would decide by context stays equal on both sides.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MappingProxyType

from dedup_middleware.text.characters import TABLE_SIZE, word_classes
from dedup_middleware.text.normalize import normalize


@cache
def simplified() -> MappingProxyType[int, int]:
    """Code points that OpenCC's `t2s` changes, and what each becomes in normal form.

    Raises:
        ImportError: no OpenCC package is installed.
    """
    try:
        opencc = import_module("opencc")
    except ImportError as error:
        raise ImportError(
            "OpenCC is missing: pip install 'dedup-middleware[traditional]'"
        ) from error
    convert = opencc.OpenCC("t2s").convert
    found = {}
    for code in word_classes()[:TABLE_SIZE].nonzero()[0].tolist():
        if code < 0x2E80:
            continue
        before = chr(code)
        after = normalize(convert(before))
        if len(after) == 1 and after != before and normalize(before) == before:
            found[code] = ord(after)
    return MappingProxyType(found)
