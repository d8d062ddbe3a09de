"""The planner: how fast it simulates, that it is right, and how our interval does on real traces.

The traces are outside the project, see `tests.parts`; without them, those tables are left out.
`TRACES` and `TRACES_USED` were looked at while the rule was designed. All others in the folder
`traces` only judge it: nothing was tuned to them. Those in the folder `later` are of other
collections, and were read after the rule was final; docs/explanation/interval.md says where they
come from. In SkyNomad's data (the `full.json` of each zone), 1 means preempted, so they are stored
inverted; Bamboo's counts of p2.xlarge (all zones, and us-east-1e) are stored as times and sizes.
"""

import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from bench.interval_bound import bound_rows, known_rows
from bench.measure import Row, interleaved, seconds_of, table
from outlast._base.interval import IntervalPolicy, best_interval, young
from outlast.capacity.simulation.age_shape import measure_age_shape
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
from outlast.capacity.simulation.traces import Trace, read_trace
from tests.parts import TEST_DATA
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
TRACES_USED = (
    "availability-1-node-aws-02-15-2023-us-east-1a_v100_1.json",
    "availability-1-node-aws-02-15-2023-us-east-2a_v100_1.json",
    "availability-1-node-aws-02-15-2023-us-west-2a_v100_1.json",
    "availability-1-node-aws-02-15-2023-us-west-2c_v100_1.json",
    "availability-1-node-aws-10-26-2022-us-west-2a_v100_1.json",
    "availability-1-node-aws-10-26-2022-us-west-2b_k80_1.json",
    "availability-16-node-aws-08-27-2023-us-west-2a_v100_1.json",
    "preemption-1-node-aws-04-19-2023-us-east-1c_intel_64.json",
    "preemption-1-node-aws-04-22-2023-us-west-2b_v100_1.json",
    "preemption-1-node-gcp-04-30-2023-us-central1-a_c3-88.json",
    "preemption-1-node-gcp-04-30-2023-us-east1-b_c3-88.json",
    "preemption-4-node-aws-08-03-2023-us-east-2a_v100_1.json",
)
PLAIN_RUNS = 300
POOL_ROUNDS = 2
RUNS_MAX = 500


def report() -> str:
    parts = [table("The planner", [ten_thousand(), one_million(), against_a_loop(), end_to_end()])]
    if data := TEST_DATA:
        rows = [row for name in TRACES for row in on_trace(data / name)]
        parts.append(table("Our interval on real traces", rows))
        parts.append(table("Our interval on many traces", list(judging_rows(data))))
        paths = [data / name for name in TRACES] + all_traces(data)
        bounds = [*bound_rows(paths), *known_rows(paths)]
        parts.append(table("What can be learned about the interval", bounds))
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


def sessions_in(trace: Trace, pool_rounds: int) -> SessionTable:
    """Runs from every hour; in a pool, with several choices among its machines each."""
    pool = TracePool(trace)
    rounds = 1 if pool.is_single else pool_rounds
    followed = (pool.follow_all(every_seconds=HOUR, seed=seed) for seed in range(rounds))
    return SessionTable.of([run for runs in followed for run in runs if run])


def judging_rows(data: Path) -> Iterator[Row]:
    """One row per cost of a save: for traces that the rule was designed on, and for all others."""
    found = all_traces(data)
    used = [data / name for name in TRACES] + [path for path in found if path.name in TRACES_USED]
    unused = [path for path in found if path.name not in TRACES_USED]
    later = sorted((data / "later").glob("*"))
    groups = {
        "traces used for the design": used,
        "unused traces": unused,
        "later traces": later,
        "unused and later traces": [*unused, *later],
    }
    for name, paths in groups.items():
        for how, read in (("as recorded", read_trace), ("within steps", drawn_within_steps)):
            yield from rows_of(f"{name}, losses {how}", paths, read)
        yield from halves_rows(name, paths)


def all_traces(data: Path) -> list[Path]:
    return sorted((data / "traces").glob("*.json"))


def drawn_within_steps(path: Path) -> Trace:
    """The trace with each loss at a random moment of its step, which only shows its end."""
    trace = read_trace(path)
    if path.suffix != ".json":
        return trace
    gap = json.loads(path.read_text())["metadata"]["gap_seconds"]
    chance = random.Random(1)
    lives = (
        replace(life, end_seconds=life.end_seconds - chance.random() * gap) if life.lost else life
        for life in trace.lives
    )
    ordered = sorted(lives, key=lambda life: (life.start_seconds, life.end_seconds))
    return replace(trace, lives=tuple(ordered))


