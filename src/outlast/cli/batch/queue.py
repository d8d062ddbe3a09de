"""`outlast queue URL`: show the counts, throughput and dead items of a queue."""

import itertools
import json
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from cyclopts import Parameter
from rich.live import Live
from rich.table import Table

from outlast._base.durations import format_duration
from outlast._base.terminal import escaped
from outlast.cli.option_types import WholeNumber
from outlast.cli.places import refuse_missing_queue
from outlast.cli.printing import Format, console, progress, say, say_json
from outlast.errors import OutlastError
from outlast.queue.items import DeadLetter, QueueStats
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue

_WATCH_SECONDS = 1.0
_DEAD_SHOWN = 1000


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class QueueFlags:
    """What to show of a queue, or to do with it."""

    watch: bool = False
    """Refresh every second until Ctrl-C. With json, print one line each time."""
    dead: bool = False
    """List dead items with their last error. With json, include payloads and all errors."""
    retry_dead: bool = False
    """Make all dead items ready again and reset their failures. If interrupted, run it again."""
    limit: WholeNumber | None = None
    """With --dead: the maximum number to list. Default: 1,000 as text, all as json."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = QueueFlags()


def queue(url: str, /, *, flags: QueueFlags = _DEFAULTS) -> int:
    """Show how many items are left in a queue, the throughput and the estimated time left.

    Parameters
    ----------
    url: str
        The queue, such as sqlite:///jobs.db.
    """
    _check(flags)
    refuse_missing_queue(url)
    with closing(open_queue(url)) as opened:
        if flags.watch:
            _watch(opened, flags.format)
        elif flags.dead:
            _print_dead(opened, flags.limit, flags.format)
        elif flags.retry_dead:
            _retry_dead(opened, flags.format)
        elif flags.format is Format.JSON:
            say_json(_as_json(opened))
        else:
            console().print(_table(opened.stats()))
    return 0


def _check(flags: QueueFlags) -> None:
    if flags.watch + flags.dead + flags.retry_dead > 1:
        raise OutlastError(
            "--watch, --dead and --retry-dead cannot be combined.", hint="Use only one of them."
        )
    if flags.limit is not None and (flags.limit < 1 or not flags.dead):
        raise OutlastError(
            f"Expected --limit to be at least 1 and used with --dead, got {flags.limit}.",
            hint="For example: outlast queue URL --dead --limit 5000",
        )


def _watch(opened: Queue, format: Format) -> None:
    if format is Format.TEXT and sys.stdout.isatty():
        with Live(_table(opened.stats()), console=console(), auto_refresh=False) as live:
            while True:
                time.sleep(_WATCH_SECONDS)
                live.update(_table(opened.stats()), refresh=True)
    while True:
        if format is Format.JSON:
            say_json(_as_json(opened), flush=True)
        else:
            say(", ".join(f"{name} {text}" for name, text in _rows(opened.stats())), flush=True)
        time.sleep(_WATCH_SECONDS)


def _table(stats: QueueStats) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, text in _rows(stats):
        table.add_row(name, text)
    return table


def _rows(stats: QueueStats) -> list[tuple[str, str]]:
    counts = ("ready", "delayed", "leased", "done", "dead")
    rate = stats.done_per_second
    return [
        *((name, _known(getattr(stats, name), ",")) for name in counts),
        ("oldest", _duration(stats.oldest_seconds)),
        ("rate", "unknown" if rate is None else f"{rate:,.1f} per second"),
        ("time left", _duration(stats.eta_seconds)),
    ]


def _known(count: int | None, how: str) -> str:
    return "unknown" if count is None else format(count, how)


def _duration(seconds: float | None) -> str:
    return "unknown" if seconds is None else format_duration(seconds)


def _as_json(opened: Queue) -> dict[str, object]:
    stats = opened.stats()
    return {"url": opened.url, **stats._asdict(), "eta_seconds": stats.eta_seconds}


def _print_dead(opened: Queue, limit: int | None, format: Format) -> None:
    with closing(opened.iter_dead_letters()) as letters:
        if format is Format.JSON:
            shown = _write_dead(itertools.islice(letters, limit))
        else:
            limit = limit or _DEAD_SHOWN
            shown = _print_dead_table(itertools.islice(letters, limit))
        truncated = next(letters, None) is not None
    total = opened.stats().dead if truncated else shown
    if format is Format.JSON:
        end = json.dumps({"total": total, "truncated": truncated})
        sys.stdout.write(f"], {end[1:]}\n")
    elif truncated:
        of = f"the first {shown:,}" if total is None else f"{shown:,} of {total:,}"
        say(f"Showing {of} dead items; --limit N shows more.", file=sys.stderr)


def _write_dead(letters: Iterable[DeadLetter]) -> int:
    """Write an open JSON object, one dead letter at a time: together they may be large."""
    sys.stdout.write('{"dead": [')
    count = 0
    for letter in letters:
        row = {
            "key": letter.item.key,
            "failures": letter.item.failures,
            "payload": letter.item.payload,
            "errors": list(letter.errors),
        }
        sys.stdout.write((", " if count else "") + json.dumps(row))
        count += 1
    return count


def _print_dead_table(letters: Iterable[DeadLetter]) -> int:
    table = Table("key", "failures", "last error", box=None, pad_edge=False)
    for letter in letters:
        last = letter.errors[-1].rstrip().rpartition("\n")[2] if letter.errors else ""
        key = escaped(letter.item.key, keep="")
        table.add_row(key, f"{letter.item.failures:,}", escaped(last, keep=""))
    if table.row_count:
        console().print(table)
    else:
        say("No dead items.")
    return table.row_count


def _retry_dead(opened: Queue, format: Format) -> None:
    with progress("retrying", total=opened.stats().dead) as advance:
        count = opened.retry_dead(on_progress=advance)
    if format is Format.JSON:
        say_json({"retried": count})
    else:
        say(f"{count:,} dead {'item is' if count == 1 else 'items are'} ready again.")
