"""The runs of a job in a drill: prepare a folder, run the command in it, and read its results."""

import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.drills.compare.artifacts import Comparison, compare
from outlast.drills.compare.divergence import VARIABLE as HASHES
from outlast.drills.compare.items import check_key
from outlast.drills.compare.rows import Table, TornFile, holds_rows, parse_address, read_tables
from outlast.drills.errors import DrillError
from outlast.drills.judge.evidence import says_finished
from outlast.drills.run.baseline import Baseline
from outlast.drills.run.controller import BACKOFF_SECONDS_MAX
from outlast.drills.run.events import Listener
from outlast.drills.run.evictor import JobTiming
from outlast.drills.run.evidence import JobEvidence, log_path, read_job_evidence
from outlast.drills.run.folders import JobFolder, command_exists
from outlast.drills.run.job import JobSetup, run_job
from outlast.drills.run.launching import (
    COMPLETION_INDEX,
    check_command,
    free_port,
    launched_command,
    node_environ,
    without_launcher_variables,
)
from outlast.drills.run.node import Isolation
from outlast.drills.run.options import DrillOptions
from outlast.drills.run.printed import reached_end, read_printed
from outlast.drills.run.records import JobRun, JobRunEnd
from outlast.drills.run.schedule import Schedule
from outlast.drills.run.world import SurvivorLimits
from outlast.interruption.exec_settings import EXIT_CODE, GRACE, RESERVE
from outlast.interruption.exit_codes import INTERRUPTED
from outlast.ranks.settings import LOST

if TYPE_CHECKING:
    from outlast.drills.run.file_activity import FileActivity

_DONE_SHARE = 0.85
_PATIENCE_SHARE = 0.12
_PATIENCE_SECONDS_MIN = 0.2
_UNHEARD_SHARE = 0.1
_UNHEARD_SECONDS = 1.0
_UNHEARD_SECONDS_MIN = 0.05
_BASELINE_FAILURES_MAX = 1
_LIMIT_FACTOR = 3.0
_LIMIT_SECONDS_MIN = 60.0
_SURVIVORS_EXIT_SECONDS = 10.0
"""For the other nodes to exit once they know about an eviction."""


