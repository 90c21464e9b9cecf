"""How the kernels are compiled: vector code, the cache, other processors, threads."""

from __future__ import annotations

import gc
import importlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from dedup_middleware.base import compiled as _compiled
from dedup_middleware.base import jit as _jit
from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.cachefolder import taking_turns
from dedup_middleware.signature import _vector
from dedup_middleware.signature.minhash import MinHasher

pytestmark = pytest.mark.usefixtures("compiled_by_numba")

MODULES = ("comparison", "hamming", "minhash", "simhash", "text")


def modules() -> list[ModuleType]:
    """The modules that hold kernels."""
    return [importlib.import_module(f"dedup_middleware.signature.{name}") for name in MODULES]


def compiled(module: ModuleType) -> dict[str, Any]:
    """The kernels with a signature, which are those Python calls, after their compilation."""
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, numba.core.dispatcher.Dispatcher)
        and value.__module__ == module.__name__
        and hasattr(value, "declared")
    }
    for dispatcher in found.values():
        _jit.compile_now(dispatcher)
    return found


def scan_step() -> Any:
    """The step of the scan alone, compiled anew: cached code can't be inspected."""

    @numba.njit(types.uint64(types.R64, *[types.uint64] * 3).to_numba())  # type: ignore[untyped-decorator]
    def step(codes: Any, start: Any, query: Any, distance: Any) -> Any:
        return _vector.near_mask64(codes, start, query, distance)

    return step


def minimum_step() -> Any:
    """The loop of MinHash alone, fresh from the compiler."""

    @numba.njit(types.void(*[types.R32] * 3, types.uint64, types.U32).to_numba())  # type: ignore[untyped-decorator]
    def step(hashes: Any, factors: Any, offsets: Any, start: Any, out: Any) -> Any:
        _vector.minima64(hashes, factors, offsets, start, out)

    return step


def text_of(listing: dict[Any, str]) -> str:
    """The listing of the only signature."""
    (only,) = listing.values()
    return only


def assembly_for(step: Any, cpu: str) -> str:
    """What LLVM makes of the step on another processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=cpu, features="", opt=3)
    ir = re.sub(r"^target .*\n", "", text_of(step.inspect_llvm()), flags=re.MULTILINE)
    module = llvm.parse_assembly(ir)
    module.triple = "x86_64-unknown-linux-gnu"
    module.data_layout = str(machine.target_data)
    assembly: str = machine.emit_assembly(module)
    return assembly


def host_has(feature: str) -> bool:
    """Whether this processor has a feature."""
    features = llvm.get_host_cpu_features()
    # The names have changed between versions of LLVM: avx512-vpopcntdq, avx512vpopcntdq.
    return any(name.replace("-", "") == feature and on for name, on in features.items())


@pytest.mark.parametrize("cpu", ["icelake-server", "sapphirerapids"])
def test_population_count_uses_the_widest_register(cpu: str) -> None:
    """Where the processor has vpopcntq, eight codes are counted by one instruction on zmm."""
    assert re.search(r"vpopcntq\s.*%zmm", assembly_for(scan_step(), cpu))


def test_population_count_without_the_instruction() -> None:
    """Processors without vpopcntq count by table look-ups in the widest register they have."""
    assert re.search(r"vpshufb\s.*%zmm", assembly_for(scan_step(), "cascadelake"))
    assert re.search(r"vpshufb\s.*%ymm", assembly_for(scan_step(), "haswell"))
    assert "vpopcntq" not in assembly_for(scan_step(), "haswell")


def test_population_count_on_this_machine(record_property: Any) -> None:
    """The code for this machine has vpopcntq if, and only if, the machine has; it is recorded."""
    if llvm.get_process_triple().split("-")[0] != "x86_64":
        pytest.skip("vpopcntq is an instruction of x86-64")
    emitted = bool(re.search(r"vpopcntq\s.*%zmm", text_of(scan_step().inspect_asm())))
    record_property("cpu", llvm.get_host_cpu_name())
    record_property("vpopcntq_on_zmm", emitted)
    if not numba.config.CPU_NAME:
        assert emitted == host_has("avx512vpopcntdq")


def test_minima_stay_in_registers() -> None:
    """The loop over the hashes keeps 64 minima in four registers and writes none of them."""
    assembly = assembly_for(minimum_step(), "cascadelake")
    loops = [
        block
        for block in re.split(r"^\.LBB\d+_\d+:", assembly, flags=re.MULTILINE)
        if block.count("vpminud") >= 4
        and "vpbroadcastd" in block
        and "vmovdqu64\t%zmm" not in block
    ]
    assert loops
    for loop in loops:
        assert len(carried(loop, "vpminud")) == 4


def carried(loop: str, operation: str) -> set[str]:
    """Vector registers that the operation reads from the former turn of a loop and writes anew."""
    written: set[str] = set()
    read: set[str] = set()
    results: set[str] = set()
    for line in loop.splitlines():
        *sources, target = re.findall(r"%zmm\d+", line) or [""]
        if line.split()[:1] == [operation]:
            read.update(set(sources) - written)
            results.add(target)
        written.add(target)
    return read & results


@pytest.mark.parametrize("module", modules(), ids=MODULES)
def test_kernels_have_signatures_and_no_lock(module: ModuleType) -> None:
    """Kernels are compiled for fixed types alone, and run without the interpreter lock."""
    found = compiled(module)
    assert found
    for dispatcher in found.values():
        assert len(dispatcher.signatures) == 1
        assert dispatcher.targetoptions["nogil"]


@pytest.mark.parametrize("module", modules(), ids=MODULES)
def test_import_compiles_nothing(module: ModuleType) -> None:
    """A process that imports a module has none of its kernels yet: it loads those it calls."""
    script = f"""
