"""Signals of the plugin; receivers are connected in the same way as for signals of Scrapy.

An error of a receiver is logged and has no effect on the crawl.
"""

from __future__ import annotations

from typing import Final

#: An item resembles a stored page. Receivers get ``item``, its ``verdict``, the ``kind``
#: (``"duplicate"``, ``"revisit"`` or ``"near"``), the stored page (``match``), whether the item is
#: ``dropped``, and ``spider``. They are called after the decision, in a task of their own.
dedup_duplicate: Final = object()

#: A stored item holds all words of pages stored before, which the index has forgotten
#: (``DEDUP_ON_FULLER = "replace"``). Receivers get ``item``, its ``verdict``, the ``keys`` of these
#: pages, and ``spider``.
dedup_superseded: Final = object()
