"""An archive of pages on Apache Spark: the verdict of the crawl on more than one machine holds.

from dedup_middleware.spark import Job, deduplicate

result = deduplicate(df, Options(), Job(output="hdfs:///archive/clean"))
result.kept, result.duplicates, result.clusters
"""

from dedup_middleware.spark.job import Result, deduplicate
from dedup_middleware.spark.stages import Job

__all__ = ["Job", "Result", "deduplicate"]
