"""The functions that a crawl and Spark call count bits with vector instructions, and only so."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base import jit as _jit
from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.parts import KernelCompiler
from dedup_middleware.index import pairing, scan
from dedup_middleware.index.memory import bucket_kernels
from dedup_middleware.model.records import PAGE_ID_BITS, SIMHASH_RECORD, SIMHASH_SUFFIX_BITS
from dedup_middleware.signature import _vector, hamming, minhash
from tests.signature.test_kernels import assembly_for, host_has, text_of

KERNELS = {
    "memory index, proposals": bucket_kernels.propose,
    "memory index, older generations": bucket_kernels.look,
    "Redis index, proposals": scan._gather,
    "SQLite index, and reading of any index": scan._scan,
    "Spark, pairs": pairing._pairs,
    "sketches": minhash._jaccards,
}
SCALAR = r"\tpopcnt[wlq]?\t"


def compiled(kernel: Any) -> Any:
    """The same function fresh from the compiler: cached code can't be looked at."""
    options = {"nogil": True, "error_model": "numpy", "pipeline_class": KernelCompiler}
    return numba.njit(kernel.declared, **options)(kernel.py_func)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_bits_are_counted_in_vectors(name: str, record_property: Any) -> None:
    """On this processor, and cross-compiled for others, each kernel counts bits in vector registers
    (``vpopcntq``, or ``vpshufb`` where that is missing) and never in a scalar one."""
    function = compiled(KERNELS[name])
    # LLVM 15, that of llvmlite 0.44, can't translate for another processor what was optimised for
    # this one.
    others = ("icelake-server", "znver4") if llvm.llvm_version_info[0] > 15 else ()
    for cpu in others:
        assembly = assembly_for(function, cpu)
        assert re.search(r"\tvpopcntq\t.*%[xyz]mm", assembly), cpu
        assert not re.search(SCALAR, assembly), cpu
    for cpu in ("haswell", "znver2") if others else ():
        assembly = assembly_for(function, cpu)
        assert re.search(r"\tvpshufb\t.*%ymm", assembly), cpu
        assert not re.search(SCALAR, assembly), cpu
    if llvm.get_process_triple().split("-")[0] != "x86_64":
        return
    assembly = text_of(function.inspect_asm())
    assert not re.search(SCALAR, assembly)
    record_property("vpopcntq", "vpopcntq" in assembly)
    if not numba.config.CPU_NAME and host_has("avx512vpopcntdq"):
        assert re.search(r"\tvpopcntq\t.*%zmm", assembly)


@_jit.kernel(types.uint64(types.R8, *[types.uint64] * 4))
def _nearest(data: Any, byte: Any, count: Any, query: Any, distance: Any) -> Any:
    return hamming.nearest_records(data, byte, count, query, distance)


@_jit.kernel(types.uint64(types.R64, *[types.uint64] * 4))
def _near_words(words: Any, start: Any, count: Any, query: Any, distance: Any) -> Any:
    return _vector.near_words(words, start, count, query, distance)


def test_records_are_those_of_the_index() -> None:
    """The kernel knows the layout of SimHash records by numbers of its own; they are the same."""
    assert (_vector.RECORD, _vector.SUFFIX) == (SIMHASH_RECORD, SIMHASH_SUFFIX_BITS)
    assert PAGE_ID_BITS + SIMHASH_SUFFIX_BITS == 8 * SIMHASH_RECORD


@given(
    st.integers(0, 2**48 - 1),
    st.lists(st.tuples(st.integers(0, 2**40 - 1), st.sets(st.integers(0, 47))), min_size=1),
    st.integers(0, 64),
    st.integers(0, 9),
)
def test_records_equal_numpy(
    query: int, records: list[tuple[int, set[int]]], distance: int, byte: int
) -> None:
    """Of records at any byte the first eight, or as many as there are, are compared as NumPy does;
    the array ends with the last one."""
    suffixes = [query ^ sum(1 << bit for bit in flips) for _, flips in records]
    raw = b"".join(
        number.to_bytes(5, "little") + suffix.to_bytes(6, "little")
        for (number, _), suffix in zip(records, suffixes, strict=True)
    )
    data = np.frombuffer(b"\xa5" * byte + raw, np.uint8)
    words = np.array(suffixes, np.uint64)
    near = np.bitwise_count(words ^ np.uint64(query))[:8] <= distance
    expected = sum(1 << lane for lane in np.flatnonzero(near).tolist())
    assert _nearest(data, byte, len(records), query, distance) == expected
    assert _near_words(words, 0, min(8, len(words)), query, distance) == expected


@given(st.data(), st.sampled_from([1, 2, 4, 8]), st.integers(0, 9))
def test_sketches_equal_numpy(data: Any, bits: int, pad: int) -> None:
    """Jaccard indexes of sketches in a column of records equal NumPy's."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = rng.integers(0, 256, (data.draw(st.integers(0, 9)), pad + 84 + 64), np.uint8)
    query = rng.integers(0, 1 << 64, 8, np.uint64)
    if len(rows):
        rows[0, pad + 84 :] = query.view(np.uint8)
    record = np.dtype([("before", "u1", (pad + 84,)), ("sketch", "<u8", (8,))])
    found = minhash.jaccards(query, rows.view(record)["sketch"].reshape(-1, 8), bits)
    groups = np.unpackbits(
        rows[:, pad + 84 :] ^ query.view(np.uint8), axis=1, bitorder="little"
    ).reshape(len(rows), 512 // bits, bits)
    agreement = 1 - groups.any(axis=2).sum(axis=1) * bits / 512
    chance = 0.5**bits
    np.testing.assert_allclose(found, np.maximum(0, (agreement - chance) / (1 - chance)))
