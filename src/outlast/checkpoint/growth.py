"""Find out, while a run is alive, that a new process could not resume its state."""

import json
from collections.abc import Callable, Collection

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import UnresumableState
from outlast.checkpoint.format.manifest import CheckpointManifest, SavedLeaf
from outlast.checkpoint.restoring.fitting import misfits, places
from outlast.checkpoint.state.tree import Tree

log = get_logger(__name__)


class GrowthCheck:
    """Compares saved states with the state at the start of the run. Reports a difference once.

    With `raises`, the error waits for `raise_pending`, and `alarm` is called; otherwise it is
    logged.
    """

    def __init__(
        self,
        fresh: Tree,
        may_pickle: Collection[str],
        *,
        raises: bool,
        alarm: Callable[[], object],
    ) -> None:
        self._fresh = fresh
        self._may_pickle = may_pickle
        self._raises = raises
        self._alarm = alarm
        self._has_found = False
        self._fitting: tuple[str, tuple[SavedLeaf, ...]] | None = None
        self._pending: UnresumableState | None = None

    def check(self, manifest: CheckpointManifest) -> None:
        """Compare a checkpoint with the fresh state. Runs in the writer thread."""
        # As text, in which 1, 1.0 and True differ. Comparing takes a tenth of the time of a check.
        found = (json.dumps(manifest.root), manifest.leaves)
        if self._has_found or found == self._fitting:
            return
        differences = misfits(
            manifest.root, manifest.leaves, self._fresh, may_pickle=self._may_pickle
        )
        if not differences:
            self._fitting = found
            return
        self._has_found = True
        error = UnresumableState(
            f"The checkpoint of step {manifest.step} was saved, but this program cannot resume "
            f"from it. The state differs from the start of the run in {places(differences)}:",
            differences=tuple(differences),
        )
        if self._raises:
            self._pending = error
            self._alarm()
        else:
            log.error("%s", error)

    def raise_pending(self) -> None:
        if self._pending is not None:
            error, self._pending = self._pending, None
            raise error

    def log_pending(self) -> None:
        """Log an error that can no longer be raised."""
        if self._pending is not None:
            log.error("%s", self._pending)
