"""`outlast demo`: train a real model and use it in real workers, with evictions."""

import contextlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.cli.option_types import WholeNumber
from outlast.cli.printing import Format, say, say_json
from outlast.cli.stopping import clearing_up_on_signals
from outlast.demo.runner import DemoPart, DemoResult, run_demo
from outlast.drills.live.view import watching
from outlast.drills.run.events import Listener, ignore

_PROVEN = {
    "training": "the model is identical to the baseline's, bit for bit",
    "scoring": "every image has exactly one result",
}


def demo(
    *,
    seed: WholeNumber | None = None,
    out: Path = Path("outlast-demo"),
    format: Format = Format.TEXT,
) -> int:
    """Train a small model and score images with it while evicting the processes.

    Takes about a minute and needs no cloud, no server and no GPU. Exits with 0 if the model is
    identical to that of a run without evictions, bit for bit, and every image was scored exactly
    once; otherwise with 1.

    Parameters
    ----------
    seed: int
        Random seed of the images and evictions. Default: a random one, which is printed.
    out: Path
        Folder for the model, the results and the reports. Must be empty or from an earlier demo.
    format: Format
        Output format.
    """
    chosen = random.SystemRandom().randrange(100_000) if seed is None else seed
    present = _with_progress if format is Format.TEXT else _silently
    with clearing_up_on_signals():
        result = run_demo(out, seed=chosen, present=present)
    if format is Format.JSON:
        say_json(result.as_json(), indent=2)
    else:
        say(_summary(result))
    return 0 if result.passed else 1


@contextlib.contextmanager
def _with_progress(title: str) -> Iterator[Listener]:
    with contextlib.suppress(OSError, ValueError):
        say(title, file=sys.stderr, flush=True)
    with watching() as listener:
        yield listener


@contextlib.contextmanager
def _silently(_: str) -> Iterator[Listener]:
    yield ignore


def _summary(result: DemoResult) -> str:
    lines = [line for part in result.parts for line in _part_lines(part)]
    if result.passed and result.accuracy is not None:
        evictions = sum(part.evictions for part in result.parts)
        lines += [
            "",
            f"Survived {evictions} evictions in {format_duration(result.seconds)} with seed"
            f" {result.seed}. The network recognizes {result.accuracy:.1%} of the images.",
        ]
    else:
        lines += ["", f"The demo failed. Repeat it with `outlast demo --seed {result.seed}`."]
    return "\n".join([*lines, *(f"Report of {part.name}: {part.page}" for part in result.parts)])


def _part_lines(part: DemoPart) -> Iterator[str]:
    if not part.passed:
        yield part.report.story()
        yield from (f"FAIL {part.name}: {reason}" for reason in part.reasons)
        return
    yield (
        f"PASS {part.name}: {part.evictions} evictions, {part.without_notice} without notice;"
        f" {_PROVEN[part.name]}"
    )
