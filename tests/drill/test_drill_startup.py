"""When the startup of an attempt is over: what it prints does not prove that its run is open."""

import os
import time
from pathlib import Path

from outlast.drills.run import events
from outlast.drills.run.controller import JobRules
from outlast.drills.run.evictor import JobTiming
from outlast.drills.run.folders import JobFolder
from outlast.drills.run.job import JobSetup, run_job
from outlast.drills.run.node import best_isolation
from outlast.drills.run.schedule import NO_EVICTIONS
from tests.patience import PATIENCE_SECONDS

TIMING = JobTiming(grace_seconds=1.0, patience_seconds=1.0, unheard_seconds=1.0)
PRINTS_EARLY = ["sh", "-c", "echo warning; until [ -e open ]; do sleep 0.01; done; exit 0"]


def test_an_attempt_that_prints_is_starting_until_its_run_is_open(tmp_path: Path) -> None:
    folder, questions, ready_after = tmp_path / "run", [0], []
    folder.mkdir()

    def is_open(number: int) -> bool:
        questions[0] += 1
        return questions[0] > 3

    def listen(event: events.DrillEvent) -> None:
        if isinstance(event, events.AttemptReady):
            ready_after.append(questions[0])
            (folder / "open").touch()

    setup = JobSetup(
        name="evicted",
        command=tuple(PRINTS_EARLY),
        folder=folder,
        logs=tmp_path,
        environs=lambda _: [os.environ],
        workers=1,
        isolation=best_isolation(),
        timing=TIMING,
        is_done=lambda *_: None,
        on_activity=lambda *_: None,
        is_open=is_open,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    run_job(setup, NO_EVICTIONS, JobRules(), deadline=deadline, listener=listen)

    assert ready_after == [4]


def test_the_open_runs_of_an_attempt_are_counted_by_rank(tmp_path: Path) -> None:
    job = JobFolder(tmp_path, "evicted", None)
    for name in ("attempt-0002.jsonl", "attempt-0002.jsonl.1", "attempt-0003.jsonl"):
        (job.hashes / name).touch()

    assert [job.open_runs(number) for number in (1, 2, 3)] == [0, 2, 1]
