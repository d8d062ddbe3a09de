"""What runs have shown becomes the workload file's own figures; nothing unseen is claimed."""

import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outlast._base.interval import SaveCost
from outlast.capacity.planning.learn import (
    LearnedValues,
    RunMeasurements,
    changed_text,
    learn,
    workload_diff,
)
from outlast.capacity.workload.file import Workload
from tests.patience import PATIENCE_SECONDS

HOUR = 3600.0
FILE = """\
# The night's work.
name: tiny-gpt
kind: training
image: registry.example/trainer:1
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 38}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12GiB}  # guessed
"""
SEEN = RunMeasurements(
    running_seconds=40 * HOUR,
    announced=5,
    missed=1,
    unannounced=2,
    costs=[SaveCost(stall_seconds=1.5, durable_seconds=30.0, slow_seconds=0.5)] * 9,
    size_bytes=7 * 2**30 + 1,
    restarts_seconds=[100.0, 80.0, 400.0],
    waits_seconds=[60.0, 600.0],
    graces_seconds=[25.0, 14.6, 25.0],
)


def test_figures_are_those_that_were_seen() -> None:
    learned = learn(SEEN)

    assert learned.measured == {
        "save": "30s",
        "stall": "2s",
        "restart": "1m40s",
        "between_interruptions": "5h",
        "unannounced": "0.25",
        "grace": "14s600ms",
        "waiting": "5m30s",
    }
    assert learned.size_bytes == 7 * 2**30 + 1


def test_the_suggested_interval_is_the_runtimes_for_these_figures() -> None:
    learned = learn(SEEN)

    # 3 losses and half a one assumed, in 43 hours: one in 12.3 hours.
    assert learned.interval.seconds == pytest.approx((2 * 2 * 43 / 3.5 * HOUR) ** 0.5, rel=0.02)


def test_dear_saves_get_a_higher_ceiling() -> None:
    cost = SaveCost(stall_seconds=300, durable_seconds=300)
    seen = RunMeasurements(
        running_seconds=400 * HOUR, announced=0, missed=0, unannounced=4, costs=[cost]
    )

    assert learn(seen).interval.seconds == pytest.approx(13_700, rel=0.05)


def test_several_nodes_share_the_losses() -> None:
    seen = RunMeasurements(running_seconds=10 * HOUR, announced=0, missed=0, unannounced=5, nodes=4)

    assert learn(seen).between_interruptions == timedelta(hours=8)


def test_what_was_not_seen_is_not_claimed() -> None:
    learned = learn(RunMeasurements(running_seconds=HOUR, announced=0, missed=0, unannounced=0))

    assert learned.measured == {}
    assert learned.interval.seconds == 10
    assert learned.size is None
    assert changed_text(FILE, learned, name="w") == FILE
    assert workload_diff(FILE, FILE, name="w") == ""


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e308, 4e8])
def test_what_a_workload_file_cannot_hold_is_not_claimed(seconds: float) -> None:
    seen = replace(SEEN, restarts_seconds=[seconds])

    learned = learn(seen)

    assert learned.restart is None


def changed(text: str, learned: LearnedValues | None = None) -> str:
    result = changed_text(text, learned or learn(SEEN), name="workload.yaml")
    assert result is not None
    return result


def test_the_file_gets_the_figures_and_keeps_its_comments() -> None:
    text = changed(FILE)

    assert text.startswith("# The night's work.\n")
    assert "size: 7169MiB}  # guessed\nmeasured:\n  save: 30s\n" in text
    workload = Workload.parse(text, name="w")
    assert workload.measured.between_interruptions == timedelta(hours=5)
    assert workload.checkpoint and workload.checkpoint.size == 7169 * 2**20


def test_figures_that_are_there_are_replaced_where_they_stand() -> None:
    text = changed(f"{FILE}measured:\n  save: 1h\n  # a note\n  grace: 30s\nretries: 5\n")

    workload = Workload.parse(text, name="w")
    assert workload.measured.save == timedelta(seconds=30)
    assert workload.retries == 5
    assert text.count("measured:") == 1
    assert "  # a note\n" in text
    assert changed(text) == text


def test_what_nobody_measured_anew_stays() -> None:
    learned = learn(RunMeasurements(running_seconds=HOUR, announced=1, missed=0, unannounced=0))

    text = changed(f"{FILE}measured:\n  save: 1h\n", learned)

    workload = Workload.parse(text, name="w")
    assert workload.measured.save == timedelta(hours=1)
    assert workload.measured.unannounced == 0


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        FILE.rstrip("\n"),
        FILE.replace("\n", "\r\n"),
        f"{FILE}measured: {{save: 1h}}",
    ],
    ids=["plain", "no newline at the end", "CRLF", "one more line"],
)
def test_the_diff_can_be_applied_by_patch(text: str, tmp_path: Path) -> None:
    file = tmp_path / "the workload.yaml"
    file.write_bytes(text.encode())

    diff = workload_diff(text, changed(text), name=file.name)

    assert diff.startswith("--- the workload.yaml\tcurrent\n+++ the workload.yaml\tmeasured\n")
    subprocess.run(
        ["patch", "-p0", "--binary"],
        input=diff.encode(),
        cwd=tmp_path,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert file.read_bytes().decode() == changed(text)
