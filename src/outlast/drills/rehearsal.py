"""Run a drill: the baseline run, the run with evictions, and the checks over both.

However it ends, Ctrl-C included, no process and no temporary file is left behind. If killed: the
nodes end too where the system ties them to the drill, and a folder of temporary files remains.
"""

import dataclasses
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from outlast._base.version import __version__
from outlast._redact import redact_words, remember
from outlast.drills.compare.divergence import compare_hashes, read_hashes, read_steps
from outlast.drills.judge.checks import control_needed, judge, times
from outlast.drills.judge.crashes import quoted_error
from outlast.drills.judge.evidence import JournaledRun, read_evidence
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.results import differs, result_differs
from outlast.drills.judge.resuming import control_seconds
from outlast.drills.judge.verdict import Check, Observations, failed
from outlast.drills.redaction import redacted
from outlast.drills.run import baseline as baselines
from outlast.drills.run import schedule as schedules
from outlast.drills.run.baseline import Baseline
from outlast.drills.run.events import Listener, ignore
from outlast.drills.run.folders import JobFolder, drill_folder
from outlast.drills.run.node import best_isolation
from outlast.drills.run.options import EVICTIONS, DrillKeywords, DrillOptions
from outlast.drills.run.records import AttemptEnd, JobRun, JobRunEnd
from outlast.drills.run.schedule import NodeLoss, Schedule, over_nodes, read_losses
from outlast.drills.runner import JobRunner

_TRIES_MAX = 3
_SHORTER = 0.85
_CONTROL_ENDS = frozenset({AttemptEnd.FINISHED, AttemptEnd.STOPPED})
_MISSING_FILE = re.compile(r"no such file|not found|can't open|no module named", re.IGNORECASE)


def drill(
    command: Sequence[str], *, listener: Listener = ignore, **options: Unpack[DrillKeywords]
) -> DrillReport:
    """Evict a command as a Spot cluster would, restart it as a Job does, and report what survived.

    Options, all of them optional:

    - `evictions` is their number (3 by default), `every` their mean interval; `trace` replays a
      public trace of Spot capacity, and `seed` repeats an earlier schedule. `no_notice`, `hostile`
      and `overlap` are shares of the evictions: killed at once, at a bad moment, and with the old
      node still running alongside its replacement. `grace` is the time from SIGTERM to SIGKILL.
    - `expect` names files to compare with a baseline run without evictions, which comes first
      unless `skip_baseline` is true; `recording` is a folder that keeps it for the next drill.
      `key` is the column that identifies a row, `tolerance` how far numbers may differ, and
      `finished_when` a shell command that exits with 0 once all work is done.
    - `workdir` is a folder to copy for each run, `reset` a shell command to run before each, and
      `keep` a new folder for all files of the drill. `keep_env` lists variables to pass on although
      they point to a queue or a sink: OUTLAST_QUEUE_URL, OUTLAST_SINK_URL.
    - `workers` nodes run at a time. They restart after `replace_after`, or with `job_backoff` as
      slowly as a Job does, and may fail on their own `backoff_limit` times. `timeout` limits the
      drill.
    - `nodes` and `ranks` run the command as one program with torchrun, on that many nodes with that
      many ranks on each. One node at a time is evicted; then all end and restart together.

    `listener` is called with every event as it happens.

    Raises `DrillError` or `SettingError` if the drill cannot run. If killed: temporary files
    remain, and so may nodes where the system cannot tie them to the drill.
    """
    return run_drill(DrillOptions.of(command, **options), listener=listener)


def run_drill(options: DrillOptions, *, listener: Listener = ignore) -> DrillReport:
    """Run the drill that the options describe."""
    # The output of the command may quote a secret from its command line.
    remember(*options.command, options.finished_when or "", options.reset or "")
    losses = None if options.trace is None else read_losses(options.trace, workers=options.workers)
    with drill_folder(options.keep) as root:
        return _Rehearsal(options, root, losses, listener).run()


