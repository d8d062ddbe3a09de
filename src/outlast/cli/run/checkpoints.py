"""`outlast checkpoints URL`: list, verify, compare, export and prune the checkpoints of a run."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn
from rich.table import Table

from outlast._base.terminal import escaped
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.manifest import order_of
from outlast.checkpoint.format.safetensors import write_safetensors
from outlast.checkpoint.format.validation import checked_date
from outlast.checkpoint.restoring import inspection
from outlast.checkpoint.runs import fence
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest, refuse_without_key
from outlast.checkpoint.runs.history import read_history
from outlast.checkpoint.runs.inventory import Garbage, Retention, delete_garbage, find_garbage
from outlast.cli.option_types import WholeNumber
from outlast.cli.printing import Format, console, say, say_json
from outlast.errors import OutlastError
from outlast.journal.attempt import Attempt, Ending
from outlast.journal.events import utc_now
from outlast.journal.reader import read_attempt
from outlast.storage import NotFound, Store, open_store, read_json_object

_PRUNE = "prune"
_SILENT_MINUTES = 60


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CheckpointFlags:
    """What to do with the checkpoints of a run, besides listing them."""

    verify: bool = False
    """Read and verify every byte. Exits with 1 if anything is damaged."""
    diff: tuple[int, int] | None = None
    """Two steps: list the arrays that changed between them."""
    export: tuple[int, Path] | None = None
    """A step and a file: write the arrays of that checkpoint to a safetensors file."""
    prune: bool = False
    """Delete all but the newest checkpoints, and all data that only they needed."""
    keep_last: WholeNumber = 3
    """How many checkpoints --prune keeps; at least 1."""
    force: bool = False
    """Prune even if the run may still be running, which stops it at its next save."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = CheckpointFlags()


def checkpoints(url: str, /, *, flags: CheckpointFlags = _DEFAULTS) -> int:
    """List, verify, compare, export or prune the checkpoints of a run.

    Parameters
    ----------
    url: str
        The run: a folder or a URL such as gs://bucket/run.
    """
    if flags.keep_last < 1:
        raise OutlastError(
            f"--keep-last must be at least 1, got {flags.keep_last}.",
            hint="The newest checkpoint is always kept. To delete a run, delete its folder.",
        )
    store = open_store(url)
    refuse_without_key(store)
    if flags.diff is not None:
        return _diff(store, flags.diff, flags.format)
    if flags.export is not None:
        return _export(store, flags.export)
    if flags.prune or flags.verify:
        _refuse_if_no_run(store)
    if flags.prune:
        _prune(store, Retention(keep_last=flags.keep_last), force=flags.force)
    return _list(store, flags.format, reads_all=flags.verify)


def _list(store: Store, format: Format, *, reads_all: bool) -> int:
    with _progress(shown=reads_all and format is Format.TEXT) as on_bytes:
        found = list(inspection.summaries(store, reads_all=reads_all, on_bytes=on_bytes))
    if not found:
        _refuse_if_no_run(store)
    if format is Format.JSON:
        say_json({"url": store.url, "checkpoints": [_as_json(one) for one in found]})
    else:
        _print_table(store, found)
    return 1 if any(one.problems for one in found) else 0


def _print_table(store: Store, found: Sequence[inspection.CheckpointSummary]) -> None:
    if not found:
        say(f"No checkpoints in {store.url}.")
        return
    table = Table("step", "saved at (UTC)", "size", "new", "attempt", "verified", box=None)
    for one in found:
        verdict = "not checked" if one.problems is None else "no" if one.problems else "yes"
        if one.created is None:
            table.add_row(one.name, "-", "-", "-", "-", "no")
            continue
        table.add_row(
            f"{one.step:,}",
            f"{one.created:%Y-%m-%d %H:%M:%S}",
            _size(one.size_bytes),
            _size(one.new_bytes),
            str(one.attempt),
            verdict,
        )
    console().print(table)
    for one in found:
        for problem in one.problems or ():
            say(f"problem: {problem}", file=sys.stderr)


def _as_json(one: inspection.CheckpointSummary) -> dict[str, object]:
    return {
        "name": one.name,
        "step": one.step,
        "attempt": one.attempt,
        "created": one.created.isoformat() if one.created else None,
        "size_bytes": one.size_bytes,
        "new_bytes": one.new_bytes,
        "verified": None if one.problems is None else not one.problems,
        "problems": list(one.problems or ()),
    }


