"""`outlast stop RUN`: stop a run after its final save."""

import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from cyclopts import Parameter

from outlast.cli.cluster.connection import ConnectionFlags, connected
from outlast.cli.cluster.runs import selected
from outlast.cli.option_types import PositiveDuration
from outlast.cli.printing import Format, say, say_json
from outlast.cluster.diagnosis.facts import job_fact
from outlast.cluster.runs.final_save import FinalSave, read_final_save
from outlast.cluster.runs.selection import RunSelection
from outlast.cluster.runs.stopping import Change, ChangedObject, stop_run, wait_until_stopped
from outlast.cluster.runs.target import RunTarget, reachable_url, read_target

if TYPE_CHECKING:
    from outlast.cluster.connection.client import ClusterClient

JSON_VERSION = 1
_TIMEOUT = timedelta(minutes=15)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StopFlags(ConnectionFlags):
    """How to stop."""

    dry_run: bool = False
    """Show what would be stopped, and change nothing."""
    timeout: PositiveDuration = _TIMEOUT
    """How long to wait until all Pods have ended. The run is stopped in any case."""
    journal: str | None = None
    """Where the run saves, such as gs://bucket/run. Default: as in the file or the Job."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = StopFlags()


def stop(run: str, /, *, flags: StopFlags = _DEFAULTS) -> int:
    """Stop a run, and wait until its final save is in the journal.

    Suspends the Job or JobSet, or deactivates its Workload if Kueue manages it. The Pods get their
    grace period to save. `outlast resume` continues the run. Safe to repeat.

    Exits with 0 if the run is stopped with all its work saved, 1 if not or if it is not known, 2
    for wrong usage and 3 if the cluster does not answer.

    Parameters
    ----------
    run: str
        The name of a run, its workload file or manifest, or its URL, such as gs://bucket/run.
    """
    target = read_target(run, journal=flags.journal)
    with connected(flags) as client:
        selection = selected(client, target, flags)
        changes = []
        for change in stop_run(client, selection, dry_run=flags.dry_run):
            changes.append(change)
            if flags.format is Format.TEXT:
                print_change(change, dry_run=flags.dry_run)
        if flags.dry_run or all(one.change is Change.ENDED for one in changes):
            if flags.format is Format.JSON:
                say_json(_as_json(changes, None, (), flags), indent=2)
            return 0
        left = _wait(client, selection, flags)
        save = None if left else _final_save(client, selection, target)
    if flags.format is Format.JSON:
        say_json(_as_json(changes, save, left, flags), indent=2)
    return _report(selection, save, left, flags)


def print_change(change: ChangedObject, *, dry_run: bool) -> None:
    """One line about an object."""
    is_changed = change.change in (Change.STOPPED, Change.RESUMED)
    word = f"would be {change.change}" if dry_run and is_changed else change.change.value
    note = f" ({change.note})" if change.note else ""
    say(f"{change.title} {word}{note}", flush=True)


def _wait(client: "ClusterClient", selection: RunSelection, flags: StopFlags) -> tuple[str, ...]:
    try:
        return wait_until_stopped(
            client,
            selection,
            timeout_seconds=flags.timeout.total_seconds(),
            cut_streams=client.cut_streams,
        )
    except KeyboardInterrupt:
        say("Stopped waiting. The run is being stopped in the cluster.", file=sys.stderr)
        raise


def _final_save(client: "ClusterClient", selection: RunSelection, target: RunTarget) -> FinalSave:
    jobs = [job_fact(item) for item in client.list(selection.jobs)]
    stated = next((url for job in jobs if (url := reachable_url(job.run_url))), "")
    return read_final_save(target.url or stated)


def _report(
    selection: RunSelection, save: FinalSave | None, left: tuple[str, ...], flags: StopFlags
) -> int:
    if save is None:
        names = ", ".join(left[:3])
        say(f"error: Pods are still ending: {names}.", file=sys.stderr)
        say(
            "hint:  They are stopped after their grace period. See `outlast watch`.",
            file=sys.stderr,
        )
        return 1
    if flags.format is Format.TEXT:
        say(f"{save.text} Continue with: outlast resume {selection.name}")
    return 0 if save.is_complete else 1


def _as_json(
    changes: list[ChangedObject],
    save: FinalSave | None,
    left: tuple[str, ...],
    flags: StopFlags,
) -> dict[str, object]:
    return {
        "version": JSON_VERSION,
        "dry_run": flags.dry_run,
        "objects": [
            {"title": one.title, "change": one.change.value, "note": one.note} for one in changes
        ],
        "pods_left": list(left),
        "save": None
        if save is None
        else {"is_complete": save.is_complete, "step": save.step, "text": save.text},
    }
