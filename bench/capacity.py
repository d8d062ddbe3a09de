"""The planner: how fast it simulates, that it is right, and how our interval does on real traces.

The traces lie outside the project; without OUTLAST_TEST_DATA, that table is left out.
"""

import math
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from bench.measure import Row, interleaved, seconds_of, table
from outlast._base.interval import IntervalPolicy, young
from outlast.capacity.simulation.lifetimes import ExponentialLifetimes
from outlast.capacity.simulation.model import MachineSupply, RestartBackoff, SimulatedJob
from outlast.capacity.simulation.policies import (
    CheckpointCosts,
    best_fixed,
    learned_policy,
    replay_adaptive,
    replay_fixed,
)
from outlast.capacity.simulation.replay import SessionTable, TracePool
from outlast.capacity.simulation.simulate import QuantileSketch, simulate
from outlast.capacity.simulation.traces import read_trace
from tests.unit.capacity.event_loop import exponential_lifetimes, run_events

HOUR = 3600.0
JOB = SimulatedJob(
    work_seconds=38 * HOUR, interval_seconds=1200, save_seconds=20, restart_seconds=120
)
SPOT = MachineSupply(
    lifetimes=ExponentialLifetimes(3 * HOUR),
    announced_share=0.5,
    kept_share=0.5,
    leave_seconds=15,
    first_wait_seconds=300,
    wait_seconds=300,
    backoff=RestartBackoff(),
)
TRACES = (
    "bamboo-a100x1-east1b.txt",
    "bamboo-v100x1-east1c.txt",
    "bamboo-p3-trace.csv",
    "bamboo-g4dn-trace.csv",
    "spot-traces-us-east-1f_v100_1.json",
)
PLAIN_RUNS = 300


def report() -> str:
    parts = [table("The planner", [ten_thousand(), one_million(), against_a_loop(), end_to_end()])]
    data = os.environ.get("OUTLAST_TEST_DATA")
    if data:
        rows = [row for name in TRACES for row in on_trace(Path(data) / name)]
        parts.append(table("Our interval on real traces", rows))
    return "\n".join(parts)


def simulated(runs: int) -> QuantileSketch:
    spread = QuantileSketch()
    for outcomes in simulate(JOB, SPOT, runs=runs, seed=1):
        spread.add(outcomes.elapsed_seconds)
    return spread


def cpu_seconds(runs: int) -> float:
    started = time.process_time()
    simulated(runs)
    return time.process_time() - started


def ten_thousand() -> Row:
    cpu_seconds(1000)
    seconds = interleaved({"runs": lambda: cpu_seconds(10_000)}, rounds=5)["runs"]
    return Row("10,000 runs of a 38-hour job, one core", f"{seconds:.3f} s", "", "≤ 1 s")


def one_million() -> Row:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = cpu_seconds(1_000_000)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return Row(
        "1,000,000 runs, one core",
        f"{seconds:.1f} s, {grown:.0f} MiB more memory at the peak",
        "10,000 runs",
        "≤ 60 s, flat memory",
    )


def against_a_loop() -> Row:
    """The plain loop gives the same answers, within what chance allows."""
    chance = random.Random(1)
    lifetimes = exponential_lifetimes(3 * HOUR, chance)
    plain: list[float] = []

    def loop() -> float:
        started = time.process_time()
        plain.extend(run_events(JOB, SPOT, lifetimes, chance).elapsed for _ in range(PLAIN_RUNS))
        return (time.process_time() - started) / PLAIN_RUNS

    medians = interleaved({"ours": lambda: cpu_seconds(100_000) / 100_000, "plain": loop}, rounds=7)
    mean, error = float(np.mean(plain)), float(np.std(plain)) / math.sqrt(len(plain))
    assert abs(simulated(200_000).mean - mean) < 4 * error
    return Row(
        "one run, simulated with many others",
        f"{medians['ours'] * 1e6:.2f} µs, {medians['plain'] / medians['ours']:.0f} x faster",
        f"a plain Python event loop, {medians['plain'] * 1e6:.0f} µs",
        "≥ 100 x",
    )


def end_to_end() -> Row:
    file = Path(__file__).parent.parent / "examples/workloads/tiny-gpt.yaml"
    command = [sys.executable, "-m", "outlast", "plan", str(file), "--format", "json"]
    medians = interleaved(
        {
            "bare": seconds_of([sys.executable, "-c", "pass"]),
            "plan": seconds_of(command),
        },
        rounds=9,
    )
    return Row(
        "`outlast plan`, end to end",
        f"{medians['plan']:.2f} s",
        f"bare Python, {medians['bare']:.2f} s",
        "≤ 1.5 s",
    )


def on_trace(path: Path) -> Iterator[Row]:
    """Runs from every hour; in a pool, with 40 choices among its machines each."""
    pool = TracePool(read_trace(path))
    rounds = 1 if path.suffix == ".json" else 40
    sessions = SessionTable.of(
        [run for seed in range(rounds) for run in pool.follow_all(every_seconds=HOUR, seed=seed)]
    )
    mean = float(sessions.machine_seconds.sum()) / int(sessions.is_lost.sum())
    for save, share in product((5.0, 60.0, 300.0), (1.0, 0.25)):
        lossy = sessions.unannounced(share, seed=3)
        costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
        interval, best = best_fixed(sessions, lossy, costs)
        learned = learned_policy(mean_seconds=mean, unannounced_share=share, save_seconds=save)
        ours = [
            replay_adaptive(sessions, lossy, costs, policy, knows_cost=True).goodput / best.goodput
            for policy in (learned, IntervalPolicy(ceiling_seconds=learned.ceiling_seconds))
        ]
        wrong = [
            replay_fixed(sessions, lossy, costs, young(save, mean / share * factor)).goodput
            / best.goodput
            for factor in (5.0, 0.2)
        ]
        yield Row(
            f"{path.name}, saves of {save:g} s, {share:.0%} unannounced",
            f"{ours[0]:.1%} of the best fixed interval with a learned prior, {ours[1]:.1%} without",
            f"best fixed: {interval / 60:.0f} min, goodput {best.goodput:.1%}; Young 5 x wrong: "
            f"{wrong[0]:.1%} and {wrong[1]:.1%}",
            "≥ 98 %",
        )
