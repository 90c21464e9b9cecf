"""Settings of a project in containers: what differs between them comes from the environment."""

import os

SPIDER_MODULES = ["shop.spiders"]
ADDONS = {"dedup_middleware.Addon": 500}

# With its password; from a secret.
DEDUP_INDEX_URL = os.environ.get("DEDUP_INDEX_URL")
DEDUP_METRICS_PORT = int(os.environ.get("METRICS_PORT", "0"))
DEDUP_METRICS_HOST = "0.0.0.0"

# A crawl that gets a signal to end waits for requests under way, at most as long as this.
DOWNLOAD_TIMEOUT = 30
