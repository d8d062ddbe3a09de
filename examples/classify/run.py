"""Classify 1,197 images with three workers that are evicted repeatedly.

    python examples/classify/run.py

All files are written to the folder `classify-run`. Workers receive SIGTERM, as on a Spot node that
is reclaimed, or SIGKILL without warning, and are restarted as a Job would do it. At the end, every
image has exactly one result; otherwise the script exits with 1.
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

    print(f"Classifying them with {WORKERS} workers and {EVICTIONS} evictions ...")
    codes = work_under_eviction(random.Random(7))
    print(f"  exit codes: {', '.join(map(str, codes))}")

    print(outlast("results", URL, "--export", "results.jsonl"))
    return judge()


def work_under_eviction(chance: random.Random) -> list[int]:
    """Evict a worker at intervals and start another, then wait until the queue is drained."""
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
            # As in the manifest of a Job, where exit code 0 would count as completion.
            "OUTLAST_EXIT_CODE": "75",
        },
    )


def judge() -> int:
    labels = json.loads((FOLDER / "labels.json").read_text())
    rows = [json.loads(line) for line in (FOLDER / "results.jsonl").read_text().splitlines()]
    if sorted(row["key"] for row in rows) != sorted(labels):
        print(f"error: {len(rows)} results for {len(labels)} images.", file=sys.stderr)
        return 1
    correct = sum(row["result"]["digit"] == labels[row["key"]] for row in rows)
    print(f"Every image has exactly one result; {correct / len(rows):.1%} are correct.")
    return 0


def outlast(*arguments: str) -> str:
    command = [sys.executable, "-m", "outlast", *arguments]
    done = subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
