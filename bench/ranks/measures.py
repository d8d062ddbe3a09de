"""All systems in turns, each with fresh processes, and the table that comes of it."""

import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.measure import Row, disk_folder, table

OURS = "Outlast"
FLOOR = "memcpy"
DCP_ASYNC = ("DCP async_save, default", "DCP async_save, reused stager")
PHASES = ("boundary", "notices", "sharded", "ddp")
ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 600.0
MIB = 2**20
NONE = "-"


class Case(NamedTuple):
    """What a world of ranks measures in fresh processes."""

    phase: str
    ranks: int
    system: str = OURS


Seen = dict[Case, dict[str, list[float]]]

CASES = (
    Case("boundary", 2),
    Case("notices", 2),
    Case("notices", 4),
    *(Case("sharded", 2, system) for system in (OURS, *DCP_ASYNC, FLOOR)),
    *(Case("ddp", ranks, system) for ranks in (2, 4) for system in (OURS, *DCP_ASYNC, FLOOR)),
)


def report(
    rounds: int = 3,
    size_mib: int = 256,
    only: Iterable[str] = PHASES,
    *,
    ranks: int | None = None,
    notices: int = 40,
    folder: Path | None = None,
    python: str | None = None,
) -> str:
    """Measure, and say it in Markdown.

    torch has to be installed for the interpreter that runs the ranks: `python`, else the
    environment's OUTLAST_BENCH_PYTHON, else the one that runs this.
    """
    python = python or os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    wanted = set(only)
    seen: Seen = {
        case: {} for case in CASES if case.phase in wanted and ranks in (None, case.ranks)
    }
    where = disk_folder(folder)
    try:
        for number in range(rounds):
            cases = list(seen)
            first = number * len(cases) // rounds
            for case in cases[first:] + cases[:first]:
                amount = notices if case.phase == "notices" else size_mib
                _add(seen[case], _measured(case, amount, where, python))
            print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    note = (
        f"gloo on this machine, one thread per rank, every system in fresh processes, in turns, "
        f"{rounds} rounds; the slowest rank counts. Sharded: {size_mib} MiB on each rank. DDP: a "
        f"module and its Adam, {size_mib} MiB in all. Everything changes between two saves. Best "
        "DCP: the better of async_save with and without a reused stager, row by row."
    )
    return table("Several ranks", list(_rows(seen))).replace("\n\n|", f"\n\n{note}\n\n|")


def _add(seen: dict[str, list[float]], found: Mapping[str, list[float]]) -> None:
    for name, values in found.items():
        seen.setdefault(name, []).extend(values)


def _measured(case: Case, amount: int, where: Path, python: str) -> dict[str, list[float]]:
    target = Path(tempfile.mkdtemp(dir=where))
    result = where / "result.json"
    result.unlink(missing_ok=True)
    worker = [python, "-m", "bench.ranks.worker", case.phase, case.system]
    command = [*worker, str(target), str(amount), str(result)]
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    shared = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(case.ranks),
        "OMP_NUM_THREADS": "1",
        "BENCH_SEED": str(random.randrange(2**32)),
        # All ranks on two cores: a stalled one is not lost.
        "OUTLAST_LOST_SECONDS": "300",
    }
    os.sync()
    ranks = [
        subprocess.Popen(
            command, env=shared | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True
        )
        for rank in range(case.ranks)
    ]
    try:
        errors = [one.communicate(timeout=PATIENCE_SECONDS)[1] for one in ranks]
    finally:
        for one in ranks:
            one.kill()
            one.wait()
        shutil.rmtree(target, ignore_errors=True)
    if not result.exists():
        raise RuntimeError(f"{case} failed:\n" + "\n".join(text[-2000:] for text in errors))
    answer: dict[str, list[float]] = json.loads(result.read_text())
    return answer


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _rows(seen: Seen) -> Iterable[Row]:
    if any(case.phase == "boundary" for case in seen):
        yield from _boundary_rows(seen)
    for case in seen:
        if case.phase == "notices":
            yield from _notice_rows(seen[case], case.ranks)
    if any(case.phase == "sharded" for case in seen):
        yield _against_dcp(seen, "sharded", 2, "stall", "stall of the loop per save", "≤ 0.8 x")
        yield _against_floor(seen, "sharded", 2)
        yield _against_dcp(seen, "sharded", 2, "durable", "until durable", "≤ 0.6 x")
    for ranks in sorted({case.ranks for case in seen if case.phase == "ddp"}):
        yield from _ddp_rows(seen, ranks)


