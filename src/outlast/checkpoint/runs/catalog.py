"""The checkpoints in a store: list them, read their manifests, and mark what a run has done.

Changes nothing except for two marks. `committed.json` proves that a run has had a checkpoint, even
after all of them are lost. `signed.json` proves that a run is signed, and holds its id.
"""

import contextlib
import json
import uuid
from collections.abc import Iterable

from outlast._base.garbage_collection import no_garbage_collection
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.envelope import fetch
from outlast.checkpoint.format.keys import KEY_FILE, load_hashings
from outlast.checkpoint.format.manifest import MANIFESTS, order_of
from outlast.checkpoint.format.root import AnyManifest, decode_any
from outlast.checkpoint.format.validation import checked_digest
from outlast.storage import (
    ROUTINE,
    AlreadyExists,
    Limits,
    NotFound,
    Store,
    Unreadable,
    create_or_confirm,
    read_json_object,
)

COMMITTED = "committed.json"
"""Shows that the run has committed a checkpoint at some time."""

SIGNED = "signed.json"
"""Shows that the checkpoints of the run are signed, and holds the id that all of them carry."""


def newest_first(names: Iterable[str]) -> list[str]:
    """The manifests among these names, the newest attempt's newest step first."""
    # Thousands of tuples would set off the garbage collector, which takes longer than all of this.
    keys = {name: "{:09}{:012}{:020}".format(*o) for name in names if (o := order_of(name))}
    return sorted(keys, key=keys.__getitem__, reverse=True)


def manifest_names(store: Store, *, limits: Limits = ROUTINE) -> list[str]:
    """The names of all checkpoints, newest first."""
    return newest_first(entry.name for entry in store.list(MANIFESTS, limits=limits))


def read_manifest(store: Store, name: str, *, limits: Limits = ROUTINE) -> AnyManifest:
    """A checkpoint's manifest, or its root if several ranks have saved it.

    Raises `CheckpointCorrupt` if it is not what this run wrote.
    """
    try:
        content = fetch(store, name, limits=limits)
        with no_garbage_collection():
            manifest = decode_any(name, content)
    except Unreadable as error:
        raise CheckpointCorrupt(str(error), hint=error.hint) from error
    if manifest.run_id is not None and manifest.run_id != _signed_run_id(store, limits=limits):
        raise CheckpointCorrupt(
            f"The manifest {name!r} is signed, but belongs to another run.",
            hint="Someone copied it here. Delete it. To copy a run, copy all of its files, "
            f"including {SIGNED}, to an empty folder.",
        )
    return manifest


def mark_committed(store: Store, *, limits: Limits = ROUTINE) -> None:
    """Record that this run has a checkpoint, in case all of them are lost.

    The journal does not prove it: a kill loses its last lines. If killed: the next attempt that
    saves creates the mark.
    """
    with contextlib.suppress(AlreadyExists):
        store.create(COMMITTED, [b"{}"], limits=limits)


def has_committed(store: Store) -> bool:
    """Whether this run has committed a checkpoint at some time."""
    try:
        store.read(COMMITTED, length=0)
    except NotFound:
        return False
    return True


def mark_signed(store: Store, *, limits: Limits = ROUTINE) -> str:
    """Mark this run as signed, so that it is never read without its key; returns its id.

    The first attempt chooses the id. If killed: the next attempt creates the mark.
    """
    data = json.dumps({"run_id": uuid.uuid4().hex}).encode()
    with contextlib.suppress(AlreadyExists):
        create_or_confirm(store, SIGNED, data, limits=limits)
    # Read back: of several attempts that start at once, one has chosen the id.
    return _signed_run_id(store, limits=limits)


def refuse_without_key(store: Store) -> None:
    """Raise `CheckpointCorrupt` for a signed run if no key is set.

    Otherwise anyone who can create objects could add a checkpoint that is not signed.
    """
    if load_hashings():
        return
    with contextlib.suppress(NotFound):
        store.read(SIGNED, length=0)
        raise CheckpointCorrupt(
            f"The checkpoints in {store.url} are signed, but no key is set to verify them.",
            hint=f"Set {KEY_FILE.variable} to the key file of this run.",
        )


def _signed_run_id(store: Store, *, limits: Limits = ROUTINE) -> str:
    try:
        found = read_json_object(store, SIGNED, limits=limits).get("run_id")
        return checked_digest(found, "run_id")
    except (NotFound, Unreadable, ValueError) as error:
        raise CheckpointCorrupt(
            f"The checkpoints in {store.url} are signed, but {SIGNED} there is missing or damaged.",
            hint=f"Restore {SIGNED} from the original run, or start a new run under another URL.",
        ) from error
