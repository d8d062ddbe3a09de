"""The example of a batch job: images, a real model, workers that are evicted on the way."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples/classify/run.py"


def test_every_image_is_classified_once_although_workers_are_evicted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Published 1,197 items; 0 were already known." in done.stdout
    assert "Wrote 1,197 results to results.jsonl." in done.stdout
    assert "Every image has exactly one result; 9" in done.stdout, done.stdout
    [codes] = [line for line in done.stdout.splitlines() if "exit codes:" in line]
    # Before the guard is open, a SIGTERM ends a process as it would any other.
    assert "75" in codes or "-15" in codes
    assert "-9" in codes and codes.endswith("0, 0, 0")
    results = (tmp_path / "classify-run/results.jsonl").read_text().splitlines()
    assert json.loads(results[0])["key"] == "0600.pgm"
