"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial


def compiled_late(pattern: str) -> Callable[[], re.Pattern[str]]:
    """A function that compiles a pattern when it is first called, and returns it.

    The forms of lines in all languages take a quarter of a start's CPU time together, and the pages
    of a crawl need those of a few languages.

    >>> word = compiled_late("[a-z]+")
    >>> word() is word(), word().match("page 7")[0]
    (True, 'page')
    """
    return cache(partial(re.compile, pattern))
