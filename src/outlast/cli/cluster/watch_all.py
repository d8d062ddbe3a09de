"""`outlast watch --all`: all runs of a namespace or cluster in one table."""

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.printing import Format, console, say, say_json
from outlast.cluster.errors import ApiRefusal, ClusterError
from outlast.cluster.resources import JOBS, PODS
from outlast.cluster.watching.board import table_lines
from outlast.cluster.watching.fleet import Fleet, fleet_json, fleet_summary, fleet_table

if TYPE_CHECKING:
    from rich.console import Group

    from outlast.cluster.connection.client import ClusterClient

_COLLECT_SECONDS = 30.0
_TICK_SECONDS = 1.0
_IDLE_TICKS = 5
_GROUP_SECONDS = 0.5
_PLAIN_WIDTH = 160


def watch_all(flags: ConnectionFlags, *, once: bool, format: Format) -> int:
    """Show the table once, or until Ctrl-C."""
    with connected(flags) as client:
        namespace, note = _scope(client, flags)
        fleet = Fleet(client, namespace, cut_streams=client.cut_streams, now=client.now)
        with fleet.feed:
            _collect(fleet)
            if once:
                _print(fleet, note, format, indent=2)
            else:
                _live(fleet, note, format)
    return 0


def _scope(client: "ClusterClient", flags: ConnectionFlags) -> tuple[str | None, str]:
    """The namespace to show, None for all if that is permitted."""
    if flags.namespace is not None:
        return flags.namespace, ""
    try:
        if all(client.can_i("list", one) for one in (JOBS, PODS)):
            return None, ""
    except ApiRefusal:
        pass
    note = f"No permission to list all namespaces, so only {client.namespace!r} is shown."
    return client.namespace, note


def _collect(fleet: Fleet) -> None:
    until = time.monotonic() + _COLLECT_SECONDS
    while not fleet.picture.is_complete and time.monotonic() < until:
        fleet.take(_TICK_SECONDS)
    if not fleet.picture.has_required:
        raise fleet.problem or ClusterError("The cluster did not answer in time.")


def _live(fleet: Fleet, note: str, format: Format) -> None:
    if format is Format.TEXT and sys.stdout.isatty():
        _live_screen(fleet, note)
    while True:
        _print(fleet, note, format)
        while not fleet.take(_TICK_SECONDS):
            pass
        time.sleep(_GROUP_SECONDS)
        fleet.take(0.0)


def _live_screen(fleet: Fleet, note: str) -> None:
    from rich.live import Live

    out = console()
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            screen = fleet_screen(fleet, note, out.width, out.height, fleet.now())
            live.update(screen, refresh=True)
            for _ in range(_IDLE_TICKS):
                if fleet.take(_TICK_SECONDS):
                    # Changes come in groups; one drawing for each group.
                    time.sleep(_GROUP_SECONDS)
                    fleet.take(0.0)
                    break


def _print(fleet: Fleet, note: str, format: Format, *, indent: int | None = None) -> None:
    now = fleet.now()
    if format is Format.JSON:
        say_json(fleet_json(fleet, now), indent=indent, flush=True)
        return
    out = console()
    width = out.width if sys.stdout.isatty() else _PLAIN_WIDTH
    for line in _lines(fleet, note, width, now):
        say(line, flush=True)


def _lines(
    fleet: Fleet, note: str, width: int, now: datetime, rows_max: int | None = None
) -> list[str]:
    rows = fleet.rows()
    lines = [f"{fleet_summary(rows)}  {now:%Y-%m-%d %H:%M:%S} UTC"]
    if (as_of := fleet.as_of) is not None:
        lines.append(f"as of {as_of:%H:%M:%S} UTC: the cluster does not answer. Retrying.")
    if rows:
        lines += ["", *table_lines(fleet_table(rows[:rows_max], now), width)]
    if rows_max is not None and len(rows) > rows_max:
        lines.append(f"and {len(rows) - rows_max:,} more: make the window taller, or use --once")
    notes = [one for one in (note, *fleet.notes) if one]
    return [*lines, "", *notes] if notes else lines


def fleet_screen(fleet: Fleet, note: str, width: int, height: int, now: datetime) -> "Group":
    """The table as it fits on a terminal."""
    from rich.console import Group
    from rich.text import Text

    from outlast._base.terminal import escaped

    lines = _lines(fleet, note, width, now, rows_max=max(5, height - 8))
    return Group(*(Text(escaped(line, keep="")) for line in lines))
