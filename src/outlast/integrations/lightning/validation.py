"""The validation data: what its loaders keep from one validation to the next.

A boundary is never within a validation, so no position is saved. But a data set may draw from a
random generator of its own, or count, and a loader may keep worker processes.
"""

from typing import Any

from outlast.checkpoint.position.worker_shield import shield_workers
from outlast.integrations.evaluation_data import EvaluationLoader, KeptWorkers


class ValidationData:
    """All validation loaders of a trainer."""

    def __init__(self, val_loop: Any) -> None:
        self._val_loop = val_loop
        self._loaders: list[_ValidationLoader] = []

    def track(self) -> None:
        """Take over the loaders that the validation loop has just prepared."""
        combined = self._val_loop._combined_loader
        loaders = [] if combined is None else combined.flattened
        known = {id(one.loader): one for one in self._loaders}
        self._loaders = [known.get(id(one)) or _ValidationLoader(one) for one in loaders]

    def release(self) -> None:
        """Give the loaders back as they were."""
        for one in self._loaders:
            one.workers.unwatch()

    def check(self) -> None:
        """Warn of what has happened in worker processes, and is lost with them."""
        for one in self._loaders:
            one.workers.check()

    def state(self) -> list[dict[str, Any]]:
        return [one.state() for one in self._loaders]

    def restore(self, state: list[dict[str, Any]]) -> None:
        for one, saved in zip(self._loaders, state, strict=False):
            one.restore(saved)


class _ValidationLoader(EvaluationLoader):
    def __init__(self, loader: Any) -> None:
        super().__init__(loader, name="validation loader")
        shield_workers(loader)
        self.workers = KeptWorkers(loader, name="validation")
