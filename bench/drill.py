"""The overhead of a drill: in the run of the command, and around it."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.measure import Row, interleaved, seconds_of, table
from outlast.drills.page import write_html
from outlast.drills.rehearsal import drill
from outlast.drills.run.events import ignore
from outlast.drills.run.folders import drill_folder
from outlast.drills.run.node import best_isolation
from outlast.drills.run.options import DrillOptions
from outlast.drills.run.schedule import NO_EVICTIONS
from outlast.drills.runner import JobRunner
from tests.unit.drill.page_reports import training_report

IDLE = ["sleep", "3"]
BUSY = [sys.executable, "-S", "-c", "for _ in range(100_000_000): pass"]
WRITING = [
    sys.executable,
    "-S",
    "-c",
    "for i in range(20_000):\n with open(f'{i % 50}', 'w') as f: f.write('x' * 100)",
]
ROUNDS = 5
COST_ROUNDS = 3
# Twenty seconds of steps with a save after each; one of them exits when it receives SIGTERM.
_RESUMES = """
import os, pathlib, signal, sys, time
{handler}
checkpoint = pathlib.Path("checkpoint")
for step in range(int(checkpoint.read_text()) if checkpoint.exists() else 0, 400):
    time.sleep(0.05)
    print("step", step, flush=True)
    pathlib.Path("new").write_text(str(step + 1))
    os.replace("new", checkpoint)
pathlib.Path("result").write_text("done")
"""
JOBS = {
    "a job of 20 s that handles SIGTERM": _RESUMES.format(
        handler="signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))"
    ),
    "a job of 20 s that does not": _RESUMES.format(handler=""),
}


def report(rounds: int = ROUNDS, cost_rounds: int = COST_ROUNDS) -> str:
    rows = [
        baseline_run("an idle command", IDLE, rounds),
        baseline_run("a busy command", BUSY, rounds),
        baseline_run("a command that writes 20,000 files", WRITING, rounds),
        around(rounds),
        *(cost(what, script, cost_rounds) for what, script in JOBS.items()),
        *page(rounds),
    ]
    return table("The drill", rows)


def baseline_run(what: str, command: Sequence[str], rounds: int) -> Row:
    """A baseline run, compared with the bare command."""
    medians = interleaved(
        {"bare": _bare(command), "drilled": lambda: _job_run_seconds(command)}, rounds=rounds
    )
    more = medians["drilled"] - medians["bare"]
    return Row(
        f"{what}, in the baseline run",
        f"{more * 1000:+.0f} ms, {more / medians['bare']:+.2%}",
        f"the bare command, {medians['bare']:.2f} s",
        "< 200 ms and < 2 %",
    )


def around(rounds: int) -> Row:
    """`outlast drill` from the shell, without the time of its two runs."""
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
        return whole - float(report["baseline"]["seconds"]) - float(report["evicted"]["seconds"])

    median = interleaved({"around": measure}, rounds=rounds)["around"]
    bare = interleaved({"bare": seconds_of([outlast, "--version"])}, rounds=rounds)["bare"]
    return Row(
        "all of `outlast drill` but its two runs",
        f"{median * 1000:.0f} ms",
        f"`outlast --version`, {bare * 1000:.0f} ms",
    )


def cost(what: str, script: str, rounds: int) -> Row:
    """All of a drill with three evictions, compared with one run of the command without any."""
    command = [sys.executable, "-S", "-c", script]
    seeds = itertools.count(1)

    def drilled() -> float:
        started = time.perf_counter()
        drill(command, evictions=3, seed=next(seeds), expect=["result"])
        return time.perf_counter() - started

    medians = interleaved({"bare": _bare(command), "drilled": drilled}, rounds=rounds)
    return Row(
        f"all of a drill with 3 evictions, {what}",
        f"{medians['drilled']:.1f} s, {medians['drilled'] / medians['bare']:.2f} times",
        f"the bare command, {medians['bare']:.1f} s",
        "≤ 3 times",
    )


def page(rounds: int) -> list[Row]:
    """The page of a thousand evictions, drawn by a browser that is started for it."""
    if (chromium := shutil.which("chromium")) is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder, "drill.html"), Path(folder, "empty.html")
        write_html(training_report(1000, steps=20_000), path)
        empty.write_text("<!doctype html>")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={folder}/page.png"]
        medians = interleaved(
            {
                "page": seconds_of([chromium, *options, path.as_uri()]),
                "empty": seconds_of([chromium, *options, empty.as_uri()]),
            },
            rounds=rounds,
        )
    return [
        Row(
            "the page of a thousand evictions in Chromium",
            f"{medians['page'] - medians['empty']:.2f} s more",
            f"an empty page, {medians['empty']:.2f} s",
            "< 2 s more",
        )
    ]


def _bare(command: Sequence[str]) -> Callable[[], float]:
    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
            return time.perf_counter() - started

    return measure


def _job_run_seconds(command: Sequence[str]) -> float:
    """A run without evictions: its folder, its node, and the watch over its files."""
    options = DrillOptions(command=tuple(command))
    isolation = best_isolation()
    with drill_folder(None) as root:
        started = time.perf_counter()
        deadline = time.monotonic() + 600
        runner = JobRunner(options, root, isolation=isolation, deadline=deadline, listener=ignore)
        runner.run(runner.prepare("baseline"), NO_EVICTIONS, None)
        return time.perf_counter() - started
