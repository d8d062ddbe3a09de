"""Reports of drills that never were, for the tests of the page: every kind of what can happen."""

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from outlast.drill.artifacts import Comparison
from outlast.drill.baseline import Figures
from outlast.drill.evidence import Point, RunAttempt, RunEvidence
from outlast.drill.items import ItemDifference
from outlast.drill.records import (
    Attempt,
    Ended,
    Eviction,
    Handling,
    Leg,
    LegEnd,
    Moment,
    Save,
)
from outlast.drill.report import Report
from outlast.drill.verdicts import NotJudged, Verdict

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
        "ended": Ended.FINISHED,
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
        "moment": Moment.ANY,
        "notice": True,
        "overlap": False,
        "hit": False,
        "in_start_up": False,
        "handling": Handling.CAUGHT,
        "process": "python",
        "left_seconds": 0.2,
        "killed": False,
        "exit_code": 75,
        "work_seconds": 1.4,
    }
    return Eviction(number=number, **(values | given))


def leg(attempts: Sequence[Attempt], evictions: Sequence[Eviction] = (), **given: Any) -> Leg:
    seconds = max((one.ended_seconds for one in attempts), default=0.0)
    values: dict[str, Any] = {
        "name": "disturbed",
        "began": BEGAN,
        "seconds": seconds,
        "work_seconds": seconds * 0.8,
        "end": LegEnd.COMPLETE,
        "saves": (),
    }
    return Leg(attempts=tuple(attempts), evictions=tuple(evictions), **(values | given))


def figures(seconds: float = 10.0) -> Figures:
    return Figures(
        seconds=seconds,
        sign_seconds=START_UP_SECONDS,
        hears_seconds=START_UP_SECONDS,
        cpu_seconds=seconds / 2,
        output_lines=300,
        saves=12,
        attempts=1,
    )


def report(disturbed: Leg | None, **given: Any) -> Report:
    values: dict[str, Any] = {
        "outlast_version": "0.1.0",
        "command": ("python", "train.py"),
        "began": BEGAN,
        "seconds": 30.0,
        "seed": 7,
        "grace_seconds": 3.0,
        "workers": 1,
        "isolation": "PID namespace",
        "verdicts": (
            Verdict(code="not-finished", ok=True, reason="The job was complete."),
            Verdict(code="not-identical", ok=True, reason="The same as undisturbed: w.npy."),
        ),
        "not_judged": (NotJudged(code="lost-items", reason="No file of rows."),),
        "evictions_planned": len(disturbed.evictions) if disturbed else 3,
        "figures": figures(),
        "baseline": None,
    }
    return Report(disturbed=disturbed, **(values | given))


