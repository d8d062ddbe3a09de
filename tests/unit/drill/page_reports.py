"""Reports of drills that never were, for the tests of the page: every kind of what can happen."""

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.items import ItemDifference
from outlast.drills.judge.evidence import JournaledAttempt, JournaledRun, ProgressPoint
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import failed, not_applicable, passed
from outlast.drills.run.baseline import BaselineFigures
from outlast.drills.run.records import (
    Attempt,
    AttemptEnd,
    Eviction,
    EvictionMoment,
    JobRun,
    JobRunEnd,
    Save,
    SigtermHandling,
)

BEGAN = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
STEP_SECONDS = 0.03
START_UP_SECONDS = 0.6
SAVE_EVERY = 25


def attempt(number: int = 1, **given: Any) -> Attempt:
    started = given.get("started_seconds", 0.0)
    values: dict[str, Any] = {
        "worker": 0,
        "started_seconds": started,
        "sign_seconds": started + START_UP_SECONDS,
        "hears_seconds": started + START_UP_SECONDS,
        "ready_seconds": started + START_UP_SECONDS,
        "ended_seconds": started + 3.0,
        "ended": AttemptEnd.FINISHED,
        "exit_code": 0,
        "cpu_seconds": 1.0,
        "output_lines": 10,
        "output_tail": "the last line",
    }
    return Attempt(number=number, **(values | given))


def eviction(number: int = 1, **given: Any) -> Eviction:
    values: dict[str, Any] = {
        "attempt": number,
        "at_seconds": 2.0,
        "moment": EvictionMoment.ANY,
        "notice": True,
        "overlap": False,
        "hit": False,
        "in_start_up": False,
        "handling": SigtermHandling.CAUGHT,
        "process": "python",
        "left_seconds": 0.2,
        "killed": False,
        "exit_code": 75,
        "work_seconds": 1.4,
    }
    return Eviction(number=number, **(values | given))


def job_run(
    attempts: Sequence[Attempt], evictions: Sequence[Eviction] = (), **given: Any
) -> JobRun:
    seconds = max((one.ended_seconds for one in attempts), default=0.0)
    values: dict[str, Any] = {
        "name": "evicted",
        "began": BEGAN,
        "seconds": seconds,
        "work_seconds": seconds * 0.8,
        "end": JobRunEnd.COMPLETE,
        "saves": (),
    }
    return JobRun(attempts=tuple(attempts), evictions=tuple(evictions), **(values | given))


def figures(seconds: float = 10.0) -> BaselineFigures:
    return BaselineFigures(
        seconds=seconds,
        sign_seconds=START_UP_SECONDS,
        hears_seconds=START_UP_SECONDS,
        cpu_seconds=seconds / 2,
        output_lines=300,
        saves=12,
        attempts=1,
    )


def report(evicted: JobRun | None, **given: Any) -> DrillReport:
    values: dict[str, Any] = {
        "outlast_version": "0.1.0",
        "command": ("python", "train.py"),
        "began": BEGAN,
        "seconds": 30.0,
        "seed": 7,
        "grace_seconds": 3.0,
        "workers": 1,
        "isolation": "PID namespace",
        "checks": (
            passed("finished", "The job was complete."),
            passed("identical", "Same as the baseline: w.npy."),
            not_applicable("no-lost-items", "No file of rows."),
        ),
        "evictions_planned": len(evicted.evictions) if evicted else 3,
        "figures": figures(),
        "baseline": None,
    }
    return DrillReport(evicted=evicted, **(values | given))