def _diff(store: Store, steps: tuple[int, int], format: Format) -> int:
    before, after = (inspection.find(store, step) for step in steps)
    found = inspection.compare(store, before, after)
    if format is Format.JSON:
        kinds = {"changed": found.changed, "added": found.added, "removed": found.removed}
        say_json({**{k: list(v) for k, v in kinds.items()}, "same": found.same})
        return 0
    for kind, paths in (("~", found.changed), ("+", found.added), ("-", found.removed)):
        for path in paths:
            say(kind, escaped(path, keep=""))
    say(
        f"{len(found.changed)} changed, {len(found.added)} added, {len(found.removed)} removed, "
        f"{found.same} unchanged."
    )
    return 0


def _export(store: Store, wanted: tuple[int, Path]) -> int:
    step, path = wanted
    arrays = inspection.arrays_of(store, inspection.find(store, step))
    write_safetensors(path, arrays)
    say(f"Wrote {len(arrays)} arrays of step {step} to {path}.")
    return 0


def _refuse_if_no_run(store: Store) -> None:
    if not fence.numbers(store) and not manifest_names(store):
        raise OutlastError(
            f"No run found in {store.url}.",
            hint="Check the path. Give the folder or URL of the outlast.Run, such as ./run or "
            "gs://bucket/run.",
        )


def _prune(store: Store, retention: Retention, *, force: bool) -> None:
    """Check first, then claim an attempt, because only the newest attempt may delete."""
    _refuse_if_newest_is_unreadable(store)
    newest = fence.newest(store)
    garbage = _garbage(store, retention, newest + 1)
    if not garbage.manifests and not garbage.packs:
        say("Nothing to delete.", file=sys.stderr)
        return
    _refuse_if_alive(store, newest, force=force)
    settled, _ = read_history(store, newest)
    facts = {**settled.to_facts(), "purpose": _PRUNE}
    garbage = _garbage(store, retention, fence.claim(store, after=newest, facts=facts))
    delete_garbage(store, garbage)
    say(f"Deleted {len(garbage.manifests)} checkpoints.", file=sys.stderr)


def _refuse_if_newest_is_unreadable(store: Store) -> None:
    """Otherwise the last good checkpoints might be deleted in favor of an unreadable one."""
    try:
        for name in manifest_names(store)[:1]:
            read_manifest(store, name)
    except CheckpointCorrupt as error:
        raise CheckpointCorrupt(
            f"The newest checkpoint cannot be read, so nothing was deleted. {error}",
            hint=f"Run `outlast checkpoints {store.url} --verify`, then delete the bad manifest.",
        ) from error


def _garbage(store: Store, retention: Retention, attempt: int) -> Garbage:
    newest = manifest_names(store)[:1]
    resumed = order_of(newest[0]) if newest else None
    return find_garbage(store, retention, attempt, resumed=resumed)


def _refuse_if_alive(store: Store, attempt: int, *, force: bool) -> None:
    """Refuse to stop a run that may still be running. A killed process records no end."""
    last = _last_active(store, attempt)
    if last is None:
        return
    minutes = max(0, round((utc_now() - last).total_seconds() / 60))
    if force or minutes >= _SILENT_MINUTES:
        say(
            f"note: Attempt {attempt} has not recorded an end. If it is still running, it stops "
            "at its next save.",
            file=sys.stderr,
        )
        return
    raise OutlastError(
        f"Attempt {attempt} of {store.url} may still be running: it has not recorded an end, and "
        f"it was last active {minutes} min ago.",
        hint="Pruning would stop it. A run prunes its checkpoints by itself. To prune this one, "
        "stop it first, or add --force.",
    )


def _last_active(store: Store, attempt: int) -> datetime | None:
    """When an attempt was last active; None if it has ended, or there is none."""
    record = read_attempt(store, attempt)
    if record is not None:
        seen = Attempt(record)
        return seen.ended if seen.ending(may_run=True) is Ending.OPEN else None
    try:
        facts = read_json_object(store, fence.name_of(attempt))
        created = checked_date(facts.get("created"))
    except (NotFound, ValueError):
        return None
    return None if facts.get("purpose") == _PRUNE else created


class _progress:
    """A progress bar of the bytes read, on a terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._bar = Progress(
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console(stderr=True),
            disable=not (shown and sys.stderr.isatty()),
            transient=True,
        )

    def __enter__(self) -> Callable[[int], object]:
        self._bar.__enter__()
        task = self._bar.add_task("", total=None)
        return lambda count: self._bar.advance(task, count)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
