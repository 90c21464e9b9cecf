"""The peers of :mod:`benchmarks.batch`, run in an environment of their own.

``python batch_peers.py TOOL SOURCE FOLDER WORKERS`` de-duplicates a file of JSON lines by MinHash:
5-grams of characters in 9 bands of 13 rows, which datasketch and text-dedup choose for a Jaccard
index of 0.8 and 128 permutations. Without a segmenter, which would cost more than all the rest,
neither tool finds Chinese words, so both get single characters as tokens; punctuation is removed by
their own rules. Nothing of the project is imported here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

NGRAM, BANDS, ROWS = 5, 9, 13


def text_dedup(source: Path, folder: Path, workers: int) -> None:
    """Run text-dedup's command ``minhash``; the kept pages become a data set in ``kept``."""
    from text_dedup import minhash

    # It takes the text between matches as tokens: here each letter, digit or character.
    minhash.NON_ALPHA = re.compile(r"\W+|(?<=\w)(?=\w)")
    options = {
        "path": "json", "data_files": source, "split": "train", "cache_dir": folder / "cache",
        "output": folder / "kept", "column": "text", "num_proc": workers, "ngram": NGRAM,
        "threshold": 0.8, "num_perm": 128, "b": BANDS, "r": ROWS, "hash_func": "xxh3",
    }  # fmt: skip
    minhash.main([f"--{name}={value}" for name, value in options.items()], standalone_mode=False)


def datatrove(source: Path, folder: Path, workers: int) -> None:
    """Run datatrove's four steps; the kept pages become JSON lines in ``kept``.

    A task of datatrove reads one file, so the source is split into one file per worker.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import minhash
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Characters(WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return list(text.replace(" ", ""))

        def sent_tokenize(self, text: str) -> list[str]:
            return [text]

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return [(0, len(text))]

    parts, signatures, pairs, removed = (
        str(folder / name) for name in ("parts", "signatures", "pairs", "removed")
    )
    cut(source, Path(parts), workers)
    config = minhash.MinhashConfig(n_grams=NGRAM, num_buckets=BANDS, hashes_per_bucket=ROWS)
    signature = minhash.MinhashDedupSignature(signatures, config, language=Characters())
    steps = [
        ([JsonlReader(parts, id_key="url"), signature], workers),
        ([minhash.MinhashDedupBuckets(signatures, pairs, config=config)], BANDS),
        ([minhash.MinhashDedupCluster(pairs, removed, config=config)], 1),
        (
            [
                JsonlReader(parts, id_key="url"),
                minhash.MinhashDedupFilter(removed),
                JsonlWriter(str(folder / "kept"), compression=None),
            ],
            workers,
        ),
    ]
    for number, (pipeline, tasks) in enumerate(steps):
        LocalPipelineExecutor(
            pipeline, tasks=tasks, workers=workers, logging_dir=str(folder / f"log{number}")
        ).run()


def cut(source: Path, folder: Path, parts: int) -> None:
    """Split a file of lines into files of similar size."""
    folder.mkdir(parents=True)
    share = source.stat().st_size // parts + 1
    with source.open("rb") as lines:
        for number in range(parts):
            with (folder / f"{number}.jsonl").open("wb") as out:
                while lines.tell() < share * (number + 1) and (some := lines.readlines(1 << 20)):
                    out.writelines(some)


if __name__ == "__main__":
    tool = {"text-dedup": text_dedup, "datatrove": datatrove}[sys.argv[1]]
    tool(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
