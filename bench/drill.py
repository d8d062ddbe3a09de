"""What the drill adds to an undisturbed command: to its run, and around it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.measure import Row, interleaved, seconds_of, table
from outlast.drill.events import ignore
from outlast.drill.isolation import best_isolation
from outlast.drill.legs import Legs
from outlast.drill.plan import Plan
from outlast.drill.schedule import CALM
from outlast.drill.workplace import drill_folder

IDLE = ["sleep", "3"]
BUSY = [sys.executable, "-S", "-c", "for _ in range(100_000_000): pass"]
WRITING = [
    sys.executable,
    "-S",
    "-c",
    "for i in range(20_000):\n with open(f'{i % 50}', 'w') as f: f.write('x' * 100)",
]
ROUNDS = 5


def report() -> str:
    return table("The drill", rows())


def rows() -> list[Row]:
    found = [
        undisturbed("an idle command", IDLE),
        undisturbed("a busy command", BUSY),
        undisturbed("a command that writes 20,000 files", WRITING),
    ]
    return [*found, around()]


def undisturbed(what: str, command: Sequence[str]) -> Row:
    """A whole leg without evictions, beside the bare command."""
    medians = interleaved(
        {"bare": _bare(command), "drilled": lambda: _leg_seconds(command)}, rounds=ROUNDS
    )
    more = medians["drilled"] - medians["bare"]
    return Row(
        f"{what}, in the undisturbed leg",
        f"{more * 1000:+.0f} ms, {more / medians['bare']:+.2%}",
        f"the bare command, {medians['bare']:.2f} s",
        "< 200 ms and < 2 %",
    )


def around() -> Row:
    """`outlast drill` from the shell, without the time of its two legs."""
    outlast = str(Path(sys.executable).with_name("outlast"))
    command = [outlast, "drill", "--evictions", "1", "--no-notice", "1", "--format", "json", "--"]
    # Users keep their compiled modules, so the measurement does too.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def measure() -> float:
        started = time.perf_counter()
        done = subprocess.run(
            [*command, "sleep", "0.5"], capture_output=True, check=False, env=environ
        )
        whole = time.perf_counter() - started
        report = json.loads(done.stdout)
        return whole - float(report["baseline"]["seconds"]) - float(report["disturbed"]["seconds"])

    median = interleaved({"around": measure}, rounds=ROUNDS)["around"]
    bare = interleaved({"bare": seconds_of([outlast, "--version"])}, rounds=ROUNDS)["bare"]
    return Row(
        "all of `outlast drill` but its two legs",
        f"{median * 1000:.0f} ms",
        f"`outlast --version`, {bare * 1000:.0f} ms",
    )


def _bare(command: Sequence[str]) -> Callable[[], float]:
    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
            return time.perf_counter() - started

    return measure


def _leg_seconds(command: Sequence[str]) -> float:
    """A whole leg without evictions: its folder, its node, and what is watched meanwhile."""
    plan = Plan(command=tuple(command))
    isolation = best_isolation()
    with drill_folder(None) as root:
        started = time.perf_counter()
        deadline = time.monotonic() + 600
        legs = Legs(plan, root, isolation=isolation, deadline=deadline, listener=ignore)
        legs.run(legs.prepare("baseline"), CALM, None)
        return time.perf_counter() - started
