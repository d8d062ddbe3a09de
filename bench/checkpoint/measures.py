"""All systems in turns, each in a process of its own, and the tables that come of it."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.measure import Row, disk_folder, table

OURS = "Outlast"
TORCH_SAVE = "torch.save + fsync"
TORCH_MMAP = "torch.load(mmap=True)"
SAFETENSORS = "safetensors + fsync"
DCP_ASYNC = (
    "DCP async_save, default",
    "DCP async_save, reused stager",
    "DCP async_save, process, reused stager",
)
DCP = ("DCP save", *DCP_ASYNC)
ASYNC = (*DCP_ASYNC, "Orbax async, NumPy", "Orbax async, JAX", OURS)
SYSTEMS = (TORCH_SAVE, SAFETENSORS, "DCP save", *ASYNC)
LIMITS = "limits"

PHASE_OF = {"a": "save", "b": "save", "c": "lora", "d": "save", "e": "save", "f": "training"}
MEASURES = (*PHASE_OF, "g")
ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
NONE = "-"
MIB = 2**20

Run = tuple[str, str]  # a phase and a system
Seen = dict[Run, dict[str, list[float]]]
Errors = dict[Run, str]
Against = tuple[str, float | None, str]  # its name, its value and the bar


def report(
    rounds: int = 5,
    size_mib: int = 1024,
    only: Iterable[str] = MEASURES,
    *,
    systems: Sequence[str] = (*SYSTEMS, LIMITS),
    folder: Path | None = None,
    python: str | None = None,
    raw: Path | None = None,
) -> str:
    """Measure, and say it in Markdown.

    The peers have to be installed for the interpreter that runs them: `python`, else the
    environment's OUTLAST_BENCH_PYTHON, else the one that runs this.
    """
    python = python or os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    where = disk_folder(folder)
    try:
        needed = 10 * size_mib * MIB
        free = shutil.disk_usage(where).free
        if free < needed:
            gib = needed / 2**30
            return f"## Checkpoints\n\nNot measured: {where} has not {gib:.0f} GiB free.\n"
        seen: Seen = {run: {} for run in _runs(set(only), systems)}
        errors: Errors = {}
        for number in range(rounds):
            _round(number, rounds, seen, errors, size_mib, where, python)
            print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
            if raw is not None:
                _write(raw, seen)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    medians = Medians(seen)
    note = (
        f"{size_mib} MiB of float32 in 444 CPU tensors (parameters and Adam's moments); every "
        f"system in a fresh process, in turns, {rounds} rounds. Restored bits are compared each "
        "time, the state is changed right after a save returns, and all train for 3 s before the "
        "first save. Read the ratios."
    )
    parts = [
        table("Checkpoints: the bars", bars(medians, errors)).replace("\n\n|", f"\n\n{note}\n\n|"),
        side_by_side(medians, errors),
        table("The limits of the machine", limit_rows(medians, size_mib)),
    ]
    return "\n".join(parts)


def _runs(only: set[str], systems: Sequence[str]) -> Iterable[Run]:
    phases = {PHASE_OF[letter] for letter in only if letter in PHASE_OF}
    for name in systems:
        if name == LIMITS:
            if "save" in phases:
                yield "limits", LIMITS
            continue
        if "save" in phases:
            yield "save", name
        if "lora" in phases:
            yield "lora", name
        if "training" in phases and name in ASYNC:
            yield "training", name
        if "g" in only and name == OURS:
            yield "tick", name


def _round(
    number: int, rounds: int, seen: Seen, errors: Errors, mib: int, where: Path, python: str
) -> None:
    """Every system once. Another goes first in each round: what is left behind hits all alike."""
    runs = list(seen)
    first = number * len(runs) // rounds
    for run in runs[first:] + runs[:first]:
        if run in errors:
            continue
        answer = measured(run, mib, where, python)
        if "error" in answer:
            errors[run] = answer["error"]
            print(f"{run[1]}, {run[0]}: {answer['error']}", file=sys.stderr)
            continue
        for name, value in answer.items():
            values = value if isinstance(value, list) else [value]
            seen[run].setdefault(name, []).extend(values)


def _write(raw: Path, seen: Seen) -> None:
    raw.write_text(json.dumps({f"{p}/{system}": v for (p, system), v in seen.items()}, indent=1))


def measured(run: Run, mib: int, where: Path, python: str) -> dict[str, Any]:
    phase, system = run
    target = Path(tempfile.mkdtemp(dir=where))
    result = where / "result.json"
    result.unlink(missing_ok=True)
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    command = [python, "-m", "bench.checkpoint.worker", phase, system, str(target), str(mib)]
    os.sync()
    try:
        done = subprocess.run(
            [*command, str(result)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {PATIENCE:.0f} s"}
    finally:
        shutil.rmtree(target, ignore_errors=True)
    if result.exists():
        answer: dict[str, Any] = json.loads(result.read_text())
        return answer
    lines = done.stderr.strip().splitlines()
    return {"error": f"exit code {done.returncode}: {lines[-1] if lines else ''}"[:160]}


class Medians:
    """The median of what was seen, by system, phase and measure."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def __call__(self, system: str, phase: str, measure: str) -> float | None:
        values = self._seen.get((phase, system), {}).get(measure, [])
        return statistics.median(values) if values else None

    def best(self, systems: Iterable[str], phase: str, measure: str) -> float | None:
        values = [self(system, phase, measure) for system in systems]
        known = [value for value in values if value is not None]
        return min(known) if known else None

    def least_limit(self, start: str) -> float | None:
        names = self._seen.get(("limits", LIMITS), {})
        return min(
            (statistics.median(values) for name, values in names.items() if name.startswith(start)),
            default=None,
        )


