"""Notices what a loader changes while it iterates that cannot be saved with the position.

Small plain contents are saved and restored. For the rest there is a warning in the first epoch, by
name, and after a resume between two epochs a comparison with what the save saw.
"""

from collections.abc import Mapping
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.position import container_state
from outlast.checkpoint.position.container_state import ContainerSample
from outlast.checkpoint.position.sources import (
    Sources,
)
from outlast.checkpoint.position.transitions import is_of_order

log = get_logger(__name__)

OBSERVED_AFTER = frozenset({1, 8, 64})
"""After how many batches of the first epoch to look."""

_WARNINGS_MAX = 3


class UnsavedChanges:
    """What has changed within an epoch and is too large, or not plain enough, to be saved."""

    def __init__(self, *, is_verified: bool) -> None:
        # The order of a sampler is verified itself, so only what it keeps is worth a warning.
        self._is_verified = is_verified
        # Each with whether it looks like a cache or a log, which decides nothing.
        self._unsaved: dict[str, bool] = {}
        self._warnings = 0

    def note(self, start: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Compare a snapshot with the one from the start of the epoch; warn of what is new."""
        found = {
            path: self._is_cache(start["samples"].get(path), sample)
            for path, sample in now["samples"].items()
            if self._is_concern(path, start, sample)
            and not (path in now["borrowed"] and self._is_cache(start["samples"].get(path), sample))
        }
        new = sorted(found.keys() - self._unsaved.keys())
        self._unsaved = found | self._unsaved
        if new and self._warnings < _WARNINGS_MAX:
            self._warnings += 1
            log.warning(
                "The loader changes %s while it iterates, which cannot be saved with the position "
                "because it is too large or not made of plain values. If the order of the data or "
                "the data depend on it, a resume is refused or returns different data. Give the "
                "loader state_dict and load_state_dict, or derive the order from a seed and the "
                "epoch.",
                listed(new),
            )

    def evidence(self, now: Mapping[str, Any]) -> dict[str, list[Any]]:
        """What a resume between epochs compares, for each thing that could not be saved."""
        return {
            path: [sample.kind, sample.length, sample.digest, self._unsaved[path]]
            for path, sample in now["samples"].items()
            if path in self._unsaved
        }

    def _is_cache(self, before: ContainerSample | None, after: ContainerSample) -> bool:
        return container_state.is_cache(after) or before is None or before.length != after.length

    def _is_concern(self, path: str, start: Mapping[str, Any], after: ContainerSample) -> bool:
        before: ContainerSample | None = start["samples"].get(path)
        if before is None:
            # It was small at the start, or was not there.
            return path in start["counters"]
        if after.kind == "iterator":
            is_kept = before.thing == after.thing
            return is_kept and (not after.digest or before.digest != after.digest)
        if self._is_verified and is_of_order(path) and before.thing != after.thing:
            return False
        return container_state.is_changed(before, after)


def differing(evidence: Mapping[str, list[Any]], sources: Sources) -> tuple[list[str], list[str]]:
    """The paths where the loader is not as it was at the save: decisive ones, and caches."""
    live = sources.samples(sources.counters())
    decisive: list[str] = []
    caches: list[str] = []
    for path, (kind, length, digest, is_cache) in evidence.items():
        now = live.get(path)
        is_unknown = kind == "iterator" and not digest
        if (
            is_unknown
            or now is None
            or (now.kind, now.length, now.digest) != (kind, length, digest)
        ):
            (caches if is_cache else decisive).append(path)
    return decisive, caches


def listed(paths: Any) -> str:
    names = list(paths)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
