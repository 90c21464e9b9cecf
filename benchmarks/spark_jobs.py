"""Our batch job on the pages of the Spark benchmark, in its own processes.

    python -m benchmarks.spark_jobs PAGES FOLDER [METHOD]

Prints JSON: seconds, and bytes shuffled. The places of the dropped pages are written to a file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware import Options
from dedup_middleware.spark import Job
from dedup_middleware.spark.job import run
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.stages import local_session

SMALL_PAGES = {
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": "-XX:G1HeapRegionSize=8m -XX:GCTimeRatio=4",
}


def shuffled_bytes(session: SparkSession) -> int:
    """Return the shuffle bytes written by all tasks so far."""
    store: Any = session._jsparkSession.sparkContext().statusStore()
    executors = store.executorList(True)
    return sum(int(executors.apply(i).totalShuffleWrite()) for i in range(executors.size()))


def main(pages: str, folder: str, method: str = "content") -> None:
    """Run the job, which writes all its tables, and print its cost."""
    # As docs/spark.md recommends for pages of this size.
    session = local_session("local[2]", SMALL_PAGES)
    options = Options(method=method, hash_key="5")
    job = Job(output=f"{folder}/result")
    began = time.perf_counter()
    result = run(read_files(session, [pages], options, job), options, job)
    seconds = time.perf_counter() - began
    place = F.regexp_extract("key", r"h(\d+)\.example", 1).cast("bigint")
    places = result.duplicates.select(place.alias("place")).toArrow().column(0).to_pylist()
    (Path(folder) / "dropped.json").write_text(json.dumps(places))
    print(json.dumps({"seconds": seconds, "shuffled": shuffled_bytes(session)}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
