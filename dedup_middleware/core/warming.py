"""Loading or compiling the kernels that decisions need, before the first page."""

from __future__ import annotations

import asyncio

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.base import Index
from dedup_middleware.methods.base import Method, content_record
from dedup_middleware.model.documents import Document


class Warming:
    """Loads every kernel that a decision of a text or of HTML needs, once.

    :ivar is_done: all are loaded
    """

    def __init__(self, options: Options, index: Index, method: Method) -> None:
        self.is_done = False
        self._options = options
        self._index = index
        self._method = method
        self._lock = asyncio.Lock()
        self._fingerprinter: Fingerprinter | None = None

    async def warm(self) -> None:
        """Load or compile the kernels, in a thread; the index is not used."""
        if self.is_done:
            return
        async with self._lock:
            if not self.is_done:
                await asyncio.to_thread(self._warm)
                self.is_done = True

    def fingerprinter(self) -> Fingerprinter:
        """A fingerprinter without the key of an index, to warm up with and for its parameters."""
        if self._fingerprinter is None:
            self._fingerprinter = Fingerprinter(self._options, 0)
        return self._fingerprinter

    def _warm(self) -> None:
        from dedup_middleware.base import jit  # numba stays lazy

        with jit.garbage_kept():
            self._use_kernels()

    def _use_kernels(self) -> None:
        from dedup_middleware.text import extract

        fingerprinter = self.fingerprinter()
        self._index.warm()
        extract.warm()
        words = " ".join(f"第{i}段文字 word{i}" for i in range(2 * self._options.min_features + 40))
        # One of each kind: compared by its shingles, and as a whole.
        for text in (words, "一个页面"):
            page = fingerprinter(Document(key="", title="题目", text=text))
            stored = content_record(page, sketched=self._method.keeps_sketch)
            self._method.judge(page, stored, [page.payload])
            self._method.bucket_key_array(page)
            self._method.probes(page)
