"""The demo: a training run is evicted once, starts again, and ends with the same bits.

    make demo

Everything happens in the folder `demo-run`: first the undisturbed run, then the one that gets a
SIGTERM in the middle, as from a Spot node that goes away. Exits with 1 if the results differ.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TRAIN = Path(__file__).with_name("train.py")
FOLDER = Path("demo-run")
INTERRUPTED = 75


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("Training a small network, undisturbed ...")
    started = time.monotonic()
    code, lines = run("undisturbed")
    if code != 0:
        return fail("The undisturbed run failed.", lines)
    print(f"  {lines[-1]}, in {time.monotonic() - started:.1f} s")

    print("Training it again, and evicting it in the middle ...")
    code, lines = run("evicted", evict_at="step 1200 ")
    if code != INTERRUPTED:
        return fail(f"The evicted run left with {code} instead of {INTERRUPTED}.", lines)
    print(f"  SIGTERM at step 1200: saved, and left with {code}")

    print("Starting it again, as a Job would ...")
    code, lines = run("evicted")
    if code != 0:
        return fail("The run did not finish after its restart.", lines)
    print(f"  {lines[0]}, {lines[-1]}")

    digests = {name: digest(FOLDER / name / "model.npz") for name in ("undisturbed", "evicted")}
    for name, value in digests.items():
        print(f"  {name:12} {value[:16]}")
    if len(set(digests.values())) > 1:
        return fail("The weights differ.", [])
    print("The weights are the same, bit for bit.")
    return 0


def run(name: str, evict_at: str | None = None) -> tuple[int, list[str]]:
    """Run the training in its folder; send SIGTERM at the line that starts with `evict_at`."""
    lines = []
    process = subprocess.Popen(
        [sys.executable, str(TRAIN), str(FOLDER / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # What a Job's manifest sets: exit 0 would count as completion.
        env={**os.environ, "OUTLAST_EXIT_CODE": str(INTERRUPTED)},
    )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip())
        if evict_at is not None and line.startswith(evict_at):
            process.send_signal(signal.SIGTERM)
    return process.wait(), lines


def digest(model: Path) -> str:
    return hashlib.sha256(model.read_bytes()).hexdigest()


def fail(what: str, lines: list[str]) -> int:
    print(f"error: {what}", file=sys.stderr)
    for line in lines[-10:]:
        print(f"  | {line}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