def _boundary_rows(seen: Seen) -> Iterable[Row]:
    found = {name: statistics.median(values) for name, values in seen[CASES[0]].items()}
    reduce = found["all_reduce"]
    against = f"gloo all_reduce of one float, {reduce * 1e6:.0f} µs"
    for name, what in (
        ("boundary", "the gate between two steps, nothing called, 2 ranks"),
        ("tick", "`tick` with nothing due, 2 ranks"),
    ):
        ratio = f"1/{reduce / found[name]:.0f} x" if found[name] > 0 else NONE
        yield Row(what, f"{found[name] * 1e6:.2f} µs ({ratio})", against, "≤ 1 µs, ≤ 1/100 x")


def _notice_rows(found: Mapping[str, list[float]], ranks: int) -> Iterable[Row]:
    latencies = sorted(found["latency"])
    agreed, notices = sum(found["agreed"]), sum(found["notices"])
    yield Row(
        f"notices after which all of {ranks} ranks stop at one step",
        f"{agreed:.0f} of {notices:.0f}",
        "a notice on a random rank at a random moment",
        "all",
    )
    middle, late = (latencies[int(share * (len(latencies) - 1))] for share in (0.5, 0.99))
    yield Row(
        f"from the notice until all of {ranks} ranks know the step",
        f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms",
        "the call of the guard that has seen it",
        "p50 ≤ 10 ms, p99 ≤ 250 ms",
    )


def _ddp_rows(seen: Seen, ranks: int) -> Iterable[Row]:
    ours = seen[Case("ddp", ranks)]
    state = statistics.median(ours["state"])
    share = state / ranks
    yield _against_dcp(seen, "ddp", ranks, "stall", "stall of the loop per save", "≤ 0.5 x")
    yield _against_floor(seen, "ddp", ranks)
    yield _against_dcp(seen, "ddp", ranks, "durable", "until durable", "")
    dcp_bytes = _best(seen, "ddp", ranks, "bytes")
    yield Row(
        f"DDP, {ranks} ranks: bytes written",
        f"{statistics.median(ours['bytes']):.3f} x the state",
        f"best DCP, {dcp_bytes:.3f} x",
        "≤ 1.02 x",
    )
    yield Row(
        f"DDP, {ranks} ranks: staged by each rank",
        f"{statistics.median(ours['staged']) / share:.3f} x state / {ranks}",
        "its share of the state",
        "≤ 1.1 x",
    )
    dcp_memory = _best(seen, "ddp", ranks, "memory")
    yield Row(
        f"DDP, {ranks} ranks: extra resident memory of a rank",
        f"{statistics.median(ours['memory']) / share:.2f} x state / {ranks}",
        f"best DCP, {dcp_memory / share:.2f} x",
    )


def _against_dcp(seen: Seen, phase: str, ranks: int, measure: str, what: str, bar: str) -> Row:
    ours = statistics.median(seen[Case(phase, ranks)][measure])
    dcp = _best(seen, phase, ranks, measure)
    label = "sharded" if phase == "sharded" else "DDP"
    return Row(
        f"{label}, {ranks} ranks: {what}",
        f"{ours / dcp:.2f} x ({ours:.3f} s)",
        f"best DCP, {dcp:.3f} s",
        bar,
    )


def _against_floor(seen: Seen, phase: str, ranks: int) -> Row:
    ours, floor = (
        statistics.median(seen[Case(phase, ranks, system)]["stall"]) for system in (OURS, FLOOR)
    )
    label = "sharded" if phase == "sharded" else "DDP"
    return Row(
        f"{label}, {ranks} ranks: stall of the loop per save",
        f"{ours / floor:.2f} x ({ours:.3f} s)",
        f"memcpy of its share by each rank, all at once, {floor:.3f} s",
    )


def _best(seen: Seen, phase: str, ranks: int, measure: str) -> float:
    return min(statistics.median(seen[Case(phase, ranks, name)][measure]) for name in DCP_ASYNC)