def bars(medians: Medians, errors: Errors) -> list[Row]:
    """Ours against every bar and goal of the project; the ratio stands in front."""

    def ours(phase: str, measure: str) -> float | None:
        return medians(OURS, phase, measure)

    def torch(phase: str, measure: str) -> float | None:
        return medians(TORCH_SAVE, phase, measure)

    def row(what: str, phase: str, measure: str, peers: Iterable[Against]) -> Iterable[Row]:
        value = ours(phase, measure)
        missing = "not available" if (phase, OURS) in errors else NONE
        for name, against, bar in peers:
            ratio = f"{value / against:.2f} x " if value is not None and against else ""
            yield Row(
                what,
                missing if value is None else f"{ratio}({value:.3f} s)",
                f"{name}, {_seconds(against)}",
                bar,
            )

    write = medians.least_limit("raw write")
    stall = "stall of the loop per save, warm"
    restore = "verified restore into existing tensors"
    stager = medians.best(DCP_ASYNC, "save", "stall")
    first = medians.best(DCP_ASYNC, "save", "first")
    rows = [
        *row(
            stall,
            "save",
            "stall",
            [
                ("the best DCP stager", stager, "≤ 0.9 x"),
                (TORCH_SAVE, torch("save", "stall"), "≤ 0.067 x"),
                ("memcpy, 1 thread", medians.least_limit("memcpy, 1"), "goal ≤ 1.2 x"),
                ("memcpy, 2 threads", medians.least_limit("memcpy, 2"), ""),
            ],
        ),
        *row(
            "stall of the first save",
            "save",
            "first",
            [
                ("the best DCP stager's first", first, "≤ 0.33 x"),
                ("its own warm stall", ours("save", "stall"), "goal 1 x"),
            ],
        ),
        *row("opening", "save", "open", [("its own warm stall", ours("save", "stall"), "")]),
        *row(
            "until durable, everything changed",
            "save",
            "durable",
            [
                (TORCH_SAVE, torch("save", "durable"), "≤ 0.5 x"),
                ("raw direct write + fsync", write, "goal ≤ 1.11 x"),
            ],
        ),
        _lora_bytes(medians, errors),
        *row(
            "LoRA: until durable",
            "lora",
            "durable",
            [(TORCH_SAVE, torch("lora", "durable"), "≤ 0.2 x, goal ≤ 0.05 x")],
        ),
    ]
    for kind, bar in (("warm", "≤ 0.7 x"), ("cold", "≤ 0.5 x")):
        measure = f"restore_{kind}"
        rows += row(
            f"{restore}, {kind}",
            "save",
            measure,
            [
                ("torch.load + load_state_dict", torch("save", measure), bar),
                (TORCH_MMAP, torch("save", f"{measure}_mmap"), ""),
                ("safetensors, unverified", medians(SAFETENSORS, "save", measure), "≤ 1 x cold"),
                ("best DCP, unverified", medians.best(DCP, "save", measure), "≤ 1 x warm"),
                ("without comparing", ours("save", f"{measure}_uncompared"), "≤ 1.15 x"),
            ],
        )
    dcp_slow = medians.best(DCP_ASYNC, "training", "slowdown")
    tick = ours("tick", "tick")
    rows += [
        Row(
            "extra resident memory at a save",
            _times(ours("save", "memory")),
            f"the state; best of DCP async {_times(medians.best(DCP_ASYNC, 'save', 'memory'))}",
            "≤ 1.1 x",
        ),
        Row(
            "step of training while a save is written",
            _times(ours("training", "slowdown")),
            f"its normal time; best of DCP async {_times(dcp_slow)}",
            "≤ 1.4 x, goal ≤ 1.1 x",
        ),
        Row(
            "`tick` with nothing due",
            NONE if tick is None else f"{tick * 1e9:.0f} ns",
            "an empty loop",
            "≤ 1000 ns",
        ),
    ]
    return rows


