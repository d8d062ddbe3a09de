"""`outlast checkpoints URL`: list, verify, compare, export and prune the checkpoints of a run."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn
from rich.table import Table

from outlast.checkpoint import fence, inspection
from outlast.checkpoint.catalogue import Retention, find_garbage, manifest_names, remove
from outlast.checkpoint.format import order_of
from outlast.checkpoint.safetensors import write_safetensors
from outlast.cli.format import Format
from outlast.storage import Store, open_store


def checkpoints(
    url: str,
    /,
    *,
    verify: bool = False,
    diff: tuple[int, int] | None = None,
    export: tuple[int, Path] | None = None,
    prune: bool = False,
    keep_last: int = 3,
    format: Format = Format.TEXT,
) -> int:
    """List the checkpoints of a run, or look into them.

    Parameters
    ----------
    url: str
        The run: a folder, or a URL such as gs://bucket/run.
    verify: bool
        Read every byte and check it. Exits with 1 when something does not verify.
    diff: tuple[int, int]
        Two steps: say which arrays changed between them.
    export: tuple[int, Path]
        A step and a file: write the arrays of that checkpoint as safetensors.
    prune: bool
        Delete all but the last few checkpoints, and the bytes that none needs any more.
    keep_last: int
        How many checkpoints to keep when pruning.
    format: Format
        text for people, json for programs.
    """
    store = open_store(url)
    if diff is not None:
        return _diff(store, diff, format)
    if export is not None:
        return _export(store, export)
    if prune:
        _prune(store, keep_last)
    return _list(store, format, reads_all=verify)


def _list(store: Store, format: Format, *, reads_all: bool) -> int:
    with _progress(shown=reads_all and format is Format.TEXT) as on_bytes:
        found = list(inspection.summaries(store, reads_all=reads_all, on_bytes=on_bytes))
    if format is Format.JSON:
        print(json.dumps({"url": store.url, "checkpoints": [_as_json(one) for one in found]}))
    else:
        _print_table(store, found)
    return 1 if any(one.problems for one in found) else 0


def _print_table(store: Store, found: Sequence[inspection.Summary]) -> None:
    if not found:
        print(f"There are no checkpoints in {store.url}.")
        return
    table = Table("step", "saved at (UTC)", "size", "new", "attempt", "verified", box=None)
    for one in found:
        verdict = "not asked" if one.problems is None else "no" if one.problems else "yes"
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
    Console(highlight=False).print(table)
    for one in found:
        for problem in one.problems or ():
            print(f"problem: {problem}", file=sys.stderr)


def _as_json(one: inspection.Summary) -> dict[str, object]:
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
        print(json.dumps({**{k: list(v) for k, v in kinds.items()}, "same": found.same}))
        return 0
    for kind, paths in (("~", found.changed), ("+", found.added), ("-", found.removed)):
        for path in paths:
            print(kind, path)
    print(
        f"{len(found.changed)} changed, {len(found.added)} added, {len(found.removed)} removed, "
        f"{found.same} the same."
    )
    return 0


def _export(store: Store, wanted: tuple[int, Path]) -> int:
    step, path = wanted
    arrays = inspection.arrays_of(store, inspection.find(store, step))
    write_safetensors(path, arrays)
    print(f"Wrote {len(arrays)} arrays of step {step} to {path}.")
    return 0


def _prune(store: Store, keep_last: int) -> None:
    # Claimed, because only the newest attempt may delete. A run in progress is fenced by it.
    attempt = fence.claim(store)
    newest = manifest_names(store)[:1]
    resumed = order_of(newest[0]) if newest else None
    garbage = find_garbage(store, Retention(keep_last=keep_last), attempt, resumed=resumed)
    remove(store, garbage)
    print(f"Deleted {len(garbage.manifests)} checkpoints.", file=sys.stderr)


class _progress:
    """A bar of the bytes read, where a person watches."""

    def __init__(self, *, shown: bool) -> None:
        self._bar = Progress(
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=Console(stderr=True),
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
