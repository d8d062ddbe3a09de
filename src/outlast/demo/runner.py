"""Run the two parts of the demo, each a drill of a real program, and check what they must prove.

No matter how it ends, even by Ctrl-C, no process remains, and files remain only in the output
folder. If killed: a folder of temporary files remains as well.
"""

import contextlib
import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import numpy as np

from outlast.demo.digits import Digits, draw_digits
from outlast.drills.errors import DrillError
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.page import write_html
from outlast.drills.rehearsal import drill
from outlast.drills.run.events import Listener

ITEMS = 2400
WORKERS = 3
EVICTIONS = {"training": 6, "scoring": 8}

MARKER = ".outlast-demo"
OUTPUTS = ("model.npz", "results.jsonl", "training.html", "scoring.html")

_TRAINING_IMAGES = 2000
_EVICTIONS_MIN = 5
_GRACE = timedelta(seconds=8)
_TIMEOUT = timedelta(minutes=5)

Presenter: TypeAlias = Callable[[str], AbstractContextManager[Listener]]
"""Called with the title of a part; displays its progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoPart:
    """One drill of the demo. `page` is its report; `reasons` are why it did not pass."""

    name: str
    report: DrillReport
    page: Path
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons

    @property
    def evictions(self) -> int:
        return self.report.evictions_landed

    @property
    def without_notice(self) -> int:
        job_run = self.report.evicted
        return (
            0
            if job_run is None
            else sum(not one.notice and one.killed for one in job_run.evictions)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """Both parts. There is no second one if the first did not produce a model.

    `accuracy` is the share of images that the model recognized correctly.
    """

    seed: int
    seconds: float
    parts: tuple[DemoPart, ...]
    accuracy: float | None

    @property
    def passed(self) -> bool:
        return len(self.parts) == len(EVICTIONS) and all(part.passed for part in self.parts)

    def as_json(self) -> dict[str, object]:
        """The result as JSON values."""
        return {
            "passed": self.passed,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "images": ITEMS,
            "accuracy": self.accuracy,
            "parts": [_part_as_json(part) for part in self.parts],
        }


def run_demo(out: Path, *, seed: int, present: Presenter) -> DemoResult:
    """Train, score, and write the model, the results and both reports to `out`.

    Raises `DrillError` if the folder or the seed cannot be used. If killed: see `demo_folder`.
    """
    if seed < 0:
        raise DrillError(
            f"--seed: expected 0 or more, got {seed}.", hint="Use a whole number from 0."
        )
    started = time.monotonic()
    with demo_folder(out) as folder, tempfile.TemporaryDirectory(prefix="outlast-demo-") as place:
        training = draw_digits(_TRAINING_IMAGES, seed=seed)
        unseen = draw_digits(ITEMS, seed=seed + 1)
        parts = [_train(training, Path(place), folder, seed, present)]
        if (folder / "model.npz").exists():
            parts.append(_score(unseen, Path(place), folder, seed, present))
        return DemoResult(
            seed=seed,
            seconds=time.monotonic() - started,
            parts=tuple(parts),
            accuracy=_accuracy(folder / "results.jsonl", unseen),
        )


def _train(digits: Digits, place: Path, folder: Path, seed: int, present: Presenter) -> DemoPart:
    workdir = place / "training"
    workdir.mkdir()
    np.savez(workdir / "digits.npz", images=digits.images, labels=digits.labels)
    with present("Part 1: train a network to recognize digits") as listener:
        report = drill(
            _program("training.py", folder / "model.npz"),
            evictions=EVICTIONS["training"],
            seed=seed,
            grace=_GRACE,
            expect=[str(folder / "model.npz")],
            workdir=workdir,
            timeout=_TIMEOUT,
            listener=listener,
        )
    return _part("training", report, folder, unproven=_not_compared(report))


def _score(digits: Digits, place: Path, folder: Path, seed: int, present: Presenter) -> DemoPart:
    workdir = place / "scoring"
    workdir.mkdir()
    (workdir / "model.npz").write_bytes((folder / "model.npz").read_bytes())
    items = [
        {"key": _key(number), "value": {"pixels": image.tobytes().hex()}}
        for number, image in enumerate(digits.images)
    ]
    (workdir / "items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    with present(f"Part 2: {WORKERS} workers score {ITEMS:,} images with it") as listener:
        report = drill(
            _program("scoring.py", folder / "results.jsonl"),
            evictions=EVICTIONS["scoring"],
            seed=seed,
            grace=_GRACE,
            workers=WORKERS,
            expect=["jobs.db#select key, result from results", str(folder / "results.jsonl")],
            key="key",
            workdir=workdir,
            timeout=_TIMEOUT,
            listener=listener,
        )
    return _part("scoring", report, folder, unproven=_not_counted(report))


def _program(name: str, target: Path) -> list[str]:
    """One thread each, to share few cores. `-P` keeps this folder off `sys.path`."""
    program = Path(__file__).with_name(name)
    return ["env", "OMP_NUM_THREADS=1", sys.executable, "-P", str(program), str(target)]


def _part(name: str, report: DrillReport, folder: Path, *, unproven: list[str]) -> DemoPart:
    page = folder / f"{name}.html"
    write_html(report, page)
    bad = (CheckResult.FAIL, CheckResult.WARN)
    failed = [f"{one.name}: {one.reason}" for one in report.checks if one.result in bad]
    part = DemoPart(name=name, report=report, page=page, reasons=())
    if report.survived:
        failed += unproven
        if part.evictions < _EVICTIONS_MIN or not part.without_notice:
            failed.append(
                f"Expected at least {_EVICTIONS_MIN} evictions and 1 without notice, got"
                f" {part.evictions} and {part.without_notice}."
            )
    return DemoPart(name=name, report=report, page=page, reasons=tuple(failed))


def _not_compared(report: DrillReport) -> list[str]:
    same = [one.difference is None for one in report.comparisons]
    return [] if same and all(same) else ["The model was not compared with the baseline."]


def _not_counted(report: DrillReport) -> list[str]:
    """The drill finds lost items and duplicates; this checks that it compared all items."""
    counted = [item.items for one in report.comparisons for item in one.items]
    if counted and all(count == ITEMS for count in counted):
        return []
    return [f"Expected {ITEMS:,} compared items, got {', '.join(map(str, counted)) or 'none'}."]


def _key(number: int) -> str:
    return f"image-{number:04}"


def _accuracy(results: Path, digits: Digits) -> float | None:
    if not results.exists():
        return None
    rows = map(json.loads, results.read_text().splitlines())
    recognized = {row["key"]: row["result"]["digit"] for row in rows}
    right = sum(recognized.get(_key(number)) == label for number, label in enumerate(digits.labels))
    return float(right / len(digits.labels))


def _part_as_json(part: DemoPart) -> dict[str, object]:
    report = part.report
    return {
        "name": part.name,
        "passed": part.passed,
        "reasons": list(part.reasons),
        "seconds": round(report.seconds, 3),
        "evictions": part.evictions,
        "without_notice": part.without_notice,
        "steps_lost_max": report.steps_lost_max,
        "items_lost": report.items_lost,
        "duplicates": report.duplicates,
        "report": str(part.page),
        "verdict": report.verdict.value,
        "checks": [
            {"name": one.name, "result": one.result.value, "reason": one.reason}
            for one in report.checks
        ],
    }


@contextlib.contextmanager
def demo_folder(folder: Path) -> Iterator[Path]:
    """A folder for one demo at a time, without the outputs of an earlier demo.

    A marker file identifies it; other files in it are kept. Raises `DrillError` if the folder has
    files but no marker, or cannot be written. If killed: the outputs so far remain, and the next
    demo removes them.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
            raise DrillError(
                f"The folder {str(folder)!r} is not empty and was not created by an earlier demo.",
                hint="Choose another folder with --out.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        marker = os.open(
            folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
    except OSError as error:
        raise DrillError(
            f"Could not use the folder {str(folder)!r}: {error.strerror}.",
            hint="Choose a writable folder with --out.",
        ) from error
    try:
        _lock(marker, folder)
        for name in OUTPUTS:
            (folder / name).unlink(missing_ok=True)
        yield folder.resolve()
    finally:
        # A worker that was killed while writing may have left a temporary file.
        for name in OUTPUTS:
            for temporary in folder.glob(f".{name}*.new"):
                temporary.unlink(missing_ok=True)
        os.close(marker)


def _lock(marker: int, folder: Path) -> None:
    """The kernel releases the lock when the process ends."""
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DrillError(
            f"Another demo is running in the folder {str(folder)!r}.",
            hint="Wait for it to finish, or choose another folder with --out.",
        ) from None
