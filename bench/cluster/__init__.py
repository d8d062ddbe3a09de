"""`outlast watch --all` over 1,000 Jobs, 5,000 Pods and 10,000 events of a served API."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.cluster.drawing import drawing_seconds, quantile, watch_commands
from bench.measure import Row, table

JOBS, PODS, EVENTS, CHANGES = 1000, 5000, 10_000, 3600
IDLE_SECONDS = 60.0
STREAM_MINUTES = 5
ROUNDS = 5
DRAWINGS = 100


def report(idle_seconds: float = IDLE_SECONDS, drawings: int = DRAWINGS) -> str:
    """The section for RESULTS.md."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.cluster.api_server", *map(str, (JOBS, PODS, EVENTS))],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            config = _kubeconfig(Path(folder), address)
            watcher = [sys.executable, "-m", "bench.cluster.watcher", str(config), str(CHANGES)]
            found = _result([*watcher, str(idle_seconds)], environ)
            # As a file: as a module it would import this package first, which users do not.
            starter = [sys.executable, str(Path(__file__).with_name("first_request.py"))]
            starter.append(str(config))
            first = sorted(_result(starter, environ)["cpu_seconds"] for _ in range(ROUNDS))
            drawn = drawing_seconds(address, watch_commands(str(config), folder), environ, drawings)
        finally:
            server.kill()
            server.wait()
    return table("Watching a cluster", [*_rows(found, first[len(first) // 2]), *_drawn(drawn)])


def _rows(found: dict[str, Any], first_request: float) -> list[Row]:
    against = f"{JOBS:,} Jobs, {PODS:,} Pods, {EVENTS:,} events"
    calls = found["idle_calls"] / found["idle_seconds"] * 60 + found["streams"] / STREAM_MINUTES
    return [
        Row("CPU until the first request", f"{first_request * 1e3:.0f} ms", "", "≤ 250 ms"),
        Row(
            "first picture, all runs diagnosed",
            f"{found['first_cpu_seconds']:.2f} s CPU",
            against,
            "≤ 2 s",
        ),
        Row(
            f"each of {found['changes']:,} changes, an hour of one a second",
            f"{found['change_cpu_seconds'] / found['changes'] * 1e3:.2f} ms CPU",
            "in groups of 60, the table drawn after each group",
            "≤ 1 ms",
        ),
        Row(
            "drawing the table",
            f"{found['draw_cpu_seconds'] * 1e3:.1f} ms CPU",
            "at most every 0.5 s",
        ),
        Row("memory after that", f"{found['rss_bytes'] / 1e6:.0f} MB", "", "≤ 120 MB"),
        Row(
            "idle",
            f"{found['idle_cpu_seconds'] / found['idle_seconds']:.1%} of a core",
            f"{found['idle_seconds']:.0f} s, drawn every 5 s",
            "≤ 1%",
        ),
        Row(
            "API calls when nothing happens",
            f"{calls:.1f} a minute",
            f"{found['streams']} streams, opened again every {STREAM_MINUTES} min; nothing polled",
            "≤ 6 a minute",
        ),
    ]


def _drawn(found: dict[str, list[float]]) -> list[Row]:
    return [
        Row(
            f"from a change to the screen, {name}",
            f"p50 {quantile(seconds, 0.5):.2f} s, p99 {quantile(seconds, 0.99):.2f} s",
            f"{len(seconds)} changes, on a terminal; 0.5 s of it groups changes",
            "p95 ≤ 2 s",
        )
        for name, seconds in found.items()
    ]


def _result(command: list[str], environ: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def _kubeconfig(folder: Path, server: str) -> Path:
    content = {
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path
