"""Classify 1,197 images with three workers that are evicted again and again.

    python examples/classify/run.py

Everything happens in the folder `classify-run`. Workers get a SIGTERM, as from a Spot node that
goes away, or a SIGKILL without warning, and are started again as a Job would. At the end every
image has exactly one result. Exits with 1 if not.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path("classify-run")
URL = "sqlite:///jobs.db"
WORKERS = 3
EVICTIONS = 8


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("Training a small network and writing the images ...")
    subprocess.run([sys.executable, str(HERE / "prepare.py"), str(FOLDER)], check=True)
    print(outlast("publish", URL, "images"))

    print(f"Working on them with {WORKERS} workers, {EVICTIONS} evictions on the way ...")
    codes = work_under_eviction(random.Random(7))
    print(f"  exit codes: {', '.join(map(str, codes))}")

    print(outlast("results", URL, "--export", "results.jsonl"))
    return judge()


def work_under_eviction(chance: random.Random) -> list[int]:
    """Evict a worker now and then and start another, until the queue is drained."""
    codes = []
    workers = [start_worker() for _ in range(WORKERS)]
    for _ in range(EVICTIONS):
        time.sleep(chance.uniform(0.5, 1.2))
        victim = chance.randrange(WORKERS)
        workers[victim].send_signal(chance.choice([signal.SIGTERM, signal.SIGKILL]))
        codes.append(workers[victim].wait())
        workers[victim] = start_worker()
    return codes + [worker.wait() for worker in workers]


def start_worker() -> "subprocess.Popen[bytes]":
    command = ["work", "classify:Classifier", "--batch", "--chunk", "12", "--lease", "3s"]
    return subprocess.Popen(
        [sys.executable, "-m", "outlast", *command, "--queue", URL, "--sink", URL],
        cwd=FOLDER,
        stdout=subprocess.DEVNULL,
        stderr=(FOLDER / "log").open("ab"),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "CLASSIFY_SECONDS_PER_BATCH": "0.1",
            # What a Job's manifest sets: exit 0 would count as completion.
            "OUTLAST_EXIT_CODE": "75",
        },
    )


def judge() -> int:
    labels = json.loads((FOLDER / "labels.json").read_text())
    rows = [json.loads(line) for line in (FOLDER / "results.jsonl").read_text().splitlines()]
    if sorted(row["key"] for row in rows) != sorted(labels):
        print(f"error: {len(rows)} results for {len(labels)} images.", file=sys.stderr)
        return 1
    right = sum(row["result"]["digit"] == labels[row["key"]] for row in rows)
    print(f"Every image has one result; {right / len(rows):.1%} of them are right.")
    return 0


def outlast(*arguments: str) -> str:
    command = [sys.executable, "-m", "outlast", *arguments]
    done = subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
