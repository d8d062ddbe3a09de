"""What a long history costs a run: saves and starts with few and many checkpoints and attempts."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.measure import Row, disk_folder, interleaved, table
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.encoding import encode
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.runs import fence
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.runs.history import History
from outlast.storage import open_store

ROUNDS = 11
NEVER = 10**9
SIZE_MIB = 256
KEPT = (10, 1000)
ATTEMPTS = (10, 10_000)
BAR = 1.2


def report(rounds: int = ROUNDS) -> str:
    where = disk_folder()
    try:
        return table("Housekeeping: what a long history costs", _rows(where, rounds))
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _rows(where: Path, rounds: int) -> list[Row]:
    kept = [_with_kept(where / f"kept-{number}", number) for number in KEPT]
    tried = [_with_attempts(where / f"attempts-{number}", number) for number in ATTEMPTS]
    cases: dict[str, Callable[[], float]] = {}
    for what, measure in (("start", _start), ("first save", _first), ("second save", _second)):
        for runs, numbers, thing in ((kept, KEPT, "checkpoints"), (tried, ATTEMPTS, "attempts")):
            for run, number in zip(runs, numbers, strict=True):
                cases[f"{what}, {number:,} {thing}"] = _of(measure, run)
    found = interleaved(cases, rounds)
    names = list(found)
    return [_row(found, few, many) for few, many in zip(names[::2], names[1::2], strict=True)]


def _of(measure: Callable[[Path], float], run: Path) -> Callable[[], float]:
    return lambda: measure(run)


def _row(found: dict[str, float], few: str, many: str) -> Row:
    return Row(
        many,
        f"{1000 * found[many]:.0f} ms",
        f"{found[many] / found[few]:.2f} x {few} ({1000 * found[few]:.0f} ms)",
        f"≤ {BAR} x",
    )


def _state() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).random(SIZE_MIB * 2**20 // 8)}


def _opened(run: Path) -> tuple[Checkpointer, dict[str, np.ndarray]]:
    state = _state()
    return Checkpointer(run, state, every_steps=NEVER, keep_last=2, keep_every=10), state


def _start(run: Path) -> float:
    checkpointer, _ = _opened(run)
    started = time.perf_counter()
    checkpointer.resume()
    seconds = time.perf_counter() - started
    checkpointer.close()
    return seconds


def _first(run: Path) -> float:
    return _saves(run)[0]


def _second(run: Path) -> float:
    return _saves(run)[1]


def _saves(run: Path) -> list[float]:
    """Two saves of one attempt, each until the next one could start."""
    checkpointer, state = _opened(run)
    step = checkpointer.resume()
    saver = checkpointer._session.saver  # noqa: SLF001 - to wait for what runs in the background
    if saver._staging._warming is not None:  # noqa: SLF001 - how fast fresh memory is, is not asked here
        saver._staging._warming.join()  # noqa: SLF001
    seconds = []
    # Between two milestones, so that the number of kept checkpoints stays as it is.
    for _ in range(2):
        state["x"] += 1
        started = time.perf_counter()
        checkpointer.save(step)
        saver.wait()
        seconds.append(time.perf_counter() - started)
        saver._collector.wait()  # noqa: SLF001 - saves of a real run are further apart
    checkpointer.close()
    return seconds


def _with_kept(run: Path, number: int) -> Path:
    """A run with so many milestones, all of the same bytes."""
    checkpointer, _ = _opened(run)
    checkpointer.resume()
    checkpointer.save(10)
    checkpointer.close()
    store = open_store(run)
    first = read_manifest(store, manifest_names(store)[0])
    assert isinstance(first, CheckpointManifest)
    for count in range(2, number + 1):
        more = replace(first, step=10 * count)
        store.create(more.name, [encode(more)])
    return run


def _with_attempts(run: Path, number: int) -> Path:
    """A run after so many attempts, each with a journal, as they leave it."""
    _with_kept(run, 1)
    store = open_store(run)
    line = b'{"at":"2026-01-01T00:00:00+00:00","kind":"progress","step":1}\n'
    for attempt in range(2, number + 1):
        if attempt > number - fence.KEPT:
            facts = History(through=attempt - 2, has_saved=True).to_facts()
            store.create(fence.name_of(attempt), [json.dumps(facts).encode()])
        (run / "journal" / f"{attempt:06d}-000001.jsonl").write_bytes(line)
    return run
