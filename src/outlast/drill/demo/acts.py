"""The two acts of the demo, each a drill of a real program, and what they must show.

Whichever way it is left, by Ctrl-C too, no process stays, and no file but in the folder it was
given. If killed: a folder of temporary files stays as well.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import numpy as np

from outlast.drill.demo.digits import Digits, draw_digits
from outlast.drill.demo.folder import demo_folder
from outlast.drill.errors import DrillError
from outlast.drill.events import Listener
from outlast.drill.page import write_html
from outlast.drill.rehearsal import drill
from outlast.drill.report import Report

ITEMS = 2400
WORKERS = 3
EVICTIONS = {"training": 6, "scoring": 8}

_LEARNED_FROM = 2000
_EVICTIONS_MIN = 5
_GRACE = timedelta(seconds=8)
_TIMEOUT = timedelta(minutes=5)

Stage: TypeAlias = Callable[[str], AbstractContextManager[Listener]]
"""Given the title of an act, shows it while it goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One drill of the demo. `page` is its report; `reasons` say what it failed to show."""

    name: str
    report: Report
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
        leg = self.report.disturbed
        return 0 if leg is None else sum(not one.notice and one.killed for one in leg.evictions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demo:
    """Both acts. There is no second one if the first has left no model to score with.

    `right` is the share of the images that the model has read correctly.
    """

    seed: int
    seconds: float
    acts: tuple[Act, ...]
    right: float | None

    @property
    def passed(self) -> bool:
        return len(self.acts) == len(EVICTIONS) and all(act.passed for act in self.acts)

    def as_json(self) -> dict[str, object]:
        """What happened, in what JSON knows."""
        return {
            "passed": self.passed,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "images": ITEMS,
            "right": self.right,
            "acts": [_act_as_json(act) for act in self.acts],
        }


def hold_demo(out: Path, *, seed: int, stage: Stage) -> Demo:
    """Train, score, and leave the model, the results and both reports in `out`.

    Raises `DrillError` if that folder or the seed cannot be used. If killed: see `demo_folder`.
    """
    if seed < 0:
        raise DrillError(f"The seed is {seed}.", hint="Give a whole number from 0.")
    started = time.monotonic()
    with demo_folder(out) as folder, tempfile.TemporaryDirectory(prefix="outlast-demo-") as place:
        learned = draw_digits(_LEARNED_FROM, seed=seed)
        unseen = draw_digits(ITEMS, seed=seed + 1)
        acts = [_training(learned, Path(place), folder, seed, stage)]
        if (folder / "model.npz").exists():
            acts.append(_scoring(unseen, Path(place), folder, seed, stage))
        return Demo(
            seed=seed,
            seconds=time.monotonic() - started,
            acts=tuple(acts),
            right=_share_right(folder / "results.jsonl", unseen),
        )


def _training(digits: Digits, place: Path, folder: Path, seed: int, stage: Stage) -> Act:
    workdir = place / "training"
    workdir.mkdir()
    np.savez(workdir / "digits.npz", images=digits.images, labels=digits.labels)
    with stage("Act 1: a network learns to read digits") as listener:
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
    return _act("training", report, folder, not_shown=_not_same(report))


def _scoring(digits: Digits, place: Path, folder: Path, seed: int, stage: Stage) -> Act:
    workdir = place / "scoring"
    workdir.mkdir()
    (workdir / "model.npz").write_bytes((folder / "model.npz").read_bytes())
    items = [
        {"key": _key(number), "value": {"pixels": image.tobytes().hex()}}
        for number, image in enumerate(digits.images)
    ]
    (workdir / "items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    with stage(f"Act 2: {WORKERS} workers read {ITEMS:,} images with that network") as listener:
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
    return _act("scoring", report, folder, not_shown=_not_once(report))


def _program(name: str, target: Path) -> list[str]:
    """One thread each, because the programs share few cores. `-P` keeps our folder off the path."""
    program = Path(__file__).with_name(name)
    return ["env", "OMP_NUM_THREADS=1", sys.executable, "-P", str(program), str(target)]


def _act(name: str, report: Report, folder: Path, *, not_shown: list[str]) -> Act:
    page = folder / f"{name}.html"
    write_html(report, page)
    failed = [f"{one.code}: {one.reason}" for one in report.verdicts if not one.ok]
    act = Act(name=name, report=report, page=page, reasons=())
    if report.survived:
        failed += not_shown
        if act.evictions < _EVICTIONS_MIN or not act.without_notice:
            failed.append(
                f"{act.evictions} evictions landed, {act.without_notice} of them without notice;"
                f" there should be {_EVICTIONS_MIN} and 1."
            )
    return Act(name=name, report=report, page=page, reasons=tuple(failed))


def _not_same(report: Report) -> list[str]:
    same = [one.difference is None for one in report.comparisons]
    return [] if same and all(same) else ["The model was not compared with the undisturbed one."]


def _not_once(report: Report) -> list[str]:
    """The drill finds what was lost or doubled; here it counts that all were looked at."""
    counted = [item.items for one in report.comparisons for item in one.items]
    if counted and all(count == ITEMS for count in counted):
        return []
    return [f"Of {ITEMS:,} items, {', '.join(map(str, counted)) or 'none'} were compared."]


def _key(number: int) -> str:
    return f"image-{number:04}"


def _share_right(results: Path, digits: Digits) -> float | None:
    if not results.exists():
        return None
    rows = map(json.loads, results.read_text().splitlines())
    read = {row["key"]: row["result"]["digit"] for row in rows}
    right = sum(read.get(_key(number)) == label for number, label in enumerate(digits.labels))
    return float(right / len(digits.labels))


def _act_as_json(act: Act) -> dict[str, object]:
    report = act.report
    return {
        "name": act.name,
        "passed": act.passed,
        "reasons": list(act.reasons),
        "seconds": round(report.seconds, 3),
        "evictions": act.evictions,
        "without_notice": act.without_notice,
        "steps_lost_max": report.steps_lost_max,
        "items_lost": report.items_lost,
        "items_doubled": report.duplicates,
        "report": str(act.page),
        "verdicts": [
            {"code": one.code, "ok": one.ok, "reason": one.reason} for one in report.verdicts
        ],
    }
