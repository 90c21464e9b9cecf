"""MinHash of text-dedup on the pages of the Spark benchmark, in its own environment.

    python -m benchmarks.spark_textdedup PAGES FOLDER

Its tokens are the text between characters that are neither letters nor digits, which in Chinese are
whole clauses. Here each character is a token, so that its n-grams are those of the other tools. The
options are those with which it was fastest and found most: 32-bit hashes by xxh3, 128 of them with
bands for 0.6; its default of 250 for 0.7 finds less and is slower. Its script for Spark needs
GraphFrames, a Java package that is not on PyPI.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from datasets import load_from_disk
from text_dedup import minhash

_CORES = "2"


def main(pages: str, folder: str, *options: str) -> None:
    """Run it with its own or given options."""
    files = sorted(str(file) for file in Path(pages).glob("*.parquet"))
    kept, cache = Path(folder) / "kept", Path(folder) / "cache"
    minhash.NON_ALPHA = re.compile("")  # forked workers inherit it
    began = time.perf_counter()
    minhash.main(
        [
            "--path", "parquet", "--data_files", f"{pages}/*.parquet", "--split", "train",
            "--cache_dir", str(cache), "--output", str(kept), "--column", "text",
            "--ngram", "5", "--hash_func", "xxh3", "--hash_bits", "32", "--num_perm", "128",
            "--threshold", "0.6", "--num_proc", _CORES, *options,
        ],
        standalone_mode=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    left = set(load_from_disk(str(kept))["place"])
    places = [
        place
        for file in files
        for place in pq.read_table(file, columns=["place"]).column(0).to_pylist()
        if place not in left
    ]
    shutil.rmtree(cache, ignore_errors=True)
    (Path(folder) / "dropped.json").write_text(json.dumps(places))
    print(json.dumps({"seconds": seconds, "shuffled": None}))


if __name__ == "__main__":
    main(*sys.argv[1:])
