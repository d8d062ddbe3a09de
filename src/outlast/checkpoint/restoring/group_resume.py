"""Resume several ranks from one checkpoint, the newest that all of them can read.

Rank 0 proposes checkpoints, newest first. Every rank loads its own part and says how that went. If
one cannot read its part, all go on to the next older checkpoint, which overwrites everything; if
one refuses the checkpoint because it does not match its state, all ranks raise.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.manifest import Chunk
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.ranks import START_SECONDS_MAX, RankGroup
from outlast.checkpoint.restoring.resume import Resumption, SkippedCheckpoints, StateFiller
from outlast.checkpoint.runs.catalog import read_manifest
from outlast.errors import OutlastError
from outlast.storage import NotFound, Store


def resume_together(
    store: Store,
    filler: StateFiller,
    group: RankGroup,
    *,
    known: AnyManifest | None = None,
    check_empty: Callable[[], object] = lambda: None,
) -> Resumption | None:
    """Fill the state of this rank; None if the run has no checkpoint at all.

    `known` is a manifest that was read already. `check_empty` is called on rank 0 if there is no
    checkpoint, and raises if there should be one. Raises like `resume_newest`, on all ranks if it
    does on one.
    """
    return _GroupResume(store, filler, group, known, check_empty).run()


class _GroupResume:
    def __init__(
        self,
        store: Store,
        filler: StateFiller,
        group: RankGroup,
        known: AnyManifest | None,
        check_empty: Callable[[], object],
    ) -> None:
        self._store = store
        self._filler = filler
        self._group = group
        self._known = known
        self._check_empty = check_empty
        self._skipped = SkippedCheckpoints(store)
        self._round = 0

    def run(self) -> Resumption | None:
        started = time.monotonic()
        while name := self._proposed():
            loaded = self._load(name)
            if loaded is not None:
                manifest, chunks = loaded
                return Resumption(
                    manifest=manifest,
                    chunks=chunks,
                    seconds=time.monotonic() - started,
                    passed_over=self._skipped.reasons,
                    is_recut=manifest.world_size != self._group.size,
                )
            self._round += 1
        return None

    def _proposed(self) -> str:
        """The checkpoint to try now; empty if the run has none."""
        key = f"resume/{self._round}"
        if self._group.rank != 0:
            found = self._group.read(key, START_SECONDS_MAX)
            if "error" in found:
                self._group.raises_together = True
                raise CheckpointError(f"Rank 0 cannot resume: {found['error']}")
            return str(found["name"])
        try:
            name = self._skipped.next_name() or ""
            if not name:
                self._skipped.raise_if_any()
                self._check_empty()
        except Exception as error:
            with contextlib.suppress(CheckpointError):
                self._group.publish(key, {"error": str(error)})
                self._group.raises_together = True
            raise
        self._group.publish(key, {"name": name})
        return name

    def _load(self, name: str) -> tuple[AnyManifest, tuple[Chunk, ...]] | None:
        """Load this rank's part; None if a rank could not read its own. Raises if one refused."""
        loaded: tuple[AnyManifest, tuple[Chunk, ...]] | None = None
        facts: dict[str, object] = {}
        refusal: Exception | None = None
        try:
            manifest = self._known
            if manifest is None or manifest.name != name:
                manifest = read_manifest(self._store, name)
            loaded = manifest, self._filler.fill(manifest)
        except (CheckpointCorrupt, NotFound) as error:
            facts = {"unreadable": str(error)}
        except Exception as error:
            refusal, facts = error, {"refused": str(error)}
        self._group.publish(f"loaded/{self._round}/{self._group.rank}", facts)
        all_facts = self._group.gather(f"loaded/{self._round}", START_SECONDS_MAX)
        self._group.raises_together = any("refused" in found for found in all_facts)
        if refusal is not None:
            raise refusal
        return loaded if self._all_loaded(name, all_facts) else None

    def _all_loaded(self, name: str, all_facts: list[dict[str, Any]]) -> bool:
        for rank, found in enumerate(all_facts):
            if "refused" in found:
                raise CheckpointError(f"Rank {rank} cannot resume: {found['refused']}")
        reasons = [
            f"rank {rank}: {found['unreadable']}"
            for rank, found in enumerate(all_facts)
            if "unreadable" in found
        ]
        if reasons:
            self._skipped.add(name, OutlastError("; ".join(reasons)))
        return not reasons
