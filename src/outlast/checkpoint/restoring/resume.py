"""Find the newest checkpoint that verifies, and fill the state from it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError, NothingVerifies
from outlast.checkpoint.format.manifest import CheckpointManifest, Copy
from outlast.checkpoint.restoring.binding import Binding, PartNotLoaded, bind
from outlast.checkpoint.restoring.comparison import check_restored
from outlast.checkpoint.restoring.loading import load
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.state.nodes import TREE_VERSION
from outlast.checkpoint.state.tree import Tree
from outlast.storage import NotFound, Store

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumption:
    """What was resumed from, and which newer checkpoints were skipped, each with the reason.

    The manifest names only copies that can be read.
    """

    manifest: CheckpointManifest
    seconds: float
    passed_over: tuple[tuple[str, str], ...]


def resume_newest(
    store: Store,
    state: object,
    *,
    fresh: Tree | None = None,
    may_pickle: Collection[str] = (),
    compares: bool = True,
) -> Resumption | None:
    """Fill the state from the newest checkpoint that verifies; None if there is none at all.

    Raises `StateMismatch` before a byte is copied, `RestoreMismatch` if the restored state is not
    what was saved (unless `compares` is false), and `NothingVerifies` if there are checkpoints but
    none can be read back. After the last two the state may be partly filled and must not be used.
    """
    started = time.monotonic()
    passed_over: list[tuple[str, str]] = []
    hints: set[str | None] = set()
    while (name := _next_name(store, passed_over)) is not None:
        try:
            manifest = read_manifest(store, name)
            bad = _fill(store, manifest, state, fresh, may_pickle, compares=compares)
        except (CheckpointCorrupt, NotFound) as error:
            passed_over.append((name, str(error)))
            hints.add(error.hint)
            log.error("Skipped the checkpoint %s: %s", name, error)
            continue
        return Resumption(
            manifest=_without(manifest, bad),
            seconds=time.monotonic() - started,
            passed_over=tuple(passed_over),
        )
    if passed_over:
        raise NothingVerifies(
            f"None of the {len(passed_over)} checkpoints in {store.url} can be read back. "
            + " ".join(reason for _, reason in passed_over[:3]),
            # One reason for all, such as a key that is missing, has one remedy.
            hint=(hints.pop() if len(hints) == 1 else None)
            or "Restore the files, or start over under another URL.",
        )
    return None


def refill(
    store: Store,
    manifest: CheckpointManifest,
    state: object,
    *,
    fresh: Tree,
    may_pickle: Collection[str],
    compares: bool,
) -> None:
    """Fill the state from this checkpoint once more, undoing what was changed since.

    Raises like `resume_newest`, and `CheckpointCorrupt` if the checkpoint cannot be read any more.
    """
    _fill(store, manifest, state, fresh, may_pickle, compares=compares)


def _next_name(store: Store, passed_over: Sequence[tuple[str, str]]) -> str | None:
    """The newest checkpoint not tried yet.

    Listed afresh: an attempt that is still alive may have put a newer one in the place of another.
    """
    tried = {name for name, _ in passed_over}
    return next((name for name in manifest_names(store) if name not in tried), None)


def _fill(
    store: Store,
    manifest: CheckpointManifest,
    state: object,
    fresh: Tree | None,
    may_pickle: Collection[str],
    *,
    compares: bool,
) -> set[Copy]:
    what = f"The checkpoint of step {manifest.step} in {store.url}"
    binding = bind(
        manifest.root,
        manifest.leaves,
        state,
        what=what,
        fresh=fresh,
        may_pickle=may_pickle,
        tree_version=manifest.tree_version,
    )
    loaded = load(store, manifest, binding.targets)
    _finish(binding, what)
    # A tree of an earlier version lacks what is compared here.
    if compares and manifest.tree_version >= TREE_VERSION:
        verified = binding.targets if binding.runs_known_code else None
        check_restored(
            manifest, loaded.pieces, state, verified=verified, what=what, may_pickle=may_pickle
        )
    return loaded.bad


def _finish(binding: Binding, what: str) -> None:
    """Hand the restored parts to the objects that load them, which may raise anything."""
    try:
        binding.finish()
    except Exception as error:
        cause, where = error, "the state"
        if isinstance(error, PartNotLoaded) and isinstance(error.__cause__, Exception):
            cause, where = error.__cause__, error.path
        raise CheckpointError(
            f"{what} could not be loaded into {where}: {type(cause).__name__}: {cause}",
            hint="The state is incomplete: restart the program. Check that the same kind of object "
            "is there, and that its load_state_dict accepts what its state_dict returned.",
        ) from cause


def _without(manifest: CheckpointManifest, bad: Collection[Copy]) -> CheckpointManifest:
    if not bad:
        return manifest
    chunks = tuple(
        replace(chunk, copies=tuple(copy for copy in chunk.copies if copy not in bad))
        for chunk in manifest.chunks
    )
    return replace(manifest, chunks=chunks)