def _lora_bytes(medians: Medians, errors: Errors) -> Row:
    written = medians(OURS, "lora", "bytes")
    changed = medians(OURS, "lora", "changed") or 0.0
    torch = medians(TORCH_SAVE, "lora", "bytes")
    measured = "not available" if ("lora", OURS) in errors else NONE
    if written is not None and changed:
        measured = f"{written / changed:.3f} x ({written / MIB:.2f} MiB)"
    return Row(
        "LoRA: bytes written",
        measured,
        f"changed bytes, {changed / MIB:.2f} MiB; {TORCH_SAVE}, {_mib(torch)}",
        f"≤ 1.05 x + 1 MiB = {1.05 * changed / MIB + 1:.2f} MiB" if changed else "",
    )


COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("stall, warm", "save", "stall", "s"),
    ("stall, first", "save", "first", "s"),
    ("until durable", "save", "durable", "s"),
    ("LoRA durable", "lora", "durable", "s"),
    ("LoRA bytes", "lora", "bytes", "MiB"),
    ("restore, warm", "save", "restore_warm", "s"),
    ("restore, cold", "save", "restore_cold", "s"),
    ("extra memory", "save", "memory", "x"),
    ("step while saving", "training", "slowdown", "x"),
    ("the same, mean", "training", "slowdown_mean", "x"),
)


def side_by_side(medians: Medians, errors: Errors) -> str:
    """Seconds, with the ratio to torch.save + fsync behind them."""
    lines = [
        "## All systems",
        "",
        f"Seconds, and in brackets the ratio to {TORCH_SAVE}; memory x the state; steps x their "
        "normal time.",
        "",
        "| system | " + " | ".join(column[0] for column in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for system in SYSTEMS:
        failed = sorted({text for (_, name), text in errors.items() if name == system})
        label = f"{system} (not available: {'; '.join(failed)})" if failed else system
        cells = [_cell(medians, system, *column[1:]) for column in COLUMNS]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(medians: Medians, system: str, phase: str, measure: str, unit: str) -> str:
    value = medians(system, phase, measure)
    if value is None:
        return NONE
    if unit == "x":
        return f"{value:.2f}"
    base = medians(TORCH_SAVE, phase, measure)
    ratio = f" ({value / base:.3g})" if base else ""
    return (f"{value / MIB:.1f} MiB" if unit == "MiB" else f"{value:.3f}") + ratio


def limit_rows(medians: Medians, mib: int) -> list[Row]:
    names = (
        "memcpy, 1 thread",
        "memcpy, 2 threads",
        "raw write, direct + fsync, 1 thread",
        "raw write, direct + fsync, 2 threads",
        "raw read, direct, 1 thread",
        "raw read, direct, 2 threads",
        "raw read, page cache",
    )
    rows = []
    for name in names:
        seconds = medians(LIMITS, "limits", name)
        speed = f"{mib * MIB / seconds / 1e9:.2f} GB/s" if seconds else NONE
        rows.append(Row(name, _seconds(seconds), speed))
    return rows


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f} s"


def _times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f} x"


def _mib(value: float | None) -> str:
    return NONE if value is None else f"{value / MIB:.1f} MiB"
