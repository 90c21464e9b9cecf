"""Spark sessions as the job wants them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.app.name": "dedup-middleware",
    "spark.ui.showConsoleProgress": "false",
    # Positions and orders are told apart by their partitions.
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def local_session(master: str = "local[*]", settings: Mapping[str, str] = {}) -> SparkSession:
    """A session on this machine, or the one that is there already.

    :param master: as Spark names it
    :param settings: further settings of Spark
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL if master.startswith("local") else {}
    builder = SparkSession.builder.master(master)
    for name, value in {**_SETTINGS, **local, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def submitted_session() -> SparkSession:
    """The session of ``spark-submit``, or one with what Spark's own files say."""
    builder = SparkSession.builder
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
