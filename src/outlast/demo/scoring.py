"""A program of the demo: a worker that recognizes digits in images. It can be evicted.

    python scoring.py RESULTS.jsonl

Uses the current folder: `items.jsonl` contains the images, `model.npz` the network, `jobs.db` the
queue and the results. Any number of workers can run in parallel. If killed: its items become
available again when their lease expires, and `RESULTS.jsonl` is complete or missing.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from outlast._base.files import write_file
from outlast.errors import Interrupted
from outlast.interruption.guard import Guard
from outlast.queue.opening import open_queue
from outlast.results.opening import open_sink
from outlast.worker.worker import Worker

URL = "sqlite:///jobs.db"
CHUNK = 16
LEASE_SECONDS = 3.0
# Simulates a larger model: otherwise the job would finish before a worker could be evicted.
SECONDS_PER_ITEM = 0.006


class Scorer:
    """Loads the model once, before the first item."""

    def setup(self) -> None:
        with np.load("model.npz", allow_pickle=False) as found:
            self.hidden = found["hidden"]
            self.output = found["output"]

    def __call__(self, item: dict[str, str]) -> dict[str, Any]:
        time.sleep(SECONDS_PER_ITEM)
        # One by one, because the last bits of a product depend on the batch size.
        pixels = np.frombuffer(bytes.fromhex(item["pixels"]), np.uint8).astype(np.float32) / 255
        hidden = np.maximum(pixels @ self.hidden[:-1] + self.hidden[-1], 0)
        scores = hidden @ self.output[:-1] + self.output[-1]
        odds = np.exp(scores - scores.max())
        digit = int(odds.argmax())
        return {"digit": digit, "certainty": round(float(odds[digit] / odds.sum()), 4)}


def main(results: Path) -> None:
    # Catches SIGTERM from here on, not only once the worker runs.
    with Guard() as guard:
        queue, sink = open_queue(URL), open_sink(URL)
        lines = map(json.loads, Path("items.jsonl").read_text().splitlines())
        # All workers publish; existing items are not added again.
        queue.publish((line["key"], line["value"]) for line in lines)
        if guard.interrupted:
            raise Interrupted(guard.exit_code)
        Worker(queue, sink, lease_seconds=LEASE_SECONDS).run(Scorer, chunk=CHUNK)
        write_results(results, [(one.key, json.loads(one.payload)) for one in sink.results()])
        sink.close()
        queue.close()


def write_results(path: Path, results: list[tuple[str, Any]]) -> None:
    text = "".join(json.dumps({"key": key, "result": result}) + "\n" for key, result in results)
    write_file(path, text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
