"""MinHashLSH of Spark MLlib on the pages of the Spark benchmark, in its own processes.

    python -m benchmarks.spark_mllib PAGES FOLDER

5-grams of characters, all pairs with a Jaccard index of at least 0.8; the later page of a pair is
dropped. A table holds one minimum, and pages that share any are compared, so few tables are best:
four miss 0.2 % of the pairs at 0.8.

Nothing of the project is imported: with Scrapy's interfaces in the process, MLlib's parameters
can't be read (``zope.interface`` declares what ``typing.Generic`` provides).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.ml.feature import HashingTF, MinHashLSH, NGram
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

_THRESHOLD = 0.8  # Jaccard index
_GRAM = 5  # characters
_TABLES = 4
_SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}


def main(pages: str, folder: str) -> None:
    """Run it and print its cost."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    began = time.perf_counter()
    rows = session.read.parquet(pages).withColumn("chars", F.split("text", ""))
    grams = NGram(n=_GRAM, inputCol="chars", outputCol="grams").transform(rows)
    vectors = (
        HashingTF(inputCol="grams", outputCol="features", numFeatures=1 << 20, binary=True)
        .transform(grams)
        .select("place", "features")
        .cache()
    )
    model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=_TABLES, seed=1).fit(
        vectors
    )
    joined: Any = model.approxSimilarityJoin(vectors, vectors, 1 - _THRESHOLD, "distance")
    later = joined.where("datasetA.place > datasetB.place")
    found = later.select(F.col("datasetA.place").alias("place")).distinct()
    places = found.toArrow().column(0).to_pylist()
    seconds = time.perf_counter() - began
    (Path(folder) / "dropped.json").write_text(json.dumps(places))
    store: Any = session._jsparkSession.sparkContext().statusStore()
    executors = store.executorList(True)
    shuffled = sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size()))
    print(json.dumps({"seconds": seconds, "shuffled": shuffled}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
