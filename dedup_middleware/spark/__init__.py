"""De-duplicates an archive of pages on Apache Spark, with the verdicts of the crawl."""

from dedup_middleware.spark.job import Result, deduplicate
from dedup_middleware.spark.stages import Job

__all__ = ["Job", "Result", "deduplicate"]
