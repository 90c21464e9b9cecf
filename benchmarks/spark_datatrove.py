"""MinHash of datatrove on the pages of the Spark benchmark, in its own environment.

    python -m benchmarks.spark_datatrove PAGES FOLDER

The four steps of its pipeline on the local executor, two tasks at a time, with its defaults: 14
buckets of 8 hashes, 5-grams. Each character is a word, as in its tokenizer for Chinese, which needs
spaCy and is slower; spaces with which its normalisation replaces punctuation are removed. Files are
read in parts larger than its default of five lines.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.word_tokenizers import WordTokenizer

_WORKERS = 2
_LINES = 10_000


class Characters(WordTokenizer):
    """A tokenizer that makes every character a word."""

    def word_tokenize(self, text: str) -> list[str]:
        """Return all characters except spaces."""
        return list(text.replace(" ", ""))

    def sent_tokenize(self, text: str) -> list[str]:
        """Return the whole text."""
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Return the span of the whole text."""
        return [(0, len(text))]


def main(pages: str, folder: str) -> None:
    """Run all steps."""
    base = Path(folder).absolute()
    source = str(Path(pages).absolute())
    config = MinhashConfig()
    signatures, buckets, removed = (str(base / name) for name in ("sigs", "buckets", "removed"))

    def reader() -> ParquetReader:
        return ParquetReader(source, id_key="url", glob_pattern="*.parquet")

    steps = [
        ([reader(), MinhashDedupSignature(signatures, config=config, language=Characters())],
         _WORKERS),
        ([MinhashDedupBuckets(signatures, buckets, config=config, lines_to_buffer=_LINES)],
         config.num_buckets),
        ([MinhashDedupCluster(buckets, removed, config=config, lines_to_buffer=_LINES)], 1),
        ([
            reader(),
            MinhashDedupFilter(
                removed,
                exclusion_writer=JsonlWriter(str(base / "dropped"), compression=None),
                lines_to_buffer=_LINES,
            ),
            JsonlWriter(str(base / "kept"), compression=None),
        ], _WORKERS),
    ]  # fmt: skip
    began = time.perf_counter()
    for number, (pipeline, tasks) in enumerate(steps):
        LocalPipelineExecutor(
            pipeline=pipeline,
            tasks=tasks,
            workers=_WORKERS,
            logging_dir=str(base / f"log-{number}"),
            start_method="fork",
        ).run()
    seconds = time.perf_counter() - began
    places = []
    for file in (base / "dropped").glob("*.jsonl"):
        with file.open(encoding="utf-8") as lines:
            places += [json.loads(line)["metadata"]["place"] for line in lines]
    (base / "dropped.json").write_text(json.dumps(places))
    print(json.dumps({"seconds": seconds, "shuffled": None}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
