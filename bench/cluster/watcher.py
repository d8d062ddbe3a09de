"""Watch all runs of the served cluster as `outlast watch --all` does, and print what it took."""

import json
import os
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live

from outlast.cli.cluster.watch_all import fleet_screen
from outlast.cluster.connection.client import ClusterClient, connect
from outlast.cluster.watching.fleet import Fleet

TICK_SECONDS = 1.0
IDLE_TICKS = 5
DRAWS = 100
AT_ONCE = 60
"""Changes that arrive between two looks at the screen."""


def main(config: str, changes: int, idle_seconds: float) -> None:
    started = time.process_time()
    with connect(kubeconfig=Path(config)) as client:
        fleet = Fleet(client, None, cut_streams=client.cut_streams)
        with fleet.feed, Path(os.devnull).open("w") as null:
            console = Console(file=null, force_terminal=True, width=160, height=50)
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while not fleet.picture.is_complete:
                    fleet.take(TICK_SECONDS)
                _draw(live, fleet)
                found: dict[str, float] = {"first_cpu_seconds": time.process_time() - started}
                found |= _changed(live, fleet, client, changes)
                found |= _drawn(live, fleet)
                found |= _idle(live, fleet, client, idle_seconds)
        found["streams"] = len(fleet.picture.sources)
    print(json.dumps(found))


def _changed(live: Live, fleet: Fleet, client: ClusterClient, changes: int) -> dict[str, float]:
    started, seen = time.process_time(), 0
    while seen < changes:
        _ask(client, f"/changes?count={AT_ONCE}", b"")
        seen += AT_ONCE
        fleet.take(TICK_SECONDS)
        _draw(live, fleet)
    while fleet.take(TICK_SECONDS):
        pass
    _draw(live, fleet)
    used = time.process_time() - started
    return {"change_cpu_seconds": used, "changes": seen, "rss_bytes": _rss_bytes()}


def _drawn(live: Live, fleet: Fleet) -> dict[str, float]:
    started = time.process_time()
    for _ in range(DRAWS):
        _draw(live, fleet)
    return {"draw_cpu_seconds": (time.process_time() - started) / DRAWS}


def _idle(live: Live, fleet: Fleet, client: ClusterClient, seconds: float) -> dict[str, float]:
    started, cpu, calls = time.monotonic(), time.process_time(), _calls(client)
    while time.monotonic() - started < seconds:
        for _ in range(IDLE_TICKS):
            if fleet.take(TICK_SECONDS):
                break
        _draw(live, fleet)
    return {
        "idle_cpu_seconds": time.process_time() - cpu,
        "idle_seconds": time.monotonic() - started,
        "idle_calls": _calls(client) - calls,
    }


def _draw(live: Live, fleet: Fleet) -> None:
    live.update(fleet_screen(fleet, "", 160, 50, datetime.now(UTC)), refresh=True)


def _calls(client: ClusterClient) -> int:
    return int(json.loads(_ask(client, "/calls"))["calls"])


def _ask(client: ClusterClient, path: str, body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(client.server + path, data=body) as answer:
        return bytes(answer.read())


def _rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
