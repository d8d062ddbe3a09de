"""Find the newest checkpoint that verifies, and fill the state from it."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from outlast.checkpoint.binding import bind
from outlast.checkpoint.catalogue import manifest_names, read_manifest
from outlast.checkpoint.errors import CheckpointCorrupt, NothingVerifies
from outlast.checkpoint.format import Copy, Manifest
from outlast.checkpoint.loading import load
from outlast.storage import NotFound, Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumption:
    """What was resumed from, and which newer checkpoints were passed over, each with its reason.

    The manifest names only copies that can be read.
    """

    manifest: Manifest
    seconds: float
    passed_over: tuple[tuple[str, str], ...]


def resume_newest(
    store: Store, state: object, *, may_pickle: Collection[str] = ()
) -> Resumption | None:
    """Fill the state from the newest checkpoint that verifies; None if there is none at all.

    Raises `StateMismatch` before a byte is copied, and `NothingVerifies` if there are checkpoints
    but none can be read back: then the state may be a mixture and must not be used.
    """
    started = time.monotonic()
    passed_over: list[tuple[str, str]] = []
    while (name := _next_name(store, passed_over)) is not None:
        try:
            manifest = read_manifest(store, name)
            bad = _fill(store, manifest, state, may_pickle)
        except (CheckpointCorrupt, NotFound) as error:
            passed_over.append((name, str(error)))
            log.error("The checkpoint %s was passed over. %s", name, error)
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
            hint="Restore the files, or start anew under another URL.",
        )
    return None


def _next_name(store: Store, passed_over: Sequence[tuple[str, str]]) -> str | None:
    """The newest checkpoint not tried yet.

    Listed afresh: an attempt that is still alive may have put a newer one in the place of another.
    """
    tried = {name for name, _ in passed_over}
    return next((name for name in manifest_names(store) if name not in tried), None)


def _fill(
    store: Store, manifest: Manifest, state: object, may_pickle: Collection[str]
) -> set[Copy]:
    what = f"The checkpoint of step {manifest.step} in {store.url}"
    binding = bind(manifest.root, manifest.leaves, state, what=what, may_pickle=may_pickle)
    bad = load(store, manifest, binding.targets)
    binding.finish()
    return bad


def _without(manifest: Manifest, bad: Collection[Copy]) -> Manifest:
    if not bad:
        return manifest
    chunks = tuple(
        replace(chunk, copies=tuple(copy for copy in chunk.copies if copy not in bad))
        for chunk in manifest.chunks
    )
    return replace(manifest, chunks=chunks)
