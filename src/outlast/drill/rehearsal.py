"""Hold a drill: the undisturbed leg, the disturbed one, and the judgement over both.

Whichever way it is left, by Ctrl-C too, no process and no temporary file stays behind. If killed:
the nodes vanish where the system ties them to us, and a folder of temporary files stays.
"""

import os
import random
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from outlast import __version__
from outlast.drill import baseline as baselines
from outlast.drill import schedule as schedules
from outlast.drill.baseline import Baseline
from outlast.drill.controller import BACKOFF_LIMIT
from outlast.drill.divergence import compare_hashes, read_hashes, read_steps
from outlast.drill.events import Listener, ignore
from outlast.drill.evidence import RunEvidence, read_evidence
from outlast.drill.isolation import best_isolation
from outlast.drill.legs import Legs
from outlast.drill.outputs import redacted
from outlast.drill.plan import EVICTIONS, Plan
from outlast.drill.records import NEVER_HEARD, Leg, LegEnd
from outlast.drill.report import Report
from outlast.drill.schedule import Loss, Schedule
from outlast.drill.trace import read_losses
from outlast.drill.verdicts import Facts, NotJudged, Verdict, judge, times
from outlast.drill.workplace import Workplace, drill_folder

_TRIES_MAX = 3
_SHORTER = 0.85
_MISSING_FILE = re.compile(r"no such file|not found|can't open|no module named", re.IGNORECASE)


def drill(
    command: Sequence[str],
    *,
    evictions: int | None = None,
    every: timedelta | None = None,
    trace: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    grace: timedelta | None = None,
    no_notice: float = 0.3,
    hostile: float = 0.5,
    duplicates: float = 0.0,
    workers: int = 1,
    expect: Sequence[str] = (),
    key: str | None = None,
    tolerance: float = 0.0,
    finished_when: str | None = None,
    baseline: bool = True,
    recording: str | os.PathLike[str] | None = None,
    workdir: str | os.PathLike[str] | None = None,
    reset: str | None = None,
    replace_after: timedelta = timedelta(seconds=0.1),
    job_backoff: bool = False,
    backoff_limit: int = BACKOFF_LIMIT,
    timeout: timedelta = timedelta(hours=1),
    keep: str | os.PathLike[str] | None = None,
    listener: Listener = ignore,
) -> Report:
    """Evict a command as a Spot cluster would, restart it as a Job does, and judge what survived.

    `evictions` counts them (3 by default), `every` sets their mean distance, `trace` replays a
    public one. `no_notice`, `hostile` and `duplicates` are shares of them. `expect` names files to
    compare with an undisturbed run, which comes first unless `baseline` is false; `key` is the
    column by which rows are known. `listener` is told of everything as it happens.

    Raises `DrillError` or `SettingError` if the drill cannot be held. If killed: temporary files
    stay, and so may nodes where the system cannot tie them to us.
    """
    plan = Plan(
        command=tuple(command),
        evictions=evictions,
        every=every,
        trace=_path(trace),
        seed=random.SystemRandom().randrange(100_000) if seed is None else seed,
        grace=grace,
        no_notice=no_notice,
        hostile=hostile,
        duplicates=duplicates,
        workers=workers,
        expect=tuple(expect),
        key=key,
        tolerance=tolerance,
        finished_when=finished_when,
        baseline=baseline,
        recording=_path(recording),
        workdir=_path(workdir),
        reset=reset,
        replace_after=replace_after,
        job_backoff=job_backoff,
        backoff_limit=backoff_limit,
        timeout=timeout,
        keep=_path(keep),
    )
    return hold(plan, listener=listener)


def hold(plan: Plan, *, listener: Listener = ignore) -> Report:
    """Hold the drill that a plan describes."""
    losses = None if plan.trace is None else read_losses(plan.trace, workers=plan.workers)
    with drill_folder(plan.keep) as root:
        return _Rehearsal(plan, root, losses, listener).hold()


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


