"""Larger states and more tensors: what a save and a restore take, against a smaller one.

    python -m bench.scale --only large

Each case is saved five times in a process of its own, of which the last two count, and restored
twice from the disk and twice from the page cache. The bits are compared each time.
"""

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.checkpoint.measures import OURS, measured
from bench.measure import Row, disk_folder, machine, table


class Scaling(NamedTuple):
    """A phase of the worker, the sizes to run it with, and how to name them."""

    phase: str
    sizes: tuple[int, ...]
    unit: str


SCALINGS = (
    Scaling("large", (1024, 4096, 8192), "MiB in 444 tensors"),
    Scaling("many large", (125, 1000), "tensors of 8 MiB"),
    Scaling("many small", (10_000, 100_000), "tensors of 1 KiB"),
)
MEASURES = {
    "stall": "stall",
    "first": "stall of the first save",
    "durable": "until durable",
    "restore_cold": "restore, cold",
    "restore_warm": "restore, warm",
}


def report(only: Iterable[str] = (), *, folder: Path | None = None) -> str:
    """Measure, and say it in Markdown."""
    wanted = set(only)
    where = disk_folder(folder)
    rows: list[Row] = []
    try:
        for scaling in SCALINGS:
            if not wanted or scaling.phase in wanted:
                rows += _rows(scaling, where)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    return table("Larger states and more tensors", rows)


def _rows(scaling: Scaling, where: Path) -> Iterable[Row]:
    seen = {}
    for size in scaling.sizes:
        seen[size] = _medians(scaling.phase, size, where)
        print(f"{size:,} {scaling.unit}: {seen[size]}", file=sys.stderr, flush=True)
    least = scaling.sizes[0]
    for size in scaling.sizes:
        for measure, name in MEASURES.items():
            value, against = seen[size].get(measure), seen[least].get(measure)
            if value is None or against is None or size == least:
                continue
            yield Row(
                f"{name}, {size:,} {scaling.unit}",
                f"{value / against:.2f} x ({value:.3f} s)",
                f"{least:,}, {against:.3f} s",
                f"{size / least:g} x ± 15 %" if scaling.phase == "large" else "",
            )
        if scaling.phase != "many small" and "memory" in seen[size]:
            what = f"extra memory of a save, {size:,} {scaling.unit}"
            yield Row(what, f"{seen[size]['memory']:.3f} x", "the state", "≤ 1.1 x")


def _medians(phase: str, size: int, where: Path) -> dict[str, float]:
    python = os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    answer = measured((phase, OURS), size, where, python)
    if "error" in answer:
        print(f"{phase}, {size:,}: {answer['error']}", file=sys.stderr)
        return {}
    return {
        name: statistics.median(value if isinstance(value, list) else [value])
        for name, value in answer.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--only", help="large, many large, many small; by commas")
    args = parser.parse_args()
    print(f"{machine()}\n")
    print(report(args.only.split(",") if args.only else ()))


if __name__ == "__main__":
    main()
