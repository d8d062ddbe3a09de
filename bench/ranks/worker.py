"""One rank of a measurement, in a fresh process: rank 0 writes what all of them have seen."""

import argparse
import json
import math
import os
import random
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import outlast
from bench.checkpoint import caches
from bench.ranks.systems import SYSTEMS, RankSystem, data_parallel, sharded
from outlast.ranks.agreement import Agreement
from outlast.ranks.world import World, current_world, open_channel

# See bench/checkpoint/worker.py: those that follow the first save are slow with all systems.
UNCOUNTED_SAVES = 2
WARM_SAVES = 4
BOUNDARIES = 100_000
REDUCTIONS = 300
REPEATS = 5
STEP_SECONDS_MAX = 0.004
NOTICE_SECONDS_MAX = 0.05
NEVER = 10**9


def boundary(folder: Path, _: int) -> dict[str, Any]:
    """A boundary at which nothing is called, and the collective that others use for it."""
    world = _world()
    agreement = _agreement(world, "boundary")
    agreement.start()
    checkpointer = outlast.Checkpointer(folder, {"step": 0}, every_steps=NEVER)
    checkpointer.resume()
    one = torch.zeros(1)

    def reduce(_: int) -> object:
        return dist.all_reduce(one)

    cases: dict[str, tuple[Callable[[int], object], int]] = {
        "boundary": (agreement.boundary, BOUNDARIES),
        "tick": (checkpointer.tick, BOUNDARIES),
        "all_reduce": (reduce, REDUCTIONS),
    }
    seen: dict[str, Any] = {name: [] for name in cases}
    for _ in range(REPEATS):
        for name, (call, count) in cases.items():
            dist.barrier()
            seen[name].append(_seconds_of(call, count))
    checkpointer.close()
    agreement.close()
    return seen


def _seconds_of(call: Callable[[int], object], count: int) -> float:
    """The seconds that one call adds to a loop."""
    started = time.perf_counter()
    for _ in range(count):
        pass
    empty = time.perf_counter() - started
    started = time.perf_counter()
    for step in range(count):
        call(step)
    return (time.perf_counter() - started - empty) / count


def notices(_: Path, count: int) -> dict[str, Any]:
    """From a notice on a random rank at a random moment until all ranks know where they stop.

    It starts with what the guard calls when it sees a signal: a process gets only one notice.
    """
    world = _world()
    # The same choices on all ranks.
    chance = random.Random(int(os.environ["BENCH_SEED"]))
    latencies: list[float] = []
    agreed = 0
    for number in range(count):
        noticed = chance.randrange(world.size)
        after_seconds = chance.random() * NOTICE_SECONDS_MAX
        stopped = _stop_once(world, number, after_seconds if noticed == world.rank else None)
        everyone: list[Any] = [None] * world.size
        dist.all_gather_object(everyone, stopped)
        (called,) = (one["called"] for one in everyone if one["called"])
        # All ranks run on this machine, so that they share its monotonic clock.
        latencies.append(max(one["known"] for one in everyone) - called)
        agreed += len({one["step"] for one in everyone}) == 1
    return {"latency": latencies, "agreed": [agreed], "notices": [count]}


def _stop_once(world: World, number: int, after_seconds: float | None) -> dict[str, float]:
    """Loop until the order to stop. This rank gets the notice after so long, if it does."""
    chance = random.Random()
    agreement = _agreement(world, f"notice-{number}")
    known = _noted_verdicts(agreement)
    called: list[float] = []

    def notice() -> None:
        called.append(time.monotonic())
        agreement.call_stop("SIGTERM", 12.0)

    agreement.start()
    # Connecting may take long, because torch looks up the names of the addresses.
    dist.barrier()
    timer = threading.Timer(after_seconds or 0.0, notice)
    if after_seconds is not None:
        timer.start()
    step = 0
    while agreement.boundary(step) is None:
        time.sleep(chance.random() * STEP_SECONDS_MAX)
        step += 1
    agreement.close()
    return {"called": sum(called), "known": known[0], "step": step}


def _agreement(world: World, name: str) -> Agreement:
    return Agreement(
        world,
        open_channel(world, name),
        seconds_left=lambda: math.inf,
        seconds_needed=lambda: 1.0,
        on_stop_call=lambda *_: None,
        on_lost=print,
    )


def _noted_verdicts(agreement: Agreement) -> list[float]:
    """When this rank has the verdict, which the loop sees only at its next boundary."""
    known: list[float] = []
    gate = agreement._gate  # noqa: SLF001 - nothing public shows it
    thaw = gate.thaw

    def noting(order: Any) -> None:
        known.append(time.monotonic())
        thaw(order)

    gate.thaw = noting  # type: ignore[method-assign]  # only for this measurement
    return known


def saving(system: type[RankSystem], folder: Path, tensors: Any, size: int) -> dict[str, Any]:
    """Saves of a state that changes completely in between."""
    resident = caches.reset_peak()
    one = system(tensors, folder)
    seen: dict[str, Any] = {"stall": [], "durable": [], "bytes": []}
    for step in range(1, 2 + UNCOUNTED_SAVES + WARM_SAVES):
        tensors.mutate()
        files = caches.listing(folder)
        dist.barrier()
        started = time.perf_counter()
        one.save(step)
        stall = time.perf_counter() - started
        one.wait_durable()
        durable = time.perf_counter() - started
        stall, durable = _most(stall), _most(durable)
        if step > 1 + UNCOUNTED_SAVES:
            seen["stall"].append(stall)
            seen["durable"].append(durable)
            seen["bytes"].append(caches.new_bytes(files, caches.listing(folder)) / size)
        dist.barrier()
        one.prune()
        # No rank may list the folder meanwhile.
        dist.barrier()
    seen["memory"] = [_most(max(0, caches.peak() - resident))]
    if (staged := one.staged_bytes()) is not None:
        seen["staged"] = [_most(staged)]
    dist.barrier()
    one.close()
    return seen


def _most(value: float) -> float:
    """The largest value of all ranks: the slowest one is who everybody waits for."""
    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def _world() -> World:
    world = current_world()
    assert world is not None, "This is one of several ranks."
    return world


def measure(args: argparse.Namespace) -> dict[str, Any]:
    if args.phase == "boundary":
        return boundary(args.folder, args.amount)
    if args.phase == "notices":
        return notices(args.folder, args.amount)
    make = {"sharded": sharded, "ddp": data_parallel}[args.phase]
    tensors = make(args.amount)
    seen = saving(SYSTEMS[args.system], args.folder, tensors, tensors.size_bytes)
    return seen | {"state": [tensors.size_bytes]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("phase")
    parser.add_argument("system")
    parser.add_argument("folder", type=Path)
    parser.add_argument("amount", type=int)
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seen = measure(args)
    if dist.get_rank() == 0:
        medians = {k: v if k == "latency" else [statistics.median(v)] for k, v in seen.items()}
        args.result.write_text(json.dumps(medians))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