import numba
import {module.__name__} as module
for value in vars(module).values():
    if isinstance(value, numba.core.dispatcher.Dispatcher):
        assert not value.overloads, value
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_first_calls_of_many_threads() -> None:
    """Threads that call a new kernel at the same time get one compilation, and right results."""

    @_jit.kernel(types.int64(types.int64))
    def twice(number: int) -> int:
        return 2 * number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(twice, range(100))) == list(range(0, 200, 2))
    assert len(twice.signatures) == 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="No matching definition"):
        twice("1")  # type: ignore[arg-type]
    assert len(twice.signatures) == 1  # type: ignore[attr-defined]


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    """Of several processes with one empty cache one compiles a kernel, the others load it."""
    script = """
from dedup_middleware.signature import hamming, minhash, simhash
from dedup_middleware.base.jit import compile_now
modules = (hamming, minhash, simhash)
found = [one for module in modules for one in vars(module).values() if hasattr(one, "declared")]
for dispatcher in found:
    compile_now(dispatcher)
print(len(found), *(sum(d.stats.cache_misses.values()) for d in found))
"""
    environment = {**os.environ, "DEDUP_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(3)
    ]
    answers = [[int(word) for word in process.communicate()[0].split()] for process in started]
    (count,) = {answer[0] for answer in answers}
    assert count > 2
    assert [sum(misses) for misses in zip(*(answer[1:] for answer in answers), strict=True)] == [
        1
    ] * count


def test_no_lock_is_no_error(tmp_path: Path) -> None:
    """Where no lock can be had a kernel is compiled all the same."""
    (tmp_path / "file").write_text("")
    turns = []
    for folder in (None, str(tmp_path / "file")):
        with taking_turns(folder, "name"):
            turns.append(folder)
    assert len(turns) == 2


def test_nothing_is_compiled_when_the_cache_is_warm() -> None:
    """A process started after this one takes every kernel from the cache, and loads no module of
    numba that only a compilation needs."""
    places = {d.stats.cache_path for m in modules() for d in compiled(m).values()}
    assert all(places), "no cache directory can be written: set DEDUP_CACHE_DIR to one"
    script = f"""
import importlib
import sys
import numba
from dedup_middleware.base.jit import compile_now
for name in {MODULES!r}:
    module = importlib.import_module("dedup_middleware.signature." + name)
    for value in vars(module).values():
        is_kernel = isinstance(value, numba.core.dispatcher.Dispatcher)
        if is_kernel and value.__module__ == module.__name__ and hasattr(value, "declared"):
            compile_now(value)
            assert not value.stats.cache_misses, (name, value, value.stats)
    print(name)
assert "numba.np.arraymath" not in sys.modules
assert "numba.typed.typedlist" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == list(MODULES), done.stderr


SCRIPT = """
import numpy as np
from dedup_middleware.signature.hamming import within
from dedup_middleware.signature.minhash import MinHasher
from dedup_middleware.signature.simhash import simhash
rng = np.random.default_rng(1)
codes = rng.integers(0, 1 << 64, 1000, dtype=np.uint64)
query = codes[7]
exact = np.bitwise_count(codes ^ query)
for bound in (3, 22, 30):
    assert (within(codes, query, bound) == np.flatnonzero(exact <= bound)).all()
print(MinHasher(100).of_features(codes).sum(dtype=np.uint64), simhash(codes).value)
"""
UNTESTED = """
import numba
numba.version_info = numba.version_info._replace(short=(9, 0))
from dedup_middleware.base import kernels
assert not kernels.PARTS_ARE_KNOWN
"""


def results(script: str, **environment: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_are_made_anew_when_data_change(tmp_path: Path) -> None:
    """Arrays that are read from a file are constants in kernels, so its text counts as a source."""
    digest = _compiled.source_digest
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("one")
    before = digest(str(tmp_path))
    (tmp_path / "data" / "words.txt").write_text("two")
    assert digest(str(tmp_path)) != before


def test_another_numba_compiles_in_its_own_way(tmp_path: Path) -> None:
    """A version whose compiler is not known to the package gives the same results."""
    folder = str(tmp_path / "cache")
    assert results(UNTESTED + SCRIPT, DEDUP_CACHE_DIR=folder) == results(SCRIPT)


def test_plainest_processor_gets_the_same_results() -> None:
    """Compiled for a processor without any vector extension, the kernels agree with NumPy."""
    wanted = ["x86-64"] if llvm.get_process_triple().startswith("x86_64") else []
    plain = (results(SCRIPT, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES="") for cpu in wanted)
    assert set(plain) <= {results(SCRIPT)}


def test_other_threads_run_while_a_kernel_works() -> None:
    """A kernel gives up the interpreter lock: the main thread goes on meanwhile."""
    hasher = MinHasher(1024)
    features = np.arange(3_000_000, dtype=np.uint64)
    finished = threading.Event()

    def work() -> None:
        hasher.of_features(features)
        finished.set()

    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while not finished.is_set():
        time.sleep(0.001)
        turns += 1
    thread.join()
    # With the lock held the main thread would get one turn before and one after.
    assert turns > 10


@pytest.mark.parametrize(
    ("thresholds", "meanwhile"),
    [((700, 10, 10), 20_000), ((0, 10, 10), 0), ((90_000, 5, 5), 90_000)],
)
def test_collector_runs_no_more_often_than_the_user_says(
    thresholds: tuple[int, int, int], meanwhile: int
) -> None:
    """Also where it is off (0), and is as before after an error."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(*thresholds)
        with suppress(KeyError), _jit.garbage_kept():
            assert gc.get_threshold()[0] == meanwhile
            with _jit.garbage_kept():
                pass
            assert gc.get_threshold()[0] == meanwhile
            raise KeyError
        assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)
