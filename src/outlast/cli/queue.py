"""`outlast queue URL`: how much is left, who holds it, how fast it goes, and what was given up."""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from rich.console import Console
from rich.live import Live
from rich.table import Table

from outlast._base.durations import format_duration
from outlast.cli.format import Format
from outlast.cli.places import refuse_missing
from outlast.errors import OutlastError
from outlast.queue.errors import QueueUrlError
from outlast.queue.items import DeadLetter, Stats
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue

_WATCH_SECONDS = 1.0


def queue(
    url: str,
    /,
    *,
    watch: bool = False,
    dead: bool = False,
    retry_dead: bool = False,
    format: Format = Format.TEXT,
) -> int:
    """Show how much is left in a queue, how fast it goes and when it should be done.

    Parameters
    ----------
    url: str
        The queue, such as sqlite:///jobs.db.
    watch: bool
        Show it again every second, until Ctrl-C. With json, one line each time.
    dead: bool
        List the items that were given up, with their last error; with json, with all of it.
    retry_dead: bool
        Give the items that were given up another chance, with no failures counted.
    format: Format
        text for people, json for programs.
    """
    if watch + dead + retry_dead > 1:
        raise OutlastError(
            "--watch, --dead and --retry-dead do not go together.", hint="Give one of them."
        )
    refuse_missing(url, refused=QueueUrlError)
    with closing(open_queue(url)) as opened:
        if watch:
            _watch(opened, format)
        elif dead:
            _print_dead(opened.dead_letters(), format)
        elif retry_dead:
            count = opened.retry_dead()
            print(json.dumps({"retried": count}) if format is Format.JSON else _retried(count))
        elif format is Format.JSON:
            print(json.dumps(_as_json(opened)))
        else:
            Console(highlight=False).print(_table(opened.stats()))
    return 0


def _watch(opened: Queue, format: Format) -> None:
    if format is Format.TEXT and sys.stdout.isatty():
        with Live(_table(opened.stats()), auto_refresh=False) as live:
            while True:
                time.sleep(_WATCH_SECONDS)
                live.update(_table(opened.stats()), refresh=True)
    while True:
        if format is Format.JSON:
            print(json.dumps(_as_json(opened)), flush=True)
        else:
            print(", ".join(f"{name} {text}" for name, text in _rows(opened.stats())), flush=True)
        time.sleep(_WATCH_SECONDS)


def _table(stats: Stats) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, text in _rows(stats):
        table.add_row(name, text)
    return table


def _rows(stats: Stats) -> list[tuple[str, str]]:
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


def _print_dead(letters: Sequence[DeadLetter], format: Format) -> None:
    if format is Format.JSON:
        rows = [
            {"key": letter.item.key, "payload": letter.item.payload, "errors": list(letter.errors)}
            for letter in letters
        ]
        print(json.dumps({"dead": rows}))
        return
    if not letters:
        print("No item was given up.")
        return
    table = Table("key", "failures", "last error", box=None, pad_edge=False)
    for letter in letters:
        last = letter.errors[-1].rpartition("\n")[2] if letter.errors else ""
        table.add_row(letter.item.key, str(letter.item.failures), last)
    Console(highlight=False, markup=False).print(table)


def _retried(count: int) -> str:
    return f"{count:,} items get another chance."
