"""What `outlast exec` adds to the start of a command, beside its peers where they are installed."""

import shutil
import sys
from pathlib import Path

from bench.measure import Row, interleaved, seconds_of, table

PEERS = {"tini": ["tini", "-s", "--", "true"], "dumb-init": ["dumb-init", "true"]}


def report() -> str:
    return table("Starting a command", rows())


def rows() -> list[Row]:
    outlast = str(Path(sys.executable).with_name("outlast"))
    cases = {
        "true": seconds_of(["true"]),
        "python -c pass": seconds_of([sys.executable, "-c", "pass"]),
        "outlast exec true": seconds_of([outlast, "exec", "true"]),
    }
    cases |= {name: seconds_of(peer) for name, peer in PEERS.items() if shutil.which(peer[0])}
    medians = interleaved(cases, rounds=25)
    bare = medians["python -c pass"]
    return [
        Row(name, f"{seconds * 1000:.1f} ms", f"{seconds / bare:.2f} of bare Python")
        for name, seconds in medians.items()
    ]
