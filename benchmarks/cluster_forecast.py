"""Simulates a cluster with 10^9 and 10^10 pages.

``python -m benchmarks.cluster_forecast`` prints the tables of ``docs/scale.md`` and draws its plot.
See :mod:`benchmarks.cluster_costs` and :mod:`benchmarks.cluster_validation` for measurements.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.cluster_costs import LENGTHS, Costs, measured
from benchmarks.cluster_simulation import Outcome, Simulation
from benchmarks.cluster_traffic import PREFIXES, Layout, Scenario, owners
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    BUCKET_LIMIT,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD

FOLDER = Path("build/benchmarks")
TARGET = 0.7  # largest utilisation of the busiest master
MASTERS = (8, 32, 128)
SIZES = (1e9, 1e10)
SKETCH = Layout(bands=8, anchors=0)  # DEDUP_EVIDENCE = "sketch"
RAM = 64e9  # bytes of RAM per master
USED = 0.6  # share of RAM for data; the rest is for copy-on-write, buffers and fragmentation
DISK = 500e6  # bytes per second
DETECTION = 15.0  # seconds: cluster-node-timeout
ELECTION = 1.5  # seconds until the others agree and clients have the new map
_SIMULATED, _FEW = 3_000, 500  # pages


# Computed values


def page_bytes(costs: Costs, layout: Layout, pages: float) -> float:
    """Return the memory of a page over all masters: its row and text, and its records."""
    per_bucket = pages / PREFIXES
    factor = float(np.interp(per_bucket, LENGTHS[2:], costs.factor[1:]))
    kept = 0.0
    for table in layout.tables.tolist():
        wide = table in SIMHASH_TABLES
        width = SIMHASH_RECORD if wide else BAND_RECORD
        records = layout.records(ANCHOR_TABLES[0] if table < 0 else table, pages)
        kept += width * min(1.0, BUCKET_LIMIT / (records * width))
    return costs.page_bytes + kept * factor


def least_masters(costs: Costs, layout: Layout, pages: float) -> int:
    """Return the number of masters needed for this many pages."""
    return math.ceil(page_bytes(costs, layout, pages) * pages / (RAM * USED))


def in_full(layout: Layout) -> dict[str, float]:
    """Return the number of pages from which a table takes no more records."""
    narrow = PREFIXES * (BUCKET_LIMIT // BAND_RECORD)
    found: dict[str, float] = {
        "SimHash": PREFIXES * (BUCKET_LIMIT // SIMHASH_RECORD),
        "key, bands": narrow,
    }
    if layout.anchors:
        found["anchors"] = narrow * len(ANCHOR_TABLES) / layout.anchors
    return found


def at_target(
    scenario: Scenario, costs: Costs, pages: int = _SIMULATED
) -> tuple[Scenario, Outcome, float]:
    """Find the load at which the busiest master is busy for 70 % of the time.

    Shards get equal loads in the long run, so the busiest master is the one with most shards.
    Batches hardly change with the number of processes, so a few steps are enough.

    :returns: the scenario with enough processes for that load, its outcome, and pages per second
    """
    share = np.bincount(owners(scenario)).max() / scenario.shards
    most, processes = scenario.rate, 1
    for _ in range(3):
        tried = attrs.evolve(scenario, processes=processes, rate=most)
        outcome = Simulation(tried, costs, pages).run()
        rate = float(TARGET * outcome.decisions / (outcome.busy.sum() * share))
        if abs(rate - processes * most) < 0.05 * rate:
            break
        processes = math.ceil(rate / scenario.rate)
        most = rate / processes
    return tried, outcome, rate


@attrs.frozen
class Recovery:
    """Seconds until a master is available again, in three ways."""

    failover: float  # its replica takes over
    reload: float  # it restarts and loads its file
    resync: float  # a new replica gets all data


def recovery(costs: Costs, scenario: Scenario) -> Recovery:
    """Return the recovery times, from the share of pages that one master holds."""
    size = page_bytes(costs, scenario.layout, scenario.pages) * scenario.pages / scenario.masters
    load = size / min(DISK, costs.load)
    transfer = size / min(scenario.master_link, DISK, costs.load)
    return Recovery(DETECTION + ELECTION, load, transfer + load)


def after_outage(scenario: Scenario, costs: Costs, seconds: float) -> tuple[float, float]:
    """Simulate an outage of a master.

    Soon all pages in flight wait for it, so a longer outage does not leave longer queues behind.

    :returns: seconds from its return until latencies are as before, and the share of the usual rate
        at which pages were decided meanwhile
    """
    began, after = 1.0, 3.0
    away = attrs.evolve(scenario, outage=(0, began, seconds))
    outcome = Simulation(away, costs, 1 << 60, until=began + seconds + after).run()
    done = outcome.arrivals + outcome.latencies
    usual = np.quantile(outcome.latencies[done < began], 0.99)
    late = outcome.arrivals[(outcome.latencies > 2 * usual) & (done > began + seconds)]
    until = float(late.max()) - began - seconds if len(late) else 0.0
    # The last second: before that, pages that do not need the master are decided.
    meanwhile = (done > began + seconds - 1) & (done < began + seconds)
    return max(0.0, until), float(meanwhile.sum() / (scenario.rate * scenario.processes))


# Tables and plot


def forecast(costs: Costs) -> Table:
    """Return the table of docs/scale.md."""
    table = Table(title="The busiest master at 70 %")
    for name in (
        *("pages", "masters", "decisions a second", "p50 ms", "p99 ms", "processes"),
        *("a master sends Mbit/s", "a process gets Mbit/s", "GB a master", "least masters"),
        *("failover s", "queues then s", "decided meanwhile", "reload s", "new replica s"),
    ):
        table.add_column(name, justify="right")
    for size in SIZES:
        for masters in MASTERS:
            shards = max(64, 8 * masters)
            base = Scenario(masters, shards, size, balanced=True)
            scenario, outcome, rate = at_target(base, costs)
            back = recovery(costs, scenario)
            then, meanwhile = after_outage(scenario, costs, 3.0)
            sent = outcome.sent.sum() / outcome.decisions
            memory = page_bytes(costs, scenario.layout, size) * size / masters
            table.add_row(
                f"10^{math.log10(size):.0f}",
                str(masters),
                f"{rate:,.0f}",
                f"{1e3 * outcome.latency(0.5):.1f}",
                f"{1e3 * outcome.latency(0.99):.1f}",
                str(scenario.processes),
                f"{8e-6 * sent * rate / masters:,.0f}",
                f"{8e-6 * sent * rate / scenario.processes:,.0f}",
                f"{memory / 1e9:,.0f}",
                str(least_masters(costs, scenario.layout, size)),
                f"{back.failover:.1f}",
                f"{then:.1f}",
                f"{meanwhile:.0%}",
                f"{back.reload:,.0f}",
                f"{back.resync:,.0f}",
            )
    return table


def choices(costs: Costs) -> Table:
    """Return decisions per second on 32 masters with other settings."""
    sizes = (1e6, 1e7, 1e8, 1e9)
    table = Table(title="32 masters at 70 %: decisions a second")
    for name in ("", *(f"10^{math.log10(size):.0f}" for size in sizes)):
        table.add_column(name, justify="right" if name else "left")
    base = Scenario(32, 256, balanced=True)
    for name, changed in {
        "256 parts, default settings": {},
        "as the slots of 256 parts fall": {"balanced": False},
        "as the slots of 64 parts fall": {"shards": 64, "balanced": False},
        "32 parts": {"shards": 32},
        "1,024 parts": {"shards": 1024},
        "processes with 1,000 pages a second": {"rate": 1_000.0, "in_flight": 1_000},
        "DEDUP_SCAN_DISTANCE = 8": {"distance": 8},
        "DEDUP_EVIDENCE = sketch": {"layout": SKETCH},
        "DEDUP_EVIDENCE = sketch, DEDUP_BANDS = 4": {"layout": Layout(bands=4, anchors=0)},
        "16 namespaces": {"pages": 1 / 16},
    }.items():
        cells = []
        for size in sizes:
            pages = size * changed.get("pages", 1.0)  # type: ignore[attr-defined]
            scenario = attrs.evolve(base, **{**changed, "pages": pages})
            cells.append(f"{at_target(scenario, costs, _FEW)[2]:,.0f}")
        table.add_row(name, *cells)
    return table


def plot(costs: Costs, file: Path) -> None:
    """Plot decisions per second as the index grows."""
    import matplotlib as mpl  # only the plot needs it

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "dedup", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    sizes = [10 ** (6 + i / 2) for i in range(9)]
    for layout, style in ((Layout(), "-"), (SKETCH, "--")):
        for number, masters in enumerate(MASTERS):
            line = []
            for size in sizes:
                shards = max(64, 8 * masters)
                scenario = Scenario(masters, shards, size, balanced=True, layout=layout)
                line.append(at_target(scenario, costs, _FEW)[2])
            name = f"{masters} masters" + (", sketch" if layout == SKETCH else "")
            axes.plot(sizes, line, style, marker=".", color=f"C{number}", label=name)
    full = min(in_full(Layout()).values())
    axes.axvline(full, color="grey", linewidth=0.8)
    where = axes.get_xaxis_transform()
    axes.text(full, 0.96, "anchors full ", ha="right", fontsize=8, transform=where)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("pages in the index")
    axes.set_ylabel("decisions a second")
    axes.legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print the tables and draw the plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", type=Path, default=FOLDER / "cluster-scale.svg")
    arguments = parser.parse_args()
    console = Console(width=200)
    costs = measured()
    for name, pages in in_full(Layout()).items():
        console.print(f"buckets of the tables {name} are full from {pages:.2g} pages on")
    console.print(forecast(costs))
    console.print(choices(costs))
    plot(costs, arguments.plot)
    console.print(f"plot: {arguments.plot}")


if __name__ == "__main__":
    main()
