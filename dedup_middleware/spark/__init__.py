"""De-duplicates an archive of pages on Apache Spark, with the verdicts of the crawl.

from dedup_middleware.spark import Job, deduplicate

result = deduplicate(df, Options(), Job(output="hdfs:///archive/clean"))
result.kept, result.duplicates, result.clusters
"""

from dedup_middleware.spark.job import Result, deduplicate
from dedup_middleware.spark.stages import Job

__all__ = ["Job", "Result", "deduplicate"]
