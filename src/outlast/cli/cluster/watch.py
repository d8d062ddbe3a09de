"""`outlast watch RUN`: why a run waits, how its attempts ended, and when it finishes."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from outlast.cli.cluster.connection import ConnectionFlags
from outlast.cli.printing import Format, console, say, say_json
from outlast.cluster.errors import ClusterError
from outlast.cluster.runs.target import RunTarget, read_target
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient
    from outlast.cluster.watching.session import RunCluster, WatchSession
    from outlast.cluster.watching.view import RunView

_COLLECT_SECONDS = 20.0
_TICK_SECONDS = 1.0
_IDLE_TICKS = 5
"""While nothing happens, the screen is drawn again this often: ages and times move on."""
_GROUP_SECONDS = 0.5
_WIDTH = 100


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WatchFlags(ConnectionFlags):
    """What to show."""

    once: bool = False
    """Print the present state and exit."""
    all: Annotated[bool, Parameter(negative=())] = False
    """Show a table of all runs of the namespace, or without --namespace of the cluster."""
    journal: str | None = None
    """Where the run saves, such as gs://bucket/run. Default: as in the file or the Job."""
    format: Format = Format.TEXT
    """Output format. With json and without --once, one line for each change."""


_DEFAULTS = WatchFlags()


def watch(run: str | None = None, /, *, flags: WatchFlags = _DEFAULTS) -> int:
    """Show why a run waits, how its attempts ended, what it has cost and when it finishes.

    Follows the cluster and the run's journal, and shows what can be seen if one of them is
    missing. Ends when the run has ended; Ctrl-C ends it earlier, and the run goes on. Changes
    nothing.

    Exits with 0, or with 1 if the run has failed or does not exist, 2 for wrong usage and 3 if the
    cluster does not answer.

    Parameters
    ----------
    run: str
        The name of a run, its workload file or manifest, or its URL, such as gs://bucket/run.
    """
    if flags.all:
        if run is not None or flags.journal is not None:
            raise OutlastError("--all shows all runs.", hint="Leave out the run and --journal.")
        from outlast.cli.cluster.watch_all import watch_all

        return watch_all(flags, once=flags.once, format=flags.format)
    if run is None:
        raise OutlastError(
            "No run was given.", hint="Pass its name, file or URL, or --all for all runs."
        )
    target = read_target(run, journal=flags.journal)
    with _session(target, flags) as session:
        session.collect(_COLLECT_SECONDS)
        view = _viewed(session)
        if not flags.once:
            view = _live(session, view, flags)
        elif flags.format is Format.JSON:
            _print_json(view, indent=2)
        else:
            _print(view)
    is_nothing_known = view.state == "unknown" and view.progress is None
    return 1 if view.state == "failed" or is_nothing_known else 0


@contextmanager
def _session(target: RunTarget, flags: WatchFlags) -> Iterator["WatchSession"]:
    """Follow the run in the cluster and its journal, or one of them if the other is missing."""
    with ExitStack() as stack:
        cluster = None
        gaps: tuple[str, ...] = ()
        namespace = flags.namespace or target.namespace or ""
        try:
            client = stack.enter_context(_connected(flags))
            namespace = namespace or client.namespace
            cluster = _found(client, target, namespace)
            if cluster is None:
                gaps = (_without_cluster(f"No Job in namespace {namespace!r} saves there."),)
        except ClusterError as error:
            if not target.url:
                raise
            gaps = (_without_cluster(f"{error}"),)
        from outlast.cluster.watching.session import WatchSession

        yield stack.enter_context(
            WatchSession(
                target,
                cluster=cluster,
                namespace=namespace if cluster is not None else "",
                gaps=gaps,
            )
        )


@contextmanager
def _connected(flags: WatchFlags) -> Iterator["ClusterClient"]:
    from outlast.cli.cluster.connection import connected

    with connected(flags) as client:
        yield client


def _found(client: "ClusterClient", target: RunTarget, namespace: str) -> "RunCluster | None":
    from outlast.cluster.runs.selection import find_by_url, select_run

    selection = (
        find_by_url(client, target.url, namespace)
        if target.is_url
        else select_run(client, target.name, namespace)
    )
    if selection is None:
        return None
    # Imports the diagnosis, after the first request: whether the cluster answers is known sooner.
    from outlast.cluster.watching.session import RunCluster

    return RunCluster(client, selection, cut_streams=client.cut_streams, now=client.now)


def _without_cluster(why: str) -> str:
    return f"Only the journal is shown, without the cluster: whether it waits is not known. {why}"


def _live(session: "WatchSession", view: "RunView", flags: WatchFlags) -> "RunView":
    if flags.format is Format.TEXT and sys.stdout.isatty():
        return _live_screen(session, view)
    last = None
    while True:
        if (key := _key(view)) != last:
            last = key
            if flags.format is Format.JSON:
                _print_json(view)
            else:
                _print_line(view)
        if _has_ended(view):
            return view
        while not session.wait(_TICK_SECONDS):
            pass
        time.sleep(_GROUP_SECONDS)
        session.wait(0.0)
        view = _viewed(session)


def _live_screen(session: "WatchSession", view: "RunView") -> "RunView":
    from rich.live import Live

    from outlast.cli.cluster.screen import board_screen
    from outlast.cluster.watching.board import board_of

    out = console()
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(board_screen(board_of(view), out.width), refresh=True)
            if _has_ended(view):
                return view
            for _ in range(_IDLE_TICKS):
                if session.wait(_TICK_SECONDS):
                    # Changes come in groups; one drawing for each group.
                    time.sleep(_GROUP_SECONDS)
                    session.wait(0.0)
                    break
            view = _viewed(session)


def _viewed(session: "WatchSession") -> "RunView":
    view = session.view()
    return session.final_view(_COLLECT_SECONDS) if _has_ended(view) else view


def _has_ended(view: "RunView") -> bool:
    return view.state in ("finished", "failed")


def _key(view: "RunView") -> object:
    progress = view.progress
    return (
        view.state,
        view.why and view.why.summary,
        len(view.attempts),
        progress and (progress.saved_step, progress.evictions, progress.is_finished),
        view.as_of is None,
    )


def _print(view: "RunView") -> None:
    from outlast.cluster.watching.board import board_lines, board_of

    out = console()
    if sys.stdout.isatty():
        from outlast.cli.cluster.screen import board_screen

        out.print(board_screen(board_of(view), out.width))
        return
    for line in board_lines(board_of(view), _WIDTH):
        say(line)


def _print_line(view: "RunView") -> None:
    from outlast.cluster.watching.board import board_of

    board = board_of(view)
    rows = {row.label: row.text for row in board.rows}
    parts = [
        f"{label}: {rows[label]}" for label in ("as of", "why", "steps", "saved") if label in rows
    ]
    say(f"{board.clock} {board.name} {board.headline}. {'. '.join(parts)}", flush=True)


def _print_json(view: "RunView", indent: int | None = None) -> None:
    from outlast.cluster.watching.view_json import view_json

    say_json(view_json(view), indent=indent, flush=True)
