"""Queues at scale: 10,000,000 items, 200 workers, and Pub/Sub beside its own client.

    python -m bench.queue_scale fill FOLDER
    OUTLAST_BENCH_FILLED=FOLDER python -m bench queue_scale

Without OUTLAST_BENCH_FILLED, a folder is filled and removed. It takes up to 10 GB.
"""

import os
import tempfile
from pathlib import Path

from bench.measure import table
from bench.queue_scale import pubsub, workers
from bench.queue_scale.filling import FEW, MANY, fill, postgres
from bench.queue_scale.measures import postgres_rows, sqlite_rows

ROUNDS = 300
_PUBSUB_ROUNDS = 3


def report(many: int = MANY, rounds: int = ROUNDS) -> str:
    if given := os.environ.get("OUTLAST_BENCH_FILLED"):
        return _report(Path(given), many, rounds)
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as name:
        # The server runs as another user, who has to reach its folder.
        folder = Path(name)
        folder.chmod(0o755)
        fill(folder, many)
        return _report(folder, many, rounds)


def _report(folder: Path, many: int, rounds: int) -> str:
    against = f"{many:,} items against {FEW:,}"
    parts = [
        f"Medians of {rounds} rounds in turns, fsync on; chunks of 10, and as many published; "
        f"load of the machine at the start {os.getloadavg()[0]:.1f}.\n",
        table(f"SQLite: {against}", sqlite_rows(folder, rounds)),
    ]
    with postgres(folder, fsync=True) as server:
        parts.append(table(f"PostgreSQL: {against}", postgres_rows(server, many // 10, rounds)))
        parts.append(table("PostgreSQL: many workers", workers.rows(server.url("drained"))))
    parts.append(
        table(f"Pub/Sub: {_PUBSUB_ROUNDS} rounds, Google's emulator", pubsub.rows(_PUBSUB_ROUNDS))
    )
    return "\n".join(parts)
