"""All systems in turns on networks of several latencies, and the tables that come of it."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Row, table

OURS, RAW, UNSIGNED = "Outlast", "raw obstore", "raw obstore, unsigned content"
SYSTEMS: tuple[str, ...] = (RAW, OURS, UNSIGNED, "torch.save + upload", "DCP save, fsspec")
ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
# Dollars of a request of each kind, as Cloud Storage and S3 list them for standard storage.
PRICES = {"write": 5e-6, "list": 5e-6, "read": 0.4e-6, "delete": 0.0}


@dataclass(frozen=True, slots=True)
class Net:
    latency_ms: float
    mbit_per_second: float = 0.0

    def __str__(self) -> str:
        speed = f", {self.mbit_per_second / 1000:g} Gbit/s" if self.mbit_per_second else ""
        return f"{self.latency_ms:g} ms{speed}"


NETS: tuple[Net, ...] = (Net(0), Net(20), Net(80), Net(20, 4000))
BAR_NETS = (Net(20), Net(20, 4000))
Seen = dict[tuple[Net, str], dict[str, list[Any]]]


def report(
    rounds: int = 3,
    size_mib: int = 1024,
    *,
    nets: Sequence[Net] = NETS,
    systems: Sequence[str] = SYSTEMS,
    python: str | None = None,
    raw: Path | None = None,
) -> str:
    """Measure, and say it in Markdown.

    The peers have to be installed for the interpreter that runs them: `python`, else the
    environment's OUTLAST_BENCH_PYTHON, else the one that runs this.
    """
    python = python or os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    seen: Seen = {}
    errors: dict[str, str] = {}
    for number in range(rounds):
        for net in nets:
            turn = number % len(systems)
            for system in (*systems[turn:], *systems[:turn]):
                if system in errors:
                    continue
                answer = _one(system, net, size_mib, python)
                if "error" in answer:
                    errors[system] = answer["error"]
                    print(f"{system}: {answer['error']}", file=sys.stderr)
                    continue
                for name, value in answer.items():
                    values = value if isinstance(value, list) else [value]
                    seen.setdefault((net, system), {}).setdefault(name, []).extend(values)
        print(f"round {number + 1} of {rounds} is done", file=sys.stderr, flush=True)
        if raw is not None:
            raw.write_text(json.dumps({f"{net}/{one}": v for (net, one), v in seen.items()}))
    return "\n".join([_bars(seen, rounds, size_mib), _all(seen, errors)])


def _one(system: str, net: Net, mib: int, python: str) -> dict[str, Any]:
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder, _server(net, environ) as endpoint:
        result = Path(folder, "result.json")
        command = [python, "-m", "bench.objects.worker", system, endpoint, str(mib), "1"]
        try:
            done = subprocess.run(
                [*command, str(result)],
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {PATIENCE:.0f} s"}
        if result.exists():
            answer: dict[str, Any] = json.loads(result.read_text())
            return answer
    lines = done.stderr.strip().splitlines()
    return {"error": f"exit code {done.returncode}: {lines[-1] if lines else ''}"[:160]}


@contextlib.contextmanager
def _server(net: Net, environ: dict[str, str]) -> Iterator[str]:
    """A fresh server, so that each system begins with the same memory."""
    command = [sys.executable, "-m", "bench.objects.server", "--latency-ms", str(net.latency_ms)]
    command += ["--mbit-per-second", str(net.mbit_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def _bars(seen: Seen, rounds: int, mib: int) -> str:
    rows = []
    for net in BAR_NETS:
        for measure, what in (("save", "save, until durable"), ("restore", "verified restore")):
            ours, raw = (_median(seen, net, one, measure) for one in (OURS, RAW))
            if ours is None or raw is None:
                continue
            label = f"{what}, {net} a request"
            measured = f"{ours / raw:.2f} x ({ours:.3f} s)"
            rows.append(Row(label, measured, f"{RAW}, {raw:.3f} s", "≤ 1.15 x"))
            bare = _median(seen, net, UNSIGNED, measure)
            if measure == "save" and bare is not None:
                measured = f"{ours / bare:.2f} x ({ours:.3f} s)"
                rows.append(Row(label, measured, f"{UNSIGNED}, {bare:.3f} s", ""))
    note = (
        f"{mib} MiB of float32 in 444 CPU tensors, a server in memory on the same machine that "
        f"delays every request and connection; every system in fresh processes, in turns, "
        f"{rounds} rounds. raw obstore moves as many bytes as one object, with the same client, "
        "part size and number of requests at once. By default, that client hashes uploads for "
        "their signature; Outlast leaves this out where the content cannot be changed on the way, "
        "and a second raw client does so, too. Outlast hashes, commits and records; it verifies "
        "what it restores, and compares the restored state."
    )
    text = table("Object stores: the bars", rows)
    return text.replace("\n\n|", f"\n\n{note}\n\n|")


def _all(seen: Seen, errors: dict[str, str]) -> str:
    head = (
        "| network | system | stall | save | restore | requests: save | restore | price of both |"
    )
    lines = [
        "## All systems, object store",
        "",
        "Seconds; in brackets the ratio to raw obstore. Price: dollars for 1,000 saves and as "
        "many restores, requests only. Memory: beyond the state, x the state.",
        "",
        head + " memory: save | restore |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (net, system), values in sorted(seen.items(), key=lambda item: str(item[0])):
        cells = [str(net), system, f"{statistics.median(values['stall']):.3f}"]
        for measure in ("save", "restore"):
            mine, raw = (_median(seen, net, one, measure) for one in (system, RAW))
            ratio = f" ({mine / raw:.2f})" if mine and raw else ""
            cells.append(f"{mine:.3f}{ratio}")
        requests = [values[f"{measure}_requests"][-1] for measure in ("save", "restore")]
        cells += [_requests(one) for one in requests]
        price = sum(PRICES[kind] * count for one in requests for kind, count in one.items())
        cells.append(f"{1000 * price:.2f}")
        cells += [f"{statistics.median(values[f'{m}_memory']):.2f}" for m in ("save", "restore")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| - | {system} | not measured: {error} |" for system, error in errors.items()]
    return "\n".join([*lines, ""])


def _median(seen: Seen, net: Net, system: str, measure: str) -> float | None:
    values = seen.get((net, system), {}).get(measure)
    return statistics.median(values) if values else None


def _requests(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
