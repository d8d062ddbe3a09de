"""One system in a fresh process, so that nothing of another is left in memory or in threads."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from xxhash import xxh3_128_hexdigest

from bench.checkpoint import caches, limits
from bench.checkpoint.ours import Ours
from bench.checkpoint.peers import PEERS, TorchSave
from bench.checkpoint.state import (
    Tensors,
    adapters_with_adam,
    equal_tensors,
    mutate,
    size_of,
    transformer_with_adam,
)
from bench.checkpoint.system import System

# The second save of a process, sometimes the third, takes up to three times as long as those that
# follow, with everything that writes through the page cache: until the first checkpoint is pruned,
# neither its memory nor its blocks are there to be used again. Counting it would flatter us.
UNCOUNTED_SAVES = 2
WARM_SAVES = 2
SECONDS_BEFORE_FIRST = 3.0
STEP_SECONDS = 0.05
QUIET_STEPS = 10
TRAINING_SAVES = 2
RESTORES = 2
ALL: tuple[type[System], ...] = (*PEERS, Ours)
SYSTEMS = {system.name: system for system in ALL}
CHANGING_MIB = 20


def save_and_restore(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    one, seen, last = _saved(system, folder, transformer_with_adam(mib))
    names = dict(one.tensors)
    expected = one.snapshot()
    one.save(last + 1)
    one.mutate(names)  # at once: what is written must be the state as it was at the save
    one.wait_durable()
    one.prune()
    ways = {"": one.restore}
    if isinstance(one, TorchSave):
        ways["_mmap"] = one.restore_mapped
    if isinstance(one, Ours):
        ways["_uncompared"] = one.restore_uncompared
    for suffix, restore in ways.items():
        caches.drop_caches(folder)
        seen[f"restore_cold{suffix}"] = _restored(one, restore, expected)
        caches.fill_cache(folder)
        seen[f"restore_warm{suffix}"] = _restored(one, restore, expected)
    one.close()
    return seen


def _saved(
    system: type[System], folder: Path, tensors: Tensors
) -> tuple[System, dict[str, Any], int]:
    """Save a few times: the system, what was measured, and the last step."""
    names = dict(tensors)
    train_seconds = _steps()
    resident = caches.reset_peak()
    started = time.perf_counter()
    one = system(tensors, folder)
    seen: dict[str, Any] = {"open": time.perf_counter() - started, "stall": [], "durable": []}
    one.mutate(names)
    # No loop saves before it has trained for a while.
    trained = 0.0
    while trained < SECONDS_BEFORE_FIRST:
        trained += train_seconds()
    last = 1 + UNCOUNTED_SAVES + WARM_SAVES
    for step in range(1, last + 1):
        if step > 1:
            one.mutate(names)
        started = time.perf_counter()
        stall = one.save(step)
        one.wait_durable()
        durable = time.perf_counter() - started
        if step == 1:
            seen["first"] = stall
        elif step > 1 + UNCOUNTED_SAVES:
            seen["stall"].append(stall)
            seen["durable"].append(durable)
        one.prune()
    seen["memory"] = max(0, caches.peak() - resident) / size_of(tensors)
    return one, seen, last


def large(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    """Saves and restores of a state that fits into the machine only twice."""
    return _scaled(system, folder, transformer_with_adam(mib))


def many_small(system: type[System], folder: Path, count: int) -> dict[str, Any]:
    """So many tensors of 1 KiB."""
    return _scaled(system, folder, equal_tensors(count, 2**8))


def many_large(system: type[System], folder: Path, count: int) -> dict[str, Any]:
    """So many tensors of 8 MiB."""
    return _scaled(system, folder, equal_tensors(count, 2**21))


def _scaled(system: type[System], folder: Path, tensors: Tensors) -> dict[str, Any]:
    one, seen, _ = _saved(system, folder, tensors)
    expected = _hashes(tensors)
    for _ in range(RESTORES):
        for kind, prepare in (("cold", caches.drop_caches), ("warm", caches.fill_cache)):
            prepare(folder)
            one.poison()
            seen.setdefault(f"restore_{kind}", []).append(one.restore())
            if _hashes(tensors) != expected:
                raise AssertionError("restored other bits than were saved")
    one.close()
    return seen


def restore(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    """Restores alone, from the disk, from the page cache, and right after another one.

    What the memory held is known by its hashes: a copy of a large state would not fit beside it.
    """
    tensors = transformer_with_adam(mib)
    mutate(tensors)
    expected = _hashes(tensors)
    one = system(tensors, folder)
    one.save(1)
    one.wait_durable()
    seen: dict[str, Any] = {"restore_memory": 0.0}
    for _ in range(RESTORES):
        for kind in ("cold", "again", "warm"):
            if kind == "cold":
                caches.drop_caches(folder)
            elif kind == "warm":
                caches.fill_cache(folder)
            one.poison()
            resident = caches.reset_peak()
            seconds = one.restore()
            memory = max(0, caches.peak() - resident) / size_of(tensors)
            if _hashes(tensors) != expected:
                raise AssertionError("restored other bits than were saved")
            seen.setdefault(f"restore_{kind}", []).append(seconds)
            seen["restore_memory"] = max(seen["restore_memory"], memory)
    one.close()
    return seen


def _hashes(tensors: Tensors) -> dict[str, str]:
    return {name: xxh3_128_hexdigest(tensor.numpy().data) for name, tensor in tensors.items()}


def _restored(one: System, restore: Callable[[], float], expected: Tensors) -> float:
    one.poison()
    seconds = restore()
    if not one.holds(expected):
        raise AssertionError("restored other bits than were saved")
    return seconds


def lora(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    changing = adapters_with_adam(CHANGING_MIB)
    one = system(transformer_with_adam(mib) | changing, folder)
    _warm_up(one, changing)
    seen: dict[str, Any] = {"durable": [], "bytes": [], "changed": size_of(changing)}
    for step in range(2 + UNCOUNTED_SAVES, 2 + UNCOUNTED_SAVES + WARM_SAVES):
        one.mutate(changing)
        files, written = caches.listing(folder), caches.written()
        started = time.perf_counter()
        one.save(step)
        one.wait_durable()
        seen["durable"].append(time.perf_counter() - started)
        grown = caches.new_bytes(files, caches.listing(folder))
        seen["bytes"].append(max(grown, caches.written() - written))
        one.prune()
    one.close()
    return seen


def _warm_up(one: System, changing: Tensors) -> None:
    """The first save and those that do not count."""
    for step in range(1, 2 + UNCOUNTED_SAVES):
        one.mutate(changing)
        one.save(step)
        one.wait_durable()
        one.prune()


def training(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    """Steps of two threads on two cores, with and without a save being written."""
    torch.set_num_threads(2)
    tensors = transformer_with_adam(mib)
    names = dict(tensors)
    one = system(tensors, folder)
    step_seconds = _steps()
    waiter = ThreadPoolExecutor(max_workers=1)
    _warm_up(one, names)
    quiet: list[float] = []
    busy: list[float] = []
    for step in range(2 + UNCOUNTED_SAVES, 2 + UNCOUNTED_SAVES + TRAINING_SAVES):
        one.mutate(names)
        one.prune()
        step_seconds()
        quiet += [step_seconds() for _ in range(QUIET_STEPS)]
        one.save(step)
        waiting = waiter.submit(one.wait_durable)
        while not waiting.done():
            busy.append(step_seconds())
        waiting.result()
    one.close()
    normal = statistics.median(quiet)
    return {
        "step": normal,
        "slowdown": statistics.median(busy) / normal,
        "slowdown_mean": statistics.mean(busy) / normal,
    }


def _steps() -> Callable[[], float]:
    """A step of about 50 ms."""
    left, right, out = (torch.rand(1024, 1024) for _ in range(3))
    repeats = 1

    def step() -> float:
        started = time.perf_counter()
        for _ in range(repeats):
            torch.mm(left, right, out=out)
        return time.perf_counter() - started

    # One product is too short to be timed well beside others: come nearer in a few rounds.
    for _ in range(4):
        once = statistics.median(step() for _ in range(9)) / repeats
        repeats = max(1, round(STEP_SECONDS / once))
    return step


def tick(system: type[System], folder: Path, mib: int) -> dict[str, Any]:
    one = system(transformer_with_adam(min(mib, 16)), folder)
    if not isinstance(one, Ours):
        raise TypeError("only Outlast has a tick")
    seen = {"tick": statistics.median(one.tick() for _ in range(5))}
    one.close()
    return seen


def limit(folder: Path, mib: int) -> dict[str, Any]:
    tensors = transformer_with_adam(mib)
    mutate(tensors)
    return dict(limits.measure(tensors, folder, repeats=2))


PHASES = {
    "save": save_and_restore,
    "restore": restore,
    "large": large,
    "many small": many_small,
    "many large": many_large,
    "lora": lora,
    "training": training,
    "tick": tick,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("phase")
    parser.add_argument("system")
    parser.add_argument("folder", type=Path)
    parser.add_argument("mib", type=int)
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    try:
        if args.phase == "limits":
            answer = limit(args.folder, args.mib)
        else:
            answer = PHASES[args.phase](SYSTEMS[args.system], args.folder, args.mib)
    except Exception as error:
        text = str(error).strip().splitlines()
        answer = {"error": f"{type(error).__name__}: {text[0] if text else ''}"[:160]}
        args.result.write_text(json.dumps(answer))
        raise
    args.result.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
