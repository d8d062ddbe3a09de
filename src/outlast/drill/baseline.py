"""What the undisturbed leg has taught: how long the work takes, and what it makes.

A recording keeps it in a folder for the next drill: the figures, the artifacts and the hashes.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from outlast._base.files import write_file
from outlast.drill.divergence import StepHash, read_hashes
from outlast.drill.errors import DrillError
from outlast.drill.records import Attempt, Leg
from outlast.drill.workplace import Workplace

_FILE = "baseline.json"
_VERSION = 1
_START_UP_SHARE_MAX = 0.85
_SIGN_BEHIND_SHARE_MAX = 0.25
_RESULT_FROM = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What is needed of the baseline to place evictions and to judge.

    `sign_seconds` and `hears_seconds` are the times to the first sign of life and to a handler for
    SIGTERM; None if there was none of use.
    """

    seconds: float
    sign_seconds: float | None
    hears_seconds: float | None
    cpu_seconds: float
    output_lines: int
    saves: int
    attempts: int

    @property
    def start_up_seconds(self) -> float:
        return max(self.sign_seconds or 0.0, self.hears_seconds or 0.0)

    @property
    def work_seconds(self) -> float:
        return self.seconds - self.start_up_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """`artifact` gives the path of an expected file by its place in the list."""

    figures: Figures
    artifact: Callable[[int, str], Path]
    hashes: tuple[StepHash, ...]
    leg: Leg | None
    """None if it was recorded by an earlier drill."""


def figures_of(leg: Leg) -> Figures:
    """The figures of a leg that completed. Time before a restart, had it failed, is left out."""
    last = [one for one in leg.attempts if one.exit_code == 0]
    started = min(one.started_seconds for one in last)
    seconds = max(one.ended_seconds for one in last) - started
    sign = _earliest(seconds, ((one, one.sign_seconds) for one in last))
    hears = _earliest(seconds, ((one, one.hears_seconds) for one in last))
    if sign is not None and hears is not None and sign - hears > _SIGN_BEHIND_SHARE_MAX * seconds:
        # It works in silence: what it writes so late is no sign of its start.
        sign = None
    return Figures(
        seconds=seconds,
        sign_seconds=sign,
        hears_seconds=hears,
        cpu_seconds=sum(one.cpu_seconds for one in last),
        output_lines=sum(one.output_lines for one in last),
        # What is written last is the result.
        saves=sum(one.at_seconds < started + _RESULT_FROM * seconds for one in leg.saves),
        attempts=len(leg.attempts),
    )


def _earliest(seconds: float, times: Iterable[tuple[Attempt, float | None]]) -> float | None:
    """The shortest time from a start; None if it came so late that it tells nothing."""
    found = [at - one.started_seconds for one, at in times if at is not None]
    earliest = min(found, default=seconds)
    return earliest if earliest <= _START_UP_SHARE_MAX * seconds else None


def from_leg(leg: Leg, place: Workplace) -> Baseline:
    hashes = [one for path in sorted(place.hashes.iterdir()) for one in read_hashes(path)]
    return Baseline(figures=figures_of(leg), artifact=place.artifact, hashes=tuple(hashes), leg=leg)


def record(
    folder: Path, command: Sequence[str], expect: Sequence[str], workers: int, baseline: Baseline
) -> None:
    """Keep a baseline. If killed: the folder holds no recording, and the next drill makes one."""
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    (folder / _FILE).unlink(missing_ok=True)
    digests = []
    for index, name in enumerate(expect):
        source, target = baseline.artifact(index, name), folder / "artifacts" / str(index)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for path in (source, source.with_name(source.name + "-wal")):
            if path.is_dir():
                shutil.copytree(path, target / path.name)
            elif path.exists():
                shutil.copy2(path, target / path.name)
        digests.append(_digest(target))
    (folder / "hashes.json").write_text(json.dumps(baseline.hashes))
    content = {
        "version": _VERSION,
        # Not the command itself, which may hold a password.
        "command": _digest_of_words(command),
        "expect": list(expect),
        "workers": workers,
        "figures": asdict(baseline.figures),
        "digests": digests,
    }
    write_file(folder / _FILE, json.dumps(content, indent=2).encode())


def recorded(
    folder: Path, command: Sequence[str], expect: Sequence[str], workers: int
) -> Baseline | None:
    """The baseline that is kept in a folder; None if there is none yet.

    Raises `DrillError` if it was recorded for another command, or has changed since.
    """
    if not (folder / _FILE).exists():
        return None
    try:
        content = json.loads((folder / _FILE).read_text())
        same = (content["version"], content["command"], content["expect"], content["workers"])
        figures = Figures(**content["figures"])
        digests = content["digests"]
        hashes = tuple(StepHash(*one) for one in json.loads((folder / "hashes.json").read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DrillError(
            f"The recording in {str(folder)!r} cannot be read.", hint="Remove it to record anew."
        ) from error
    if same != (_VERSION, _digest_of_words(command), list(expect), workers):
        raise DrillError(
            f"The recording in {str(folder)!r} is of another command, --expect or --workers.",
            hint="Name another folder, or remove it to record anew.",
        )
    if digests != [_digest(folder / "artifacts" / str(index)) for index in range(len(expect))]:
        raise DrillError(
            f"The artifacts of the recording in {str(folder)!r} have changed since.",
            hint="Remove it to record anew.",
        )

    def artifact(index: int, name: str) -> Path:
        return folder.absolute() / "artifacts" / str(index) / Path(name).name

    return Baseline(figures=figures, artifact=artifact, hashes=hashes, leg=None)


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
    """Whether SQLite makes such a file when the one beside it is only read."""
    is_empty_log = path.name.endswith("-wal") and path.stat().st_size == 0
    return is_empty_log or path.name.endswith("-shm")
