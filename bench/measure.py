"""How things are measured here: interleaved, medians, one run."""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PROGRESS_SECONDS = 5.0
FOLDER_PREFIX = "outlast-bench-"


class Row(NamedTuple):
    """A measured value, what it is held against, and the bar of the project, if there is one."""

    what: str
    measured: str
    against: str
    bar: str = ""


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each case; the cases take turns, so that noise hits all alike."""
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for _ in counted(rounds):
        for name, measure in cases.items():
            seen[name].append(measure())
    return {name: statistics.median(values) for name, values in seen.items()}


def counted(rounds: int) -> Iterator[int]:
    """The numbers of the rounds; on a long way, the ones that are done are printed."""
    printed = time.monotonic()
    for number in range(rounds):
        yield number
        if time.monotonic() - printed >= PROGRESS_SECONDS:
            print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
            printed = time.monotonic()


def disk() -> Path:
    """Where large files go: outside the project, and not in memory as /tmp may be."""
    return Path(os.environ.get("OUTLAST_BENCH_FOLDER") or "/var/tmp")


def disk_folder(parent: Path | None = None) -> Path:
    """A new folder on the disk. If it is left, the next `python -m bench` removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=parent or disk()))


def seconds_of(command: Sequence[str]) -> Callable[[], float]:
    # Users keep their compiled modules, so the measurement does too.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def measure() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
        return time.perf_counter() - started

    return measure


def table(title: str, rows: Sequence[Row]) -> str:
    lines = [f"## {title}", "", "| what | measured | against | bar |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.measured} | {row.against} | {row.bar} |" for row in rows]
    return "\n".join([*lines, ""])


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def chosen(parser: argparse.ArgumentParser, text: str, known: Collection[str]) -> list[str]:
    """The names in an option, by commas. One that is not known ends the program."""
    names = text.split(",")
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return names
