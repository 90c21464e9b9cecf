"""Many spiders that share one index over all masters of a Redis Cluster.

Environment variables: ``DEDUP_INDEX_URL`` (some nodes, default
``redis+cluster://127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002``), ``DEDUP_REDIS_PASSWORD``, and
``DEDUP_SHARDS`` (default 64) for an index that is made anew.
"""

import os

from settings.base import *  # noqa: F403
from settings.shared import with_password

DEDUP_INDEX_URL = with_password(
    os.environ.get("DEDUP_INDEX_URL")
    or "redis+cluster://127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002",
    os.environ.get("DEDUP_REDIS_PASSWORD"),
)
DEDUP_SHARDS = os.environ.get("DEDUP_SHARDS") or 64