class _Rehearsal:
    def __init__(
        self, plan: Plan, root: Path, losses: Sequence[Loss] | None, listener: Listener
    ) -> None:
        self._plan = plan
        self._losses = losses
        self._isolation = best_isolation()
        self._began = datetime.now(UTC)
        self._started = time.monotonic()
        deadline = self._started + plan.timeout.total_seconds()
        self._legs = Legs(
            plan, root, isolation=self._isolation, deadline=deadline, listener=listener
        )
        self._baseline_runs: tuple[RunEvidence, ...] = ()
        self._remarks: list[str] = []

    def hold(self) -> Report:
        if not self._plan.baseline:
            return self._disturb(None)
        baseline = self._recorded()
        if baseline is not None:
            return self._disturb(baseline)
        place = self._legs.prepare("baseline")
        leg = self._legs.run(place, schedules.CALM, None)
        if leg.end is not LegEnd.COMPLETE:
            return self._failed_undisturbed(leg)
        return self._disturb(self._learned(place, leg))

    def _recorded(self) -> Baseline | None:
        plan = self._plan
        if plan.recording is None:
            return None
        found = baselines.recorded(plan.recording, plan.command, self._legs.paths, plan.workers)
        if found is not None:
            self._remarks.append(f"The baseline was recorded earlier in {str(plan.recording)!r}.")
        return found

    def _learned(self, place: Workplace, leg: Leg) -> Baseline:
        plan = self._plan
        self._legs.check_calm(place)
        self._baseline_runs = read_evidence(place.folder, leg)
        baseline = baselines.from_leg(leg, place)
        if baseline.figures.attempts > plan.workers:
            self._remarks.append("Even undisturbed, it failed at first and was started again.")
        if plan.recording is not None:
            paths = self._legs.paths
            baselines.record(plan.recording, plan.command, paths, plan.workers, baseline)
        return baseline

    def _failed_undisturbed(self, leg: Leg) -> Report:
        if leg.end is LegEnd.TIMED_OUT:
            said = f"Even undisturbed, it was not done after {leg.seconds:.1f} s. Give it more"
            said += " --timeout, or less to do."
        else:
            last = leg.attempts[-1]
            said = (
                f"Even undisturbed, it failed {times(len(leg.attempts))}, the last time with exit"
            )
            said += f" code {last.exit_code}."
            if self._plan.workdir is None and _MISSING_FILE.search(last.output_tail):
                said += " It ran in an empty folder: --workdir . gives it a copy of this one."
        verdict = Verdict(code="not-finished", ok=False, reason=said)
        return self._report((verdict,), (), baseline=leg)

    def _disturb(self, baseline: Baseline | None) -> Report:
        length = None if baseline is None else baseline.figures.work_seconds
        for number in range(1, _TRIES_MAX + 1):
            place = self._legs.prepare("disturbed" if number == 1 else f"disturbed-{number}")
            schedule = self._schedule(length)
            leg = self._legs.run(place, schedule, baseline)
            if length is None or not _is_worth_another(leg, schedule):
                break
            # The baseline may have been slow, on a cold disk; then the plan was for a longer job.
            length = min(leg.work_seconds, _SHORTER * length)
            self._remarks.append(
                f"In leg {number} only {leg.landed} of {schedule.needed} evictions landed,"
                " because the job was done before."
            )
        return self._judge(place, leg, schedule, baseline)

    def _schedule(self, length: float | None) -> Schedule:
        plan = self._plan
        if self._losses is not None:
            return schedules.from_losses(self._losses, length, plan.evictions, plan.mix, plan.seed)
        if plan.every is not None:
            mean_seconds = plan.every.total_seconds()
            return schedules.every(mean_seconds, plan.evictions, plan.mix, plan.seed)
        count = EVICTIONS if plan.evictions is None else plan.evictions
        if length is None:
            return schedules.blind(count, plan.mix, plan.seed)
        return schedules.within(length, count, plan.mix, plan.seed)

    def _judge(
        self, place: Workplace, leg: Leg, schedule: Schedule, baseline: Baseline | None
    ) -> Report:
        complete = leg.end is LegEnd.COMPLETE
        missing = tuple(self._legs.missing(place)) if complete else ()
        # Of a job that never came to its end, there is nothing to compare.
        comparable = baseline if complete and not missing else None
        written = {int(path.stem.rpartition("-")[2]): path for path in place.hashes.iterdir()}
        hashes = {number: read_hashes(path) for number, path in sorted(written.items())}
        steps_seen = {number: read_steps(path) for number, path in written.items()}
        facts = Facts(
            leg=leg,
            workers=self._plan.workers,
            grace_seconds=self._plan.grace_seconds(),
            needed=schedule.needed,
            figures=None if baseline is None else baseline.figures,
            finished_when=self._legs.finished_when(place) if complete else None,
            comparisons=self._legs.compare(place, comparable) if comparable is not None else (),
            missing=missing,
            runs=read_evidence(place.folder, leg, steps_seen=steps_seen),
            hashes=None if baseline is None else compare_hashes(baseline.hashes, hashes),
        )
        verdicts, not_judged = judge(facts)
        return self._report(
            verdicts,
            not_judged,
            baseline=None if baseline is None else baseline.leg,
            facts=facts,
        )

    def _report(
        self,
        verdicts: tuple[Verdict, ...],
        not_judged: tuple[NotJudged, ...],
        *,
        baseline: Leg | None,
        facts: Facts | None = None,
    ) -> Report:
        plan = self._plan
        planned: int | None = EVICTIONS if plan.evictions is None else plan.evictions
        if facts is not None:
            planned = facts.needed
        if plan.every is not None and plan.evictions is None:
            planned = None
        return Report(
            outlast_version=__version__,
            command=tuple(map(redacted, plan.command)),
            began=self._began,
            seconds=time.monotonic() - self._started,
            seed=plan.seed,
            grace_seconds=plan.grace_seconds(),
            workers=plan.workers,
            isolation=self._isolation.name,
            verdicts=verdicts,
            not_judged=not_judged,
            evictions_planned=planned,
            figures=None if facts is None else facts.figures,
            baseline=baseline,
            disturbed=None if facts is None else facts.leg,
            comparisons=() if facts is None else facts.comparisons,
            baseline_runs=self._baseline_runs,
            runs=() if facts is None else facts.runs,
            divergence=None if facts is None or facts.hashes is None else facts.hashes.divergence,
            remarks=tuple(self._remarks),
        )


def _is_worth_another(leg: Leg, schedule: Schedule) -> bool:
    """Whether evictions placed earlier would land: not if the program itself kept them off."""
    if leg.landed >= schedule.needed or leg.end is not LegEnd.COMPLETE:
        return False
    return not any(
        one.unfinished_zero
        or (one.had_full_grace and not one.in_start_up and one.handling in NEVER_HEARD)
        for one in leg.evictions
    )