def training_report(
    evictions: int = 6, *, steps: int = 300, seed: int = 3, **given: Any
) -> DrillReport:
    """A training with a journal: kills lose steps, notices do not; every kind of eviction."""
    rng = random.Random(seed)
    attempts: list[Attempt] = []
    struck: list[Eviction] = []
    saves: list[Save] = []
    lives: list[JournaledAttempt] = []
    points: list[ProgressPoint] = []
    now, first = 0.0, 0
    for number in range(1, evictions + 2):
        is_last = number == evictions + 1
        target = steps if is_last else round(steps * number / (evictions + 1) + rng.random() * 9)
        last = max(first, min(target, steps))
        ready = now + START_UP_SECONDS
        told = ready + (last - first) * STEP_SECONDS
        notice = is_last or number % 3 != 0
        moment = (
            EvictionMoment.ANY
            if number % 4
            else (EvictionMoment.LAST_SAVE if notice else EvictionMoment.SAVE)
        )
        killed = not notice or moment is EvictionMoment.LAST_SAVE
        left = 0.02 if killed else 0.15
        kept = last if not killed else first + (last - first) // SAVE_EVERY * SAVE_EVERY
        ended = told if is_last else told + left
        for step in range(first, last + 1):
            at = ready + (step - first) * STEP_SECONDS
            points.append(ProgressPoint(seconds=at, step=step, attempt=number))
            if step % SAVE_EVERY == 0 and step > first:
                saves.append(Save(at_seconds=at, path=f"run/packs/{step}.pack"))
        if not is_last:
            struck.append(
                eviction(
                    number,
                    at_seconds=told,
                    notice=notice,
                    moment=moment,
                    hit=moment is not EvictionMoment.ANY,
                    overlap=number % 5 == 0,
                    left_seconds=left,
                    killed=killed,
                    exit_code=137 if killed else 75,
                    work_seconds=told - ready,
                )
            )
        attempts.append(
            attempt(
                number,
                started_seconds=now,
                ended_seconds=ended,
                ended=AttemptEnd.FINISHED if is_last else AttemptEnd.EVICTED,
                exit_code=0 if is_last else struck[-1].exit_code,
                eviction=None if is_last else number,
            )
        )
        lives.append(
            JournaledAttempt(
                run_attempt=number,
                attempt=number,
                first_step=first,
                last_step=last,
                saved_step=kept,
                steps_lost=last - kept,
            )
        )
        now, first = ended + (-0.05 if number % 5 == 0 else 0.1), kept
    calm = 0.6 + steps * STEP_SECONDS
    values: dict[str, Any] = {
        "figures": figures(calm),
        "baseline": job_run([attempt(1, ended_seconds=calm)], name="baseline"),
        "runs": (_run(lives, points, steps),),
        "baseline_runs": (_calm_run(steps),),
        "comparisons": (Comparison(name="w.npy"),),
    }
    return report(job_run(attempts, struck, saves=tuple(saves)), **(values | given))