def training_report(evictions: int = 6, *, steps: int = 300, seed: int = 3, **given: Any) -> Report:
    """A training with a journal: kills lose steps, notices do not; every kind of eviction."""
    rng = random.Random(seed)
    attempts: list[Attempt] = []
    struck: list[Eviction] = []
    saves: list[Save] = []
    lives: list[RunAttempt] = []
    points: list[Point] = []
    now, first = 0.0, 0
    for number in range(1, evictions + 2):
        is_last = number == evictions + 1
        target = steps if is_last else round(steps * number / (evictions + 1) + rng.random() * 9)
        last = max(first, min(target, steps))
        ready = now + START_UP_SECONDS
        told = ready + (last - first) * STEP_SECONDS
        notice = is_last or number % 3 != 0
        moment = Moment.ANY if number % 4 else (Moment.LAST_SAVE if notice else Moment.SAVE)
        killed = not notice or moment is Moment.LAST_SAVE
        left = 0.02 if killed else 0.15
        kept = last if not killed else first + (last - first) // SAVE_EVERY * SAVE_EVERY
        ended = told if is_last else told + left
        for step in range(first, last + 1):
            at = ready + (step - first) * STEP_SECONDS
            points.append(Point(seconds=at, step=step, attempt=number))
            if step % SAVE_EVERY == 0 and step > first:
                saves.append(Save(at_seconds=at, path=f"run/packs/{step}.pack"))
        if not is_last:
            struck.append(
                eviction(
                    number,
                    at_seconds=told,
                    notice=notice,
                    moment=moment,
                    hit=moment is not Moment.ANY,
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
                ended=Ended.FINISHED if is_last else Ended.EVICTED,
                exit_code=0 if is_last else struck[-1].exit_code,
                eviction=None if is_last else number,
            )
        )
        lives.append(
            RunAttempt(
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
        "baseline": leg([attempt(1, ended_seconds=calm)], name="baseline"),
        "runs": (_run(lives, points, steps),),
        "baseline_runs": (_calm_run(steps),),
        "comparisons": (Comparison(name="w.npy"),),
    }
    return report(leg(attempts, struck, saves=tuple(saves)), **(values | given))


def _run(lives: Sequence[RunAttempt], points: Sequence[Point], steps: int) -> RunEvidence:
    thin = points if len(points) <= 2000 else points[:: len(points) // 2000 + 1]
    return RunEvidence(
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


def _calm_run(steps: int) -> RunEvidence:
    points = [
        Point(seconds=START_UP_SECONDS + step * STEP_SECONDS, step=step, attempt=1)
        for step in range(steps + 1)
    ]
    life = RunAttempt(
        run_attempt=1, attempt=1, first_step=0, last_step=steps, saved_step=steps, steps_lost=0
    )
    return _run([life], points, steps)


def _loss(point: Point) -> Point:
    wave = math.sin(point.step * 12.9898) * 0.2
    value = 2.3 * math.exp(-point.step / 120) + 0.3 + wave * math.exp(-point.step / 200)
    return Point(
        seconds=point.seconds, step=point.step, attempt=point.attempt, name="loss", value=value
    )


def queue_report(
    workers: int = 3, evictions: int = 9, *, lost: int = 0, doubled: int = 0
) -> Report:
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
                ended=Ended.FINISHED if is_last else Ended.EVICTED,
                exit_code=0 if is_last else struck[-1].exit_code,
                eviction=None if is_last else number,
            )
        )
        now[worker] = ended + 0.1
    saves = tuple(Save(at_seconds=at / 3, path="results.db") for at in range(1, 30))
    items = ItemDifference(
        key=("item",), items=2000, lost=lost, doubled=doubled, lost_examples=("'item-3'",)
    )
    verdicts = (
        Verdict(code="not-finished", ok=True, reason="The job was complete with attempt 12."),
        Verdict(code="lost-items", ok=not lost, reason=f"{lost} of 2000 items are missing."),
        Verdict(code="doubled-items", ok=not doubled, reason=f"{doubled} items came twice."),
    )
    difference = f"{lost} of 2000 items are missing, {doubled} are there twice"
    compared = Comparison(
        name="results.db",
        how="by rows",
        difference=difference if lost or doubled else None,
        items=(items,),
    )
    return report(
        leg(attempts, struck, saves=saves),
        workers=workers,
        verdicts=verdicts,
        comparisons=(compared,),
        command=("python", "worker.py"),
    )


def plain_report(evictions: int = 4) -> Report:
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
                    handling=Handling.IGNORED,
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
                ended=Ended.FINISHED if is_last else Ended.EVICTED,
                exit_code=0 if is_last else 137,
                eviction=None if is_last else number,
            )
        )
        now = ended + 0.1
    verdicts = (
        Verdict(code="not-finished", ok=True, reason="The job was complete with attempt 5."),
        Verdict(
            code="killed",
            ok=False,
            reason="4 of 4 times it was still there after the grace period of 1 s and was killed."
            " It ignores SIGTERM. Handle it: save and leave (`outlast.Run`, `outlast.Guard`).",
        ),
        Verdict(
            code="started-over",
            ok=False,
            reason="The last attempt worked 10 s; an undisturbed one works 10 s, and earlier ones"
            " had worked 13 s. It wrote nothing before its end: save, and resume from it.",
        ),
        Verdict(code="not-identical", ok=True, reason="The same as undisturbed: out.json."),
    )
    saves = tuple(
        Save(at_seconds=one.started_seconds + at, path="out.json")
        for one in attempts
        for at in (1.2, 2.2)
    )
    return report(
        leg(attempts, struck, saves=saves),
        verdicts=verdicts,
        grace_seconds=1.0,
        comparisons=(Comparison(name="out.json"),),
        figures=figures(10.6),
    )


def crashed_report() -> Report:
    """A command that fails at once, even undisturbed."""
    tail = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'model'"
    attempts = [
        attempt(
            number,
            started_seconds=number * 0.5,
            ended_seconds=number * 0.5 + 0.3,
            ready_seconds=None,
            ended=Ended.FAILED,
            exit_code=1,
            output_tail=tail,
        )
        for number in range(1, 8)
    ]
    baseline = leg(attempts, name="baseline", end=LegEnd.CRASH_LOOP)
    said = "Even undisturbed, it failed 7 times, the last time with exit code 1."
    verdicts = (Verdict(code="not-finished", ok=False, reason=said),)
    return report(None, baseline=baseline, figures=None, verdicts=verdicts, not_judged=())
