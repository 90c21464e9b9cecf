"""``python -m dedup_middleware.evaluate``: see :mod:`dedup_middleware.evaluation`."""

from __future__ import annotations

import sys

from dedup_middleware.evaluation.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
