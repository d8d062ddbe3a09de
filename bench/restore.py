"""Restores alone: from the disk and from the page cache, beside peers, and of larger states.

    python -m bench.restore --rounds 3 --sizes-mib 4096,8192

A process that starts again on the same machine finds in the page cache what the writer or an
earlier reader left there. Outlast bypasses the page cache unless the bytes are in it, so `again`
reads from the disk; `warm` is measured after every file has been read once through the page cache.
"""

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.checkpoint.measures import LIMITS, OURS, SAFETENSORS, TORCH_SAVE, measured
from bench.measure import Row, disk_folder, machine, table

DCP = "DCP save"
SYSTEMS: tuple[str, ...] = (TORCH_SAVE, SAFETENSORS, DCP, OURS, LIMITS)
KINDS = ("cold", "again", "warm")
MIB = 2**20
# Of a large state, staging takes only a part, so that two of them fit into the machine.
STAGED_MIB_MAX = 1024

Seen = dict[tuple[str, int], dict[str, list[Any]]]


def report(
    rounds: int = 3,
    sizes_mib: Sequence[int] = (4096, 8192),
    *,
    systems: Sequence[str] = SYSTEMS,
    size_mib: int = 1024,
    folder: Path | None = None,
) -> str:
    """Measure, and say it in Markdown."""
    where = disk_folder(folder)
    seen: Seen = {}
    try:
        for number in range(rounds):
            turn = number % len(systems)
            for system in (*systems[turn:], *systems[:turn]):
                _measure(seen, system, size_mib, where)
            print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
        os.environ["OUTLAST_MEMORY_BYTES_MAX"] = str(STAGED_MIB_MAX * MIB)
        for size in sizes_mib:
            _measure(seen, OURS, size, where)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    note = (
        f"{size_mib} MiB of float32 in 444 CPU tensors, into existing tensors; every system in "
        f"fresh processes, in turns, {rounds} rounds of two restores each. cold: from the disk. "
        "warm: all files were read through the page cache before. again: right after a cold one, "
        "with what that left in the page cache, which for Outlast is nothing. Larger states: one "
        "process each. Only Outlast verifies."
    )
    bars = table("Restores: the bars", _bars(seen, size_mib, sizes_mib))
    return bars.replace("\n\n|", f"\n\n{note}\n\n|") + "\n" + _all(seen, size_mib)


def _measure(seen: Seen, system: str, mib: int, where: Path) -> None:
    python = os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    phase = "limits" if system == LIMITS else "restore"
    answer = measured((phase, system), mib, where, python)
    if "error" in answer:
        print(f"{system}, {mib} MiB: {answer['error']}", file=sys.stderr)
        return
    for name, value in answer.items():
        values = value if isinstance(value, list) else [value]
        seen.setdefault((system, mib), {}).setdefault(name, []).extend(values)


def _bars(seen: Seen, mib: int, sizes_mib: Sequence[int]) -> list[Row]:
    def value(system: str, measure: str, size: int = mib) -> float | None:
        values = seen.get((system, size), {}).get(measure)
        return statistics.median(values) if values else None

    def row(what: str, kind: str, name: str, against: float | None, bar: str) -> Row | None:
        ours = value(OURS, f"restore_{kind}")
        if ours is None or against is None:
            return None
        text = f"{ours / against:.2f} x ({ours:.3f} s)"
        return Row(f"verified restore, {what}", text, f"{name}, {against:.3f} s", bar)

    threads = ("raw read, direct, 1 thread", "raw read, direct, 2 threads")
    raw = [one for name in threads if (one := value(LIMITS, name)) is not None]
    rows = [
        row("warm", "warm", "DCP, unverified", value(DCP, "restore_warm"), "≤ 1 x"),
        row(
            "warm",
            "warm",
            "safetensors, unverified",
            value(SAFETENSORS, "restore_warm"),
            "goal ≤ 1.5 x",
        ),
        row("cold", "cold", "safetensors, unverified", value(SAFETENSORS, "restore_cold"), "≤ 1 x"),
        row("cold", "cold", "raw direct read", min(raw, default=None), "≤ 1.2 x"),
        row("again", "again", "DCP, unverified", value(DCP, "restore_again"), ""),
        row("again", "again", "safetensors, unverified", value(SAFETENSORS, "restore_again"), ""),
    ]
    for size in sizes_mib:
        for kind in ("cold", "warm"):
            large, small = value(OURS, f"restore_{kind}", size), value(OURS, f"restore_{kind}")
            if large is None or small is None:
                continue
            times = size / mib
            bar = f"{times:g} x ± 15 %"
            what = f"restore of {size // 1024} GiB, {kind}"
            rows.append(
                Row(what, f"{large / small:.2f} x ({large:.3f} s)", f"1 GiB, {small:.3f} s", bar)
            )
    for size in (mib, *sizes_mib):
        if (memory := value(OURS, "restore_memory", size)) is not None:
            what = f"memory of a restore of {size // 1024} GiB"
            rows.append(Row(what, f"{1 + memory:.3f} x", "the state", "≤ 1.1 x"))
    return [row for row in rows if row is not None]


def _all(seen: Seen, mib: int) -> str:
    lines = [
        "## All restores",
        "",
        "Seconds: the median, and in brackets the least and the greatest.",
        "",
        "| system | size | cold | again | warm |",
        "|---|---|---|---|---|",
    ]
    for (system, size), values in sorted(seen.items(), key=lambda item: (item[0][1], item[0][0])):
        if system == LIMITS:
            continue
        cells = [_spread(values.get(f"restore_{kind}", [])) for kind in KINDS]
        lines.append(f"| {system} | {size // 1024} GiB | {' | '.join(cells)} |")
    for name, seconds in seen.get((LIMITS, mib), {}).items():
        if name.startswith("raw read"):
            cached = "page cache" in name
            cells = ["-" if cached else _spread(seconds), "-", _spread(seconds) if cached else "-"]
            lines.append(f"| {name} | {mib // 1024} GiB | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.restore", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes-mib", default="", help="larger states, by commas")
    parser.add_argument("--systems", help="parts of the names of the systems, by commas")
    args = parser.parse_args()
    systems = SYSTEMS
    if args.systems:
        wanted = args.systems.lower().split(",")
        systems = tuple(name for name in systems if any(part in name.lower() for part in wanted))
    sizes = [int(size) for size in args.sizes_mib.split(",") if size]
    print(f"{machine()}\n")
    print(report(args.rounds, sizes, systems=systems))


if __name__ == "__main__":
    main()