class JobRunner:
    """Runs the job of one drill in folders below `root`. `deadline` is the end of the drill."""

    def __init__(
        self,
        options: DrillOptions,
        root: Path,
        *,
        isolation: Isolation,
        deadline: float,
        listener: Listener,
    ) -> None:
        self._options = options
        self._root = root
        self._isolation = isolation
        self._deadline = deadline
        self._listener = listener
        self._grace_seconds = options.grace_seconds()
        self._expected = [(name, parse_address(name).path) for name in options.expect]
        self.paths = tuple(path for _, path in self._expected)
        self._activity: dict[str, dict[int, FileActivity | None]] = {}
        if options.world is not None:
            check_command(options.command)

    def prepare(self, name: str) -> JobFolder:
        """A fresh folder for a run, without any earlier results."""
        job_folder = JobFolder(self._root, name, self._options.workdir)
        job_folder.remove_expected(self.paths)
        if self._options.reset is not None:
            job_folder.reset(self._options.reset, self._environ(job_folder, 0))
        return job_folder

    def run(
        self,
        job_folder: JobFolder,
        schedule: Schedule,
        baseline: Baseline | None,
        *,
        seconds_max: float = math.inf,
    ) -> JobRun:
        """Run the job to its end, to its limit, or for `seconds_max`."""
        if baseline is not None and self._options.key is not None:
            check_key(self._options.key, self._tables(baseline))
        command = job_folder.command(self._options.command)
        environ = self._environ(job_folder, 0)
        if not command_exists(command[0], job_folder.folder, environ):
            raise DrillError(
                f"Cannot start {command[0]!r}: command not found.",
                hint="Check the name and the PATH. The command runs in a folder of its own.",
            )
        figures = None if baseline is None else baseline.figures
        world = self._options.world
        setup = JobSetup(
            name=job_folder.name,
            command=command if world is None else launched_command(command),
            folder=job_folder.folder,
            logs=job_folder.logs,
            environs=lambda number: self._environs(job_folder, number),
            workers=self._options.workers,
            isolation=self._isolation,
            timing=self._timing(baseline),
            is_done=lambda number, worked: self._is_done(job_folder, baseline, number, worked),
            on_activity=self._activity.setdefault(job_folder.name, {}).__setitem__,
            is_open=lambda number: self._is_open(job_folder, baseline, number),
            expected_seconds=None if figures is None else figures.seconds,
            survivors=None if world is None else self._survivors(),
        )
        own_deadline = time.monotonic() + min(self._limit(schedule, baseline), seconds_max)
        rules = self._options.rules
        if not schedule.evictions:
            # A run that fails without any eviction fails again.
            rules = replace(rules, backoff_limit=min(rules.backoff_limit, _BASELINE_FAILURES_MAX))
        deadline = min(self._deadline, own_deadline)
        try:
            found = run_job(setup, schedule, rules, deadline=deadline, listener=self._listener)
        except PermissionError as error:
            raise DrillError(
                f"Cannot start {command[0]!r}: {error.strerror}.",
                hint="Check that it is executable. A script must also start with '#!'.",
            ) from error

        if found.end is JobRunEnd.TIMED_OUT and own_deadline < self._deadline:
            return replace(found, end=JobRunEnd.TOO_SLOW)
        return found

    def evidence(self, job_folder: JobFolder, job_run: JobRun) -> JobEvidence:
        """What each attempt of a run printed and did with files."""
        activity = self._activity.get(job_folder.name, {})
        return read_job_evidence(job_folder.logs, job_run.attempts, activity)

    @property
    def may_save_elsewhere(self) -> bool:
        """Whether the options refer to state that the folder of the run does not show."""
        outside = any(Path(path).is_absolute() for path in self.paths)
        return outside or bool(self._options.reset or self._options.finished_when)

    def check_baseline(self, job_folder: JobFolder) -> None:
        """Refuse a drill whose tests fail without evictions. Copies what the next run replaces."""
        if self.finished_when(job_folder) is False:
            raise DrillError(
                f"The test {self._options.finished_when!r} failed after the baseline run.",
                hint="It runs in the folder of the run. It must exit with 0 when the work is done.",
            )
        job_folder.keep_outside(self.paths)
        for index, (name, path) in enumerate(self._expected):
            artifact = job_folder.artifact(index, path)
            if not artifact.exists():
                raise DrillError(
                    f"The baseline run did not write {name!r}.",
                    hint="A relative path is resolved in the folder of the run, {dir}.",
                )
            if holds_rows(path):
                try:
                    read_tables(artifact, parse_address(name).selection)
                except TornFile as error:
                    raise DrillError(
                        f"Cannot read {name!r} after the baseline run: {error}.",
                        hint="Use the file extension of its actual format.",
                    ) from error

    def finished_when(self, job_folder: JobFolder) -> bool | None:
        if self._options.finished_when is None:
            return None
        code, _ = job_folder.shell(self._options.finished_when, self._environ(job_folder, 0))
        return code == 0

    def missing(self, job_folder: JobFolder) -> list[str]:
        return [name for name, path in self._expected if not job_folder.path(path).exists()]

    def compare(self, job_folder: JobFolder, baseline: Baseline) -> tuple[Comparison, ...]:
        return tuple(
            compare(
                name,
                baseline.artifact(index, path),
                job_folder.path(path),
                tolerance=self._options.tolerance,
                key=self._options.key,
            )
            for index, (name, path) in enumerate(self._expected)
        )

    def _tables(self, baseline: Baseline) -> list[Table]:
        return [
            table
            for index, (name, path) in enumerate(self._expected)
            if holds_rows(path)
            for table in read_tables(baseline.artifact(index, path), parse_address(name).selection)
        ]

    def _timing(self, baseline: Baseline | None) -> JobTiming:
        grace = self._grace_seconds
        if baseline is None:
            return JobTiming(
                grace_seconds=grace,
                patience_seconds=_PATIENCE_SECONDS_MIN,
                unheard_seconds=_UNHEARD_SECONDS,
            )
        figures = baseline.figures
        return JobTiming(
            grace_seconds=grace,
            patience_seconds=max(_PATIENCE_SECONDS_MIN, _PATIENCE_SHARE * figures.work_seconds),
            unheard_seconds=max(_UNHEARD_SECONDS_MIN, _UNHEARD_SHARE * figures.work_seconds),
            start_up_seconds=figures.start_up_seconds,
            needs_sign=figures.sign_seconds is not None,
            needs_handler=figures.hears_seconds is not None,
        )

    def _is_open(self, job_folder: JobFolder, baseline: Baseline | None, number: int) -> bool:
        """Whether all ranks of an attempt have opened their run, if the program has one.

        Before that, a rank cannot know that another one was evicted.
        """
        world = self._options.world
        if world is None or baseline is None or not baseline.hashes:
            return True
        return job_folder.open_runs(number) >= world.nodes * world.ranks

    def _is_done(
        self, job_folder: JobFolder, baseline: Baseline | None, number: int, worked: float
    ) -> bool | None:
        """Whether the work is done now, by the best evidence available; None without any."""
        if self._options.finished_when is not None:
            return self.finished_when(job_folder) is True
        if (finished := says_finished(job_folder.folder)) is not None:
            return finished
        if self._options.expect and self.missing(job_folder):
            return False
        if baseline is None:
            # An existing file may be half written. Without one, exit 0 counts as a fault.
            return None if self._options.expect else False
        if self._options.expect and self._is_same(job_folder, baseline):
            return True
        if self._options.workers > 1:
            # A worker exits when the queue is empty, no matter which worker did the work.
            return worked >= _DONE_SHARE * baseline.figures.work_seconds
        return self._looks_done(job_folder, baseline, number, worked)

    def _looks_done(
        self, job_folder: JobFolder, baseline: Baseline, number: int, worked: float
    ) -> bool | None:
        """Whether an attempt ended as the baseline did: with its last line, and with its files."""
        files = baseline.evidence.files
        left = () if files is None else files.left
        if any(not (job_folder.folder / path).exists() for path in left):
            return False
        printed = read_printed(log_path(job_folder.logs, number))
        if (is_at_end := reached_end(baseline.evidence.printed, printed)) is not None:
            return is_at_end
        return False if worked < _DONE_SHARE / 2 * baseline.figures.work_seconds else None

    def _is_same(self, job_folder: JobFolder, baseline: Baseline) -> bool:
        try:
            return all(one.difference is None for one in self.compare(job_folder, baseline))
        except DrillError:
            return False

    def _limit(self, schedule: Schedule, baseline: Baseline | None) -> float:
        """The longest that a run may take, so that a hanging one ends."""
        if baseline is None:
            return self._options.timeout.total_seconds()
        figures = baseline.figures
        wait = self._options.replace_after.total_seconds() + (
            BACKOFF_SECONDS_MAX if self._options.job_backoff else 0.0
        )
        each = self._grace_seconds + figures.start_up_seconds + wait
        if self._options.world is not None:
            each += self._survivors().after_death_seconds
        outages = sum(one.outage_seconds for one in schedule.evictions)
        # A rate alone sets no number of evictions, so it is bounded here.
        count = min(len(schedule.evictions), 10 + schedule.needed)
        limit = _LIMIT_FACTOR * figures.seconds + count * each + outages
        return max(limit, _LIMIT_SECONDS_MIN)

    def _survivors(self) -> SurvivorLimits:
        lost_seconds = LOST.read().value or LOST.default
        return SurvivorLimits(
            after_notice_seconds=self._grace_seconds + _SURVIVORS_EXIT_SECONDS,
            after_death_seconds=lost_seconds + _SURVIVORS_EXIT_SECONDS,
            grace_seconds=self._grace_seconds,
        )

    def _environs(self, job_folder: JobFolder, number: int) -> list[Mapping[str, str]]:
        """The variables of each node of an attempt."""
        environ, world = self._environ(job_folder, number), self._options.world
        if world is None:
            return [environ]
        port = free_port()
        shutdown_seconds = self._grace_seconds - float(environ[RESERVE.variable])
        return [
            {
                **without_launcher_variables(environ),
                **node_environ(
                    world, node, port=port, attempt=number, shutdown_seconds=shutdown_seconds
                ),
                "TMPDIR": str(job_folder.node_folder(number, node)),
            }
            for node in range(world.nodes)
        ]

    def _environ(self, job_folder: JobFolder, number: int) -> Mapping[str, str]:
        grace_seconds = self._grace_seconds
        reserve_seconds = min(RESERVE.read().value, grace_seconds / 4)
        dropped = {COMPLETION_INDEX, *self._options.dropped_variables()}
        environ = {name: value for name, value in os.environ.items() if name not in dropped}
        # Otherwise the last output of a killed Python program would be lost.
        environ.setdefault("PYTHONUNBUFFERED", "1")
        return environ | {
            EXIT_CODE.variable: str(INTERRUPTED),
            GRACE.variable: f"{grace_seconds:g}",
            RESERVE.variable: f"{reserve_seconds:g}",
            # Temporary files of a node are lost with the node.
            "TMPDIR": str(job_folder.node_folder(number)),
            # The runs must not share these, even if they are set outside.
            "OUTLAST_RUN_URL": str(job_folder.folder / "run"),
            "CHECKPOINT_DIR": str(job_folder.folder / "run"),
            HASHES: str(job_folder.hash_path(number)),
        }
