"""The baseline: how long the job takes without evictions, and what it writes.

A recording keeps it in a folder for the next drill: the figures, the files and the hashes.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from outlast._base.files import refuse_links_below, write_below
from outlast._redact import redact
from outlast.drills.compare.divergence import StepHash, read_hashes
from outlast.drills.errors import DrillError
from outlast.drills.run.evidence import (
    AttemptEvidence,
    JobEvidence,
    evidence_as_json,
    evidence_from_json,
)
from outlast.drills.run.folders import JobFolder, private_folder
from outlast.drills.run.records import ONLY_IF_SET, Attempt, JobRun
from outlast.storage.settings import shared_mode

_FILE = "baseline.json"
_HASHES = "hashes.json"
_EVIDENCE = "evidence.json"
_VERSION = 2
_START_UP_SHARE_MAX = 0.85
# Nodes that import large libraries and wait for each other take longer to start.
_WORLD_START_UP_SHARE_MAX = 0.97
_WRITE_SHARE_MAX = 0.5
_SIGN_BEHIND_SHARE_MAX = 0.25
_RESULT_FROM = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineFigures:
    """The figures of the baseline that place evictions and decide checks.

    `sign_seconds` and `hears_seconds` are the times to the first sign of life and to a handler for
    SIGTERM; None if there was none, or too late to be useful. `wind_down_seconds` is how long
    several nodes took to end after the last write, which is work no longer.
    """

    seconds: float
    sign_seconds: float | None
    hears_seconds: float | None
    cpu_seconds: float
    output_lines: int
    saves: int
    attempts: int
    wind_down_seconds: float = field(default=0.0, metadata=ONLY_IF_SET)

    @property
    def start_up_seconds(self) -> float:
        return max(self.sign_seconds or 0.0, self.hears_seconds or 0.0)

    @property
    def work_seconds(self) -> float:
        return self.seconds - self.start_up_seconds - self.wind_down_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """`artifact` returns the path of an expected file by its index."""

    figures: BaselineFigures
    artifact: Callable[[int, str], Path]
    hashes: tuple[StepHash, ...]
    evidence: AttemptEvidence
    job_run: JobRun | None
    """None if it was recorded by an earlier drill."""


def figures_of(job_run: JobRun) -> BaselineFigures:
    """The figures of a completed run, without the time of attempts that failed before."""
    last = [one for one in job_run.attempts if one.exit_code == 0]
    started = min(one.started_seconds for one in last)
    seconds = max(one.ended_seconds for one in last) - started
    sign = _earliest(seconds, ((one, one.sign_seconds) for one in last))
    hears = _earliest(seconds, ((one, one.hears_seconds) for one in last))
    if sign is not None and not any(one.output_lines for one in last):
        # It prints nothing. Its first write may be its result, long after its start.
        sign = sign if sign <= _WRITE_SHARE_MAX * seconds and _keeps_writing(job_run) else None
    if sign is not None and hears is not None and sign - hears > _SIGN_BEHIND_SHARE_MAX * seconds:
        # It works silently, so a first write this late is not a sign of its start.
        sign = None
    return BaselineFigures(
        seconds=seconds,
        sign_seconds=sign,
        hears_seconds=hears,
        cpu_seconds=sum(one.cpu_seconds for one in last),
        output_lines=sum(one.output_lines for one in last),
        # The last writes are the result, not saves.
        saves=sum(one.at_seconds < started + _RESULT_FROM * seconds for one in job_run.saves),
        attempts=len(job_run.attempts),
        wind_down_seconds=_wind_down(job_run, after_seconds=started + (sign or 0.0)),
    )


def _wind_down(job_run: JobRun, *, after_seconds: float) -> float:
    """The time between the last write and the end of several nodes; 0 if that is unknown.

    Launchers wait for each other at the end, which can take longer than a short training.
    """
    last = max((one.until_seconds for one in job_run.saves), default=0.0)
    ended = job_run.attempts[-1]
    return ended.ended_seconds - last if ended.nodes and last > after_seconds else 0.0


def _keeps_writing(job_run: JobRun) -> bool:
    """Whether it wrote more than once, or for a good part of its time."""
    saves = job_run.saves
    return len(saves) > 1 or any(
        one.lasted_seconds > _WRITE_SHARE_MAX / 2 * job_run.seconds for one in saves
    )


def _earliest(seconds: float, times: Iterable[tuple[Attempt, float | None]]) -> float | None:
    """The shortest time since a start; None if it is too late to be useful."""
    seen = [(at - one.started_seconds, bool(one.nodes)) for one, at in times if at is not None]
    earliest, is_world = min(seen, default=(seconds, False))
    share_max = _WORLD_START_UP_SHARE_MAX if is_world else _START_UP_SHARE_MAX
    return earliest if earliest <= share_max * seconds else None


def from_job_run(job_run: JobRun, job_folder: JobFolder, evidence: JobEvidence) -> Baseline:
    finisher = job_run.finisher
    assert finisher is not None, "Only a completed run is a baseline."
    return Baseline(
        figures=figures_of(job_run),
        artifact=job_folder.artifact,
        hashes=tuple(read_all_hashes(job_folder)),
        evidence=evidence[finisher.number],
        job_run=job_run,
    )


def read_all_hashes(job_folder: JobFolder) -> list[StepHash]:
    """The hashes that all attempts of a run wrote."""
    return [one for path in job_folder.hash_files() for one in read_hashes(path)]


def record(
    folder: Path, command: Sequence[str], expect: Sequence[str], workers: int, baseline: Baseline
) -> None:
    """Record a baseline. If killed: the folder has no recording, and the next drill records one."""
    names = [f"artifacts/{index}" for index in range(len(expect))]
    refuse_links_below(folder, [_FILE, _HASHES, _EVIDENCE, *names])
    private_folder(folder)
    private_folder(folder / "artifacts")
    (folder / _FILE).unlink(missing_ok=True)
    digests = []
    for index, name in enumerate(expect):
        source, target = baseline.artifact(index, name), folder / "artifacts" / str(index)
        shutil.rmtree(target, ignore_errors=True)
        private_folder(target)
        for path in (source, source.with_name(source.name + "-wal")):
            if path.is_dir():
                shutil.copytree(path, target / path.name)
            elif path.exists():
                shutil.copy2(path, target / path.name)
        digests.append(_digest(target))
    write_below(folder, _HASHES, json.dumps(baseline.hashes).encode(), mode=shared_mode(0o600))
    kept = json.dumps(evidence_as_json(baseline.evidence)).encode()
    write_below(folder, _EVIDENCE, kept, mode=shared_mode(0o600))
    content = {
        "version": _VERSION,
        # Not the command itself, which may contain a password.
        "command": _digest_of_words(command),
        "expect": [redact(one) for one in expect],
        "workers": workers,
        "figures": asdict(baseline.figures),
        "digests": digests,
    }
    write_below(folder, _FILE, json.dumps(content, indent=2).encode(), mode=shared_mode(0o600))


def recorded(
    folder: Path, command: Sequence[str], expect: Sequence[str], workers: int
) -> Baseline | None:
    """The baseline recorded in a folder; None if there is none.

    Raises `DrillError` if it was recorded for another command, or has changed since then.
    """
    if not (folder / _FILE).exists():
        return None
    try:
        content = json.loads((folder / _FILE).read_text())
        if content["version"] != _VERSION:
            raise ValueError("It was recorded by another version.")
        same = (content["version"], content["command"], content["expect"], content["workers"])
        figures = BaselineFigures(**content["figures"])
        digests = content["digests"]
        hashes = tuple(StepHash(*one) for one in json.loads((folder / _HASHES).read_text()))
        evidence = evidence_from_json(json.loads((folder / _EVIDENCE).read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DrillError(
            f"Cannot read the recording in {str(folder)!r}.", hint="Remove it to record a new one."
        ) from error
    shown = [redact(one) for one in expect]
    if same != (_VERSION, _digest_of_words(command), shown, workers):
        raise DrillError(
            f"The recording in {str(folder)!r} is for another command, --expect or --workers.",
            hint="Use another folder, or remove it to record a new one.",
        )
    if digests != [_digest(folder / "artifacts" / str(index)) for index in range(len(expect))]:
        raise DrillError(
            f"The files of the recording in {str(folder)!r} have changed since they were recorded.",
            hint="Remove it to record a new one.",
        )

    def artifact(index: int, name: str) -> Path:
        return folder.absolute() / "artifacts" / str(index) / Path(name).name

    return Baseline(
        figures=figures, artifact=artifact, hashes=hashes, evidence=evidence, job_run=None
    )


def _digest_of_words(words: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()


def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _is_left_by_reading(path):
            found.update(str(path.relative_to(folder)).encode() + b"\0")
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _is_left_by_reading(path: Path) -> bool:
    """Whether SQLite creates such a file even when a database is only read."""
    is_empty_log = path.name.endswith("-wal") and path.stat().st_size == 0
    return is_empty_log or path.name.endswith("-shm")
