"""The legs of a drill: prepare a folder, run the command there, and look at what it has made."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from outlast.drill.artifacts import Comparison, compare
from outlast.drill.baseline import Baseline
from outlast.drill.divergence import VARIABLE as HASHES
from outlast.drill.errors import DrillError
from outlast.drill.events import Listener
from outlast.drill.evictor import Habits
from outlast.drill.evidence import says_finished
from outlast.drill.isolation import Isolation
from outlast.drill.items import check_key
from outlast.drill.leg import Stage, run_leg
from outlast.drill.outputs import redacted
from outlast.drill.plan import Plan
from outlast.drill.records import Leg
from outlast.drill.rows import Table, Torn, holds_rows, parse_address, read_tables
from outlast.drill.schedule import Schedule
from outlast.drill.workplace import Workplace, command_exists
from outlast.interruption.exit_codes import INTERRUPTED
from outlast.interruption.settings import EXIT_CODE, GRACE, RESERVE

_DONE_SHARE = 0.85
_PATIENCE_SHARE = 0.12
_PATIENCE_SECONDS_MIN = 0.2
_LIMIT_FACTOR = 3.0
_LIMIT_SECONDS_MIN = 60.0
_BACKOFF_SECONDS_MAX = 600.0
_INDEX = "JOB_COMPLETION_INDEX"


class Legs:
    """Runs legs of one plan below one folder. `deadline` is the end of the whole drill."""

    def __init__(
        self,
        plan: Plan,
        root: Path,
        *,
        isolation: Isolation,
        deadline: float,
        listener: Listener,
    ) -> None:
        self._plan = plan
        self._root = root
        self._isolation = isolation
        self._deadline = deadline
        self._listener = listener
        self._grace_seconds = plan.grace_seconds()
        self.paths = tuple(parse_address(one).path for one in plan.expect)

    def prepare(self, name: str) -> Workplace:
        """A fresh folder for a leg, with nothing in it from before."""
        place = Workplace(self._root, name, self._plan.workdir)
        place.remove_expected(self.paths)
        if self._plan.reset is not None:
            place.reset(self._plan.reset, self._environ(place, 0))
        return place

    def run(self, place: Workplace, schedule: Schedule, baseline: Baseline | None) -> Leg:
        if baseline is not None and self._plan.key is not None:
            check_key(self._plan.key, self._tables(baseline))
        command = place.command(self._plan.command)
        environ = self._environ(place, 0)
        if not command_exists(command[0], place.folder, environ):
            raise DrillError(
                f"Cannot start {command[0]!r}: there is no such command.",
                hint="Check the name and the PATH. The command runs in a folder of its own.",
            )
        figures = None if baseline is None else baseline.figures
        stage = Stage(
            name=place.name,
            command=command,
            folder=place.folder,
            logs=place.logs,
            environ=lambda number: self._environ(place, number),
            workers=self._plan.workers,
            isolation=self._isolation,
            habits=self._habits(baseline),
            is_done=lambda worked, own: self._is_done(place, baseline, worked, own),
            expected_seconds=None if figures is None else figures.seconds,
        )
        deadline = min(self._deadline, time.monotonic() + self._limit(schedule, baseline))
        try:
            return run_leg(
                stage, schedule, self._plan.rules, deadline=deadline, listener=self._listener
            )
        except PermissionError as error:
            raise DrillError(
                f"Cannot start {command[0]!r}: {error.strerror}.",
                hint="Check that it is executable and, if a script, starts with '#!'.",
            ) from error

    def check_calm(self, place: Workplace) -> None:
        """Refuse a drill whose own tests fail undisturbed. Keeps what the next leg writes over."""
        if self.finished_when(place) is False:
            test = redacted(self._plan.finished_when or "")
            raise DrillError(
                f"Even undisturbed, {test!r} does not hold at the end.",
                hint="It runs in the folder of the leg, and must exit with 0 when all is done.",
            )
        place.keep_outside(self.paths)
        for index, (name, path) in enumerate(zip(self._plan.expect, self.paths, strict=True)):
            artifact = place.artifact(index, path)
            if not artifact.exists():
                raise DrillError(
                    f"Even undisturbed, {name!r} was not written.",
                    hint="A relative path lies in the folder in which the command runs, {dir}.",
                )
            if holds_rows(path):
                try:
                    read_tables(artifact, parse_address(name).selection)
                except Torn as error:
                    raise DrillError(
                        f"Even undisturbed, {name!r} cannot be read: {error}.",
                        hint="Give it the ending of what it is.",
                    ) from error

    def finished_when(self, place: Workplace) -> bool | None:
        if self._plan.finished_when is None:
            return None
        code, _ = place.shell(self._plan.finished_when, self._environ(place, 0))
        return code == 0

    def missing(self, place: Workplace) -> list[str]:
        return [
            name
            for name, path in zip(self._plan.expect, self.paths, strict=True)
            if not place.path(path).exists()
        ]

    def compare(self, place: Workplace, baseline: Baseline) -> tuple[Comparison, ...]:
        return tuple(
            compare(
                name,
                baseline.artifact(index, path),
                place.path(path),
                tolerance=self._plan.tolerance,
                key=self._plan.key,
            )
            for index, (name, path) in enumerate(zip(self._plan.expect, self.paths, strict=True))
        )

    def _tables(self, baseline: Baseline) -> list[Table]:
        return [
            table
            for index, (name, path) in enumerate(zip(self._plan.expect, self.paths, strict=True))
            if holds_rows(path)
            for table in read_tables(baseline.artifact(index, path), parse_address(name).selection)
        ]

    def _habits(self, baseline: Baseline | None) -> Habits:
        if baseline is None:
            return Habits(grace_seconds=self._grace_seconds, patience_seconds=_PATIENCE_SECONDS_MIN)
        figures = baseline.figures
        return Habits(
            grace_seconds=self._grace_seconds,
            patience_seconds=max(_PATIENCE_SECONDS_MIN, _PATIENCE_SHARE * figures.work_seconds),
            start_up_seconds=figures.start_up_seconds,
            needs_sign=figures.sign_seconds is not None,
            needs_handler=figures.hears_seconds is not None,
        )

    def _is_done(
        self, place: Workplace, baseline: Baseline | None, worked: float, own: float
    ) -> bool | None:
        """Whether the work is done at this moment, by the best evidence there is; None if none is.

        That all attempts together worked long enough shows nothing of one that starts over.
        """
        if self._plan.finished_when is not None:
            return self.finished_when(place) is True
        if (told := says_finished(place.folder)) is not None:
            return told
        if self._plan.expect and self.missing(place):
            return False
        if baseline is None:
            # A file that is there may be half of what it is to be; without one, 0 is the trap.
            return None if self._plan.expect else False
        if self._plan.expect and self._is_same(place, baseline):
            return True
        enough = _DONE_SHARE * baseline.figures.work_seconds
        if worked < enough:
            return False
        # A worker leaves when the queue is empty, whoever did the work.
        return True if own >= enough or self._plan.workers > 1 else None

    def _is_same(self, place: Workplace, baseline: Baseline) -> bool:
        try:
            return all(one.difference is None for one in self.compare(place, baseline))
        except DrillError:
            return False

    def _limit(self, schedule: Schedule, baseline: Baseline | None) -> float:
        """How long a leg may take at most, so that one that hangs comes to an end."""
        if baseline is None:
            return self._plan.timeout.total_seconds()
        figures = baseline.figures
        wait = self._plan.replace_after.total_seconds() + (
            _BACKOFF_SECONDS_MAX if self._plan.job_backoff else 0.0
        )
        each = self._grace_seconds + figures.start_up_seconds + wait
        outages = sum(one.outage_seconds for one in schedule.evictions)
        # A rate alone sets no number; of that, as many as fit into the time are counted.
        count = min(len(schedule.evictions), 10 + schedule.needed)
        whole = _LIMIT_FACTOR * figures.seconds + count * each + outages
        return max(whole, _LIMIT_SECONDS_MIN)

    def _environ(self, place: Workplace, number: int) -> Mapping[str, str]:
        grace_seconds = self._grace_seconds
        reserve_seconds = min(RESERVE.read().value, grace_seconds / 4)
        environ = {name: value for name, value in os.environ.items() if name != _INDEX}
        # Without it, what a Python program printed last would vanish with it.
        environ.setdefault("PYTHONUNBUFFERED", "1")
        return environ | {
            EXIT_CODE.variable: str(INTERRUPTED),
            GRACE.variable: f"{grace_seconds:g}",
            RESERVE.variable: f"{reserve_seconds:g}",
            # What a program keeps on its node goes with the node.
            "TMPDIR": str(place.node_folder(number)),
            # Whatever these say outside, the legs must not share it.
            "OUTLAST_RUN_URL": str(place.folder / "run"),
            "CHECKPOINT_DIR": str(place.folder / "run"),
            HASHES: str(place.hashes / f"attempt-{number:04}.jsonl"),
        }
