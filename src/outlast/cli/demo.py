"""`outlast demo`: a real model trained, and used by real workers, evicted all the while."""

import contextlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.cli.format import Format
from outlast.cli.stopping import clearing_up_on_signals
from outlast.drill.demo.acts import Act, Demo, hold_demo
from outlast.drill.events import Listener, ignore
from outlast.drill.view import watching


def demo(
    *, seed: int | None = None, out: Path = Path("outlast-demo"), format: Format = Format.TEXT
) -> int:
    """Train a small model, then score images with it, evicted all the while; takes a minute.

    Needs no cloud, no server and no GPU. Exits with 0 if the model is the same as undisturbed, bit
    for bit, and every image was scored once; with 1 if not.

    Parameters
    ----------
    seed: int
        Repeats the images and evictions of an earlier demo. Default: a new one, which is printed.
    out: Path
        A folder for the model, the results and the reports. It must be empty or an earlier demo's.
    format: Format
        text for people, json for programs.
    """
    chosen = random.SystemRandom().randrange(100_000) if seed is None else seed
    with clearing_up_on_signals():
        shown = hold_demo(out, seed=chosen, stage=_stage if format is Format.TEXT else _silence)
    if format is Format.JSON:
        print(json.dumps(shown.as_json(), indent=2))
    else:
        print(_story(shown))
    return 0 if shown.passed else 1


@contextlib.contextmanager
def _stage(title: str) -> Iterator[Listener]:
    with contextlib.suppress(OSError, ValueError):
        print(title, file=sys.stderr, flush=True)
    with watching() as listener:
        yield listener


@contextlib.contextmanager
def _silence(_: str) -> Iterator[Listener]:
    yield ignore


def _story(shown: Demo) -> str:
    lines = [line for act in shown.acts for line in _told(act)]
    if shown.passed and shown.right is not None:
        evictions = sum(act.evictions for act in shown.acts)
        lines += [
            "",
            f"Survived {evictions} evictions in {format_duration(shown.seconds)} with seed"
            f" {shown.seed}. The network reads {shown.right:.1%} of the images correctly.",
        ]
    else:
        lines += ["", f"Did NOT pass. `outlast demo --seed {shown.seed}` repeats it."]
    return "\n".join([*lines, *(f"Report of {act.name}: {act.page}" for act in shown.acts)])


def _told(act: Act) -> Iterator[str]:
    if not act.passed:
        yield act.report.story()
        yield from (f"NO  {act.name}: {reason}" for reason in act.reasons)
        return
    said = {
        "training": "the model is the same as undisturbed, bit for bit",
        "scoring": "every image has one result, none lost, none doubled",
    }[act.name]
    yield (
        f"ok  {act.name}: {act.evictions} evictions, {act.without_notice} without notice; {said}"
    )
