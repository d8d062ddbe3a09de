"""How things are measured here: interleaved, medians, one run."""

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A measured value, what it is held against, and the bar of the project, if there is one."""

    what: str
    measured: str
    against: str
    bar: str = ""


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each case; the cases take turns, so that noise hits all alike."""
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, measure in cases.items():
            seen[name].append(measure())
    return {name: statistics.median(values) for name, values in seen.items()}


def disk_folder(parent: Path | None = None) -> Path:
    """A new folder on the disk: the one for temporary files may be in memory.

    In `build`, which git ignores, so that what a killed benchmark leaves is never committed.
    """
    parent = parent or Path(__file__).parents[1] / "build"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="bench-", dir=parent))


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