class _Rehearsal:
    def __init__(
        self,
        options: DrillOptions,
        root: Path,
        losses: Sequence[NodeLoss] | None,
        listener: Listener,
    ) -> None:
        self._options = options
        self._losses = losses
        self._isolation = best_isolation()
        self._began = datetime.now(UTC)
        self._started = time.monotonic()
        deadline = self._started + options.timeout.total_seconds()
        self._runner = JobRunner(
            options,
            root,
            isolation=self._isolation,
            deadline=deadline,
            listener=lambda event: listener(redacted(event)),
        )
        self._baseline_runs: tuple[JournaledRun, ...] = ()
        self._remarks: list[str] = []
        if dropped := options.dropped_variables():
            self._remarks.append(
                f"The command did not get {' and '.join(dropped)}, to protect the real queue and"
                " sink. Use --keep-env to pass a variable on."
            )

    def run(self) -> DrillReport:
        if self._options.skip_baseline:
            return self._evict(None)
        baseline = self._recorded()
        if baseline is not None:
            return self._evict(baseline)
        job_folder = self._runner.prepare("baseline")
        job_run = self._runner.run(job_folder, schedules.NO_EVICTIONS, None)
        if job_run.end is not JobRunEnd.COMPLETE:
            job_folder.set_aside()
            return self._failed_baseline(job_run)
        baseline = self._learned(job_folder, job_run)
        job_folder.set_aside()
        return self._evict(baseline)

    def _recorded(self) -> Baseline | None:
        options = self._options
        if options.recording is None:
            return None
        found = baselines.recorded(
            options.recording, options.recorded_command, self._runner.paths, options.workers
        )
        if found is not None:
            self._remarks.append(
                f"The baseline was recorded earlier in {str(options.recording)!r}."
            )
        return found

    def _learned(self, job_folder: JobFolder, job_run: JobRun) -> Baseline:
        options = self._options
        self._runner.check_baseline(job_folder)
        self._baseline_runs = read_evidence(job_folder.folder, job_run)
        evidence = self._runner.evidence(job_folder, job_run)
        baseline = baselines.from_job_run(job_run, job_folder, evidence)
        if baseline.figures.attempts > options.workers:
            self._remarks.append("The baseline run failed at first and was restarted.")
        if options.recording is not None:
            command, paths = options.recorded_command, self._runner.paths
            baselines.record(options.recording, command, paths, options.workers, baseline)
        return baseline

    def _failed_baseline(self, job_run: JobRun) -> DrillReport:
        if job_run.end is JobRunEnd.TIMED_OUT:
            said = f"The baseline run was not finished after {job_run.seconds:.1f} s, without any"
            said += " eviction. Use a longer --timeout, or give the job less work."
        else:
            last = job_run.attempts[-1]
            said = f"The baseline run failed {times(len(job_run.attempts))} without any eviction,"
            said += f" the last time with exit code {last.exit_code}: {quoted_error(last)}."
            if self._options.workdir is None and _MISSING_FILE.search(last.output_tail):
                said += " It ran in an empty folder; --workdir . gives it a copy of this one."
        return redacted(self._report((failed("finished", said),), job_run))

    def _evict(self, baseline: Baseline | None) -> DrillReport:
        length = None if baseline is None else baseline.figures.work_seconds
        for number in range(1, _TRIES_MAX + 1):
            job_folder = self._runner.prepare("evicted" if number == 1 else f"evicted-{number}")
            schedule = self._schedule(length)
            if self._options.world is not None:
                schedule = over_nodes(schedule, self._options.world.nodes, self._options.seed)
            job_run = self._runner.run(job_folder, schedule, baseline)
            if length is None or not _is_worth_another(job_run, schedule):
                break
            job_folder.set_aside()
            # A cold disk may have slowed the baseline down, so the schedule was for a longer job.
            length = min(job_run.work_seconds, _SHORTER * length)
            self._remarks.append(
                f"In run {number} with evictions, only {job_run.landed} of {schedule.needed} landed"
                " before the job finished."
            )
        return self._judge(job_folder, job_run, schedule, baseline)

    def _schedule(self, length: float | None) -> Schedule:
        options = self._options
        count, mix, seed = options.evictions, options.mix, options.seed
        if self._losses is not None:
            return schedules.from_losses(self._losses, length, count, mix, seed)
        if options.every is not None:
            return schedules.every(options.every.total_seconds(), count, mix, seed)
        count = EVICTIONS if count is None else count
        if length is None:
            return schedules.blind(count, mix, seed)
        return schedules.within(length, count, mix, seed)

    def _judge(
        self,
        job_folder: JobFolder,
        job_run: JobRun,
        schedule: Schedule,
        baseline: Baseline | None,
    ) -> DrillReport:
        complete = job_run.end is JobRunEnd.COMPLETE
        missing = tuple(self._runner.missing(job_folder)) if complete else ()
        # An incomplete job has no result to compare.
        comparable = baseline if complete and not missing else None
        written = {int(path.stem.rpartition("-")[2]): path for path in job_folder.hash_files()}
        hashes = {number: read_hashes(path) for number, path in sorted(written.items())}
        steps_seen = {number: read_steps(path) for number, path in written.items()}
        observed = Observations(
            job_run=job_run,
            workers=self._options.workers,
            grace_seconds=self._options.grace_seconds(),
            needed=schedule.needed,
            figures=None if baseline is None else baseline.figures,
            finished_when=self._runner.finished_when(job_folder) if complete else None,
            comparisons=() if comparable is None else self._runner.compare(job_folder, comparable),
            missing=missing,
            runs=read_evidence(job_folder.folder, job_run, steps_seen=steps_seen),
            hashes=None if baseline is None else compare_hashes(baseline.hashes, hashes),
            evidence=self._runner.evidence(job_folder, job_run),
            baseline_evidence=None if baseline is None else baseline.evidence,
            expected=self._options.expect,
            may_save_elsewhere=self._runner.may_save_elsewhere,
        )
        job_folder.set_aside()
        if baseline is not None and differs(observed):
            observed = self._repeat(observed, baseline)
        if baseline is not None and control_needed(observed):
            observed = self._control(observed)
        recorded = self._report(judge(observed), None if baseline is None else baseline.job_run)
        report = dataclasses.replace(
            recorded,
            figures=observed.figures,
            evicted=job_run,
            comparisons=observed.comparisons,
            runs=observed.runs,
            divergence=None if observed.hashes is None else observed.hashes.divergence,
        )
        if self._options.every is None or self._options.evictions is not None:
            report = dataclasses.replace(report, evictions_planned=schedule.needed)
        return redacted(report)

    def _repeat(self, observed: Observations, baseline: Baseline) -> Observations:
        """Run the job once more without evictions, to learn whether it differs from itself."""
        job_folder = self._runner.prepare("repeat")
        job_run = self._runner.run(job_folder, schedules.NO_EVICTIONS, None)
        if job_run.end is not JobRunEnd.COMPLETE or self._runner.missing(job_folder):
            self._remarks.append("A second run without evictions did not finish.")
            return observed
        what = "The result" if result_differs(observed) else "The state after a step"
        self._remarks.append(
            f"{what} differed, so the job ran once more without evictions, to compare it with"
            " itself."
        )
        comparisons = () if not observed.comparisons else self._runner.compare(job_folder, baseline)
        hashes = baselines.read_all_hashes(job_folder)
        job_folder.set_aside()
        return dataclasses.replace(
            observed,
            repeat=comparisons,
            repeat_hashes=compare_hashes(baseline.hashes, {1: hashes}),
            control=job_run.finisher,
        )

    def _control(self, observed: Observations) -> Observations:
        """Run the job without evictions for a little longer than the last attempt took."""
        finisher = observed.job_run.finisher
        assert finisher is not None, "Only a job that finished needs a control run."
        job_folder = self._runner.prepare("control")
        job_run = self._runner.run(
            job_folder, schedules.NO_EVICTIONS, None, seconds_max=control_seconds(finisher)
        )
        job_folder.set_aside()
        self._remarks.append(
            "Only its writes show whether the job resumed, so it ran once more without evictions,"
            " a little longer than the last attempt took."
        )
        control = next((one for one in job_run.attempts if one.ended in _CONTROL_ENDS), None)
        return dataclasses.replace(observed, control=control)

    def _report(self, checks: tuple[Check, ...], baseline: JobRun | None) -> DrillReport:
        """A report without a run with evictions."""
        options = self._options
        planned = EVICTIONS if options.every is None else None
        return DrillReport(
            outlast_version=__version__,
            command=redact_words(options.command),
            began=self._began,
            seconds=time.monotonic() - self._started,
            seed=options.seed,
            grace_seconds=options.grace_seconds(),
            workers=options.workers,
            nodes=None if options.world is None else options.world.nodes,
            ranks=None if options.world is None else options.world.ranks,
            isolation=self._isolation.name,
            checks=checks,
            evictions_planned=planned if options.evictions is None else options.evictions,
            figures=None,
            baseline=baseline,
            evicted=None,
            baseline_runs=self._baseline_runs,
            remarks=tuple(self._remarks),
        )


def _is_worth_another(job_run: JobRun, schedule: Schedule) -> bool:
    """Whether earlier evictions would land: not if the program itself prevented them."""
    if job_run.landed >= schedule.needed or job_run.end is not JobRunEnd.COMPLETE:
        return False
    return not any(one.unfinished_zero for one in job_run.evictions)