def rows_of(name: str, paths: Sequence[Path], read: Callable[[Path], Trace]) -> Iterator[Row]:
    tables = [few for path in paths if (few := few_sessions(read(path))).is_lost.any()]
    for save, share in product((60.0, 300.0), (1.0, 0.25)) if tables else ():
        found = [shares_of_best(sessions, save, share) for sessions in tables]
        learned, cold, known = zip(*found, strict=True)
        yield Row(
            f"{len(found)} {name}, saves of {save:g} s, {share:.0%} unannounced",
            f"learned: {mean_and_worst(learned)}; cold: {mean_and_worst(cold)}",
            "best fixed interval in hindsight; one that knows the mean time reaches "
            f"{mean_and_worst(known)}",
            "learned: mean ≥ 98.5 %, worst ≥ 95 %; cold: mean ≥ 97 %",
        )


def mean_and_worst(shares: Sequence[float]) -> str:
    return f"mean {np.mean(shares):.1%}, worst {min(shares):.1%}"


def halves_rows(name: str, paths: Sequence[Path]) -> Iterator[Row]:
    """Learn from one half of a trace, and judge with the other."""
    halves = [[few_sessions(half) for half in in_halves(read_trace(path))] for path in paths]
    both = [(a, b) for a, b in halves if a.is_lost.any() and b.is_lost.any()]
    pairs = [*both, *((b, a) for a, b in both)]
    for save, share in product((60.0, 300.0), (1.0, 0.25)) if pairs else ():
        costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
        ours, fixed = [], []
        for known, judge in pairs:
            interval, _ = best_fixed(known, known.unannounced(share, seed=3), costs)
            lossy = judge.unannounced(share, seed=3)
            _, best = best_fixed(judge, lossy, costs)
            policy = learned_of(known, save, share)
            replayed = replay_adaptive(judge, lossy, costs, policy, knows_cost=True)
            ours.append(replayed.goodput / best.goodput)
            fixed.append(replay_fixed(judge, lossy, costs, interval).goodput / best.goodput)
        yield Row(
            f"{len(pairs)} halves of {name}, learned from the other half, saves of {save:g} s, "
            f"{share:.0%} unannounced",
            mean_and_worst(ours),
            f"best fixed interval of the other half: {mean_and_worst(fixed)}",
            "",
        )


def in_halves(trace: Trace) -> Iterator[Trace]:
    middle = trace.seconds / 2
    for start, end in ((0.0, middle), (middle, trace.seconds)):
        lives = (
            replace(
                life,
                start_seconds=max(life.start_seconds, start) - start,
                end_seconds=min(life.end_seconds, end) - start,
                lost=life.lost and life.end_seconds <= end,
            )
            for life in trace.lives
            if life.start_seconds < end and life.end_seconds > start
        )
        yield replace(trace, seconds=middle, lives=tuple(lives))


def few_sessions(trace: Trace) -> SessionTable:
    """At most `RUNS_MAX` runs, evenly spread: later starts see hardly anything new."""
    all_ = sessions_in(trace, POOL_ROUNDS)
    every = max(1, -(-all_.seconds.shape[0] // RUNS_MAX))
    return SessionTable(seconds=all_.seconds[::every], is_lost=all_.is_lost[::every])


def shares_of_best(sessions: SessionTable, save: float, share: float) -> tuple[float, float, float]:
    """Our goodput as a share of the best fixed interval's: with a learned prior, and without.

    And that of a fixed interval for the mean time of this trace.
    """
    lossy = sessions.unannounced(share, seed=3)
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    _, best = best_fixed(sessions, lossy, costs)
    learned = learned_of(sessions, save, share)
    cold = IntervalPolicy(ceiling_seconds=learned.ceiling_seconds)
    replayed = (
        replay_adaptive(sessions, lossy, costs, policy, knows_cost=True)
        for policy in (learned, cold)
    )
    first, second = (one.goodput / best.goodput for one in replayed)
    known = best_interval(save, learned.prior_mean_seconds / share)
    return first, second, replay_fixed(sessions, lossy, costs, known).goodput / best.goodput


def learned_of(sessions: SessionTable, save: float, share: float) -> IntervalPolicy:
    return learned_policy(
        mean_seconds=float(sessions.machine_seconds.sum()) / int(sessions.is_lost.sum()),
        unannounced_share=share,
        save_seconds=save,
        age_shape=measure_age_shape(sessions.lives),
    )


def on_trace(path: Path) -> Iterator[Row]:
    sessions = sessions_in(read_trace(path), pool_rounds=40)
    mean = float(sessions.machine_seconds.sum()) / int(sessions.is_lost.sum())
    for save, share in product((5.0, 60.0, 300.0), (1.0, 0.25)):
        lossy = sessions.unannounced(share, seed=3)
        costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
        interval, best = best_fixed(sessions, lossy, costs)
        learned = learned_of(sessions, save, share)
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
