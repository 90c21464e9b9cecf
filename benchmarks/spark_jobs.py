"""One job of the Spark benchmark, run as a program, so that its memory is its own.

    python -m benchmarks.spark_jobs ours PAGES FOLDER

Prints JSON: seconds, bytes shuffled, and the places of the dropped pages in a file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware import Options
from dedup_middleware.spark import Job
from dedup_middleware.spark.job import run
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.session import local_session

_THRESHOLD = 0.8  # Jaccard index


def ours(session: SparkSession, pages: str, folder: str, method: str) -> DataFrame:
    """The batch job."""
    options = Options(method=method, hash_key="5")
    job = Job(output=folder, order_by="place")
    result = run(read_files(session, [pages], options, job), options, job)
    place = F.regexp_extract("key", r"h(\d+)\.example", 1).cast("bigint")
    return result.duplicates.select(place.alias("place"))


def mllib(session: SparkSession, pages: str, _: str, __: str) -> DataFrame:
    """MinHashLSH of Spark MLlib over 5-grams of characters, 32 tables, all pairs at 0.8."""
    from pyspark.ml.feature import HashingTF, MinHashLSH, NGram

    rows = session.read.parquet(pages).withColumn("chars", F.split("text", ""))
    grams = NGram(n=5, inputCol="chars", outputCol="grams").transform(rows)
    vectors = (
        HashingTF(inputCol="grams", outputCol="features", numFeatures=1 << 20, binary=True)
        .transform(grams)
        .select("place", "features")
        .cache()
    )
    model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=32, seed=1).fit(
        vectors
    )
    joined: Any = model.approxSimilarityJoin(vectors, vectors, 1 - _THRESHOLD, "distance")
    later = joined.where("datasetA.place > datasetB.place")
    return later.select(F.col("datasetA.place").alias("place")).distinct()


JOBS = {"ours": ours, "ours-simhash": ours, "ours-minhash": ours, "mllib": mllib}


def main(name: str, pages: str, folder: str) -> None:
    """Run a job and say what it took."""
    session = local_session("local[2]", {"spark.driver.memory": "6g"})
    began = time.perf_counter()
    method = name.partition("-")[2] or "content"
    found = JOBS[name](session, pages, folder, method)
    places = [row["place"] for row in found.toArrow().to_pylist()]
    seconds = time.perf_counter() - began
    store: Any = session._jsparkSession.sparkContext().statusStore()
    executors = store.executorList(True)
    shuffled = sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size()))
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "dropped.json").write_text(json.dumps(places))
    print(json.dumps({"seconds": seconds, "shuffled": shuffled}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