def _run(
    lives: Sequence[JournaledAttempt], points: Sequence[ProgressPoint], steps: int
) -> JournaledRun:
    thin = points if len(points) <= 2000 else points[:: len(points) // 2000 + 1]
    return JournaledRun(
        folder="run",
        finished=True,
        steps_done=steps,
        attempts=tuple(lives),
        saves=12,
        save_seconds=0.015,
        resume_seconds=0.02,
        progress=tuple(thin),
        metrics=tuple(_loss(one) for one in thin),
    )


def _calm_run(steps: int) -> JournaledRun:
    points = [
        ProgressPoint(seconds=START_UP_SECONDS + step * STEP_SECONDS, step=step, attempt=1)
        for step in range(steps + 1)
    ]
    life = JournaledAttempt(
        run_attempt=1, attempt=1, first_step=0, last_step=steps, saved_step=steps, steps_lost=0
    )
    return _run([life], points, steps)


def _loss(point: ProgressPoint) -> ProgressPoint:
    wave = math.sin(point.step * 12.9898) * 0.2
    value = 2.3 * math.exp(-point.step / 120) + 0.3 + wave * math.exp(-point.step / 200)
    return ProgressPoint(
        seconds=point.seconds, step=point.step, attempt=point.attempt, name="loss", value=value
    )


def queue_report(
    workers: int = 3, evictions: int = 9, *, lost: int = 0, doubled: int = 0
) -> DrillReport:
    """Workers that share a queue: no journal, files of rows."""
    rng = random.Random(5)
    attempts: list[Attempt] = []
    struck: list[Eviction] = []
    now = [0.0] * workers
    for number in range(1, evictions + workers + 1):
        is_last = number > evictions
        worker = number % workers
        started = now[worker]
        ended = started + START_UP_SECONDS + 1 + rng.random() * 4
        notice = number % 3 != 0
        if not is_last:
            struck.append(
                eviction(
                    number,
                    at_seconds=ended - (0.3 if notice else 0.01),
                    notice=notice,
                    killed=not notice,
                    left_seconds=0.3 if notice else 0.01,
                    exit_code=75 if notice else 137,
                )
            )
        attempts.append(
            attempt(
                number,
                worker=worker,
                started_seconds=started,
                ended_seconds=ended,
                ended=AttemptEnd.FINISHED if is_last else AttemptEnd.EVICTED,
                exit_code=0 if is_last else struck[-1].exit_code,
                eviction=None if is_last else number,
            )
        )
        now[worker] = ended + 0.1
    saves = tuple(Save(at_seconds=at / 3, path="results.db") for at in range(1, 30))
    items = ItemDifference(
        key=("item",), items=2000, lost=lost, doubled=doubled, lost_examples=("'item-3'",)
    )
    checks = (
        passed("finished", "The job was complete with attempt 12."),
        (failed if lost else passed)("no-lost-items", f"{lost} of 2000 items are missing."),
        (failed if doubled else passed)("no-duplicates", f"{doubled} items came twice."),
    )
    difference = f"{lost} of 2000 items are missing, {doubled} are there twice"
    compared = Comparison(
        name="results.db",
        how="by rows",
        difference=difference if lost or doubled else None,
        items=(items,),
    )
    return report(
        job_run(attempts, struck, saves=saves),
        workers=workers,
        checks=checks,
        comparisons=(compared,),
        command=("python", "worker.py"),
    )


def plain_report(evictions: int = 4) -> DrillReport:
    """A command without a journal that ignores SIGTERM and restarts from zero."""
    attempts: list[Attempt] = []
    struck: list[Eviction] = []
    now = 0.0
    for number in range(1, evictions + 2):
        is_last = number == evictions + 1
        ended = now + (10.6 if is_last else 2.0 + number)
        told = ended - 1.0
        if not is_last:
            struck.append(
                eviction(
                    number,
                    at_seconds=told,
                    handling=SigtermHandling.IGNORED,
                    killed=True,
                    exit_code=137,
                    left_seconds=1.0,
                    work_seconds=told - now - START_UP_SECONDS,
                )
            )
        attempts.append(
            attempt(
                number,
                started_seconds=now,
                ended_seconds=ended,
                ended=AttemptEnd.FINISHED if is_last else AttemptEnd.EVICTED,
                exit_code=0 if is_last else 137,
                eviction=None if is_last else number,
            )
        )
        now = ended + 0.1
    checks = (
        passed("finished", "The job was complete with attempt 5."),
        failed(
            "left-in-time",
            "In 4 of 4 evictions it was still running after the grace period of 1 s and was killed."
            " It ignores SIGTERM. Handle it: save and exit (`outlast.Run`, `outlast.Guard`).",
        ),
        failed(
            "resumed",
            "The last attempt worked for 10 s. The baseline worked for 10 s, and earlier attempts"
            " for 13 s. It wrote nothing until it finished: save progress, and resume from it.",
        ),
        passed("identical", "Same as the baseline: out.json."),
    )
    saves = tuple(
        Save(at_seconds=one.started_seconds + at, path="out.json")
        for one in attempts
        for at in (1.2, 2.2)
    )
    return report(
        job_run(attempts, struck, saves=saves),
        checks=checks,
        grace_seconds=1.0,
        comparisons=(Comparison(name="out.json"),),
        figures=figures(10.6),
    )


def crashed_report() -> DrillReport:
    """A command that fails at once, without any eviction."""
    tail = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'model'"
    attempts = [
        attempt(
            number,
            started_seconds=number * 0.5,
            ended_seconds=number * 0.5 + 0.3,
            ready_seconds=None,
            ended=AttemptEnd.FAILED,
            exit_code=1,
            output_tail=tail,
        )
        for number in range(1, 8)
    ]
    baseline = job_run(attempts, name="baseline", end=JobRunEnd.CRASH_LOOP)
    said = "The baseline run failed 7 times, the last time with exit code 1."
    checks = (failed("finished", said),)
    return report(None, baseline=baseline, figures=None, checks=checks)
