"""The validation data: what its loaders keep from one validation to the next.

A boundary is never within a validation, so no position is saved. But a data set may draw from a
random generator of its own, or count, and a loader may keep worker processes.
"""

from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.position.concerns import WorkerWatch
from outlast.checkpoint.position.index_pass import has_kept_workers, keeps_workers
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.sources import Sources, changed, is_torch_loader
from outlast.checkpoint.position.unsaved import listed
from outlast.checkpoint.position.worker_shield import shield_workers

log = get_logger(__name__)

_ADVICE = (
    "After a resume, the validation will differ from that of an uninterrupted run. Use "
    "persistent_workers=False, or seed it for each sample, for example from the index."
)


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
            one.unwatch()

    def check(self) -> None:
        """Warn of what has happened in worker processes, and is lost with them."""
        for one in self._loaders:
            if one.watch is not None:
                one.watch.check()

    def state(self) -> list[dict[str, Any]]:
        return [one.state() for one in self._loaders]

    def restore(self, state: list[dict[str, Any]]) -> None:
        for one, saved in zip(self._loaders, state, strict=False):
            one.restore(saved)


class _ValidationLoader:
    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.watch: WorkerWatch | None = None
        self._sources = search({"": loader})
        self._before = self._sources.counters()
        # What was saved once is saved from then on, as another process may begin with another.
        self._counted: set[str] = set()
        shield_workers(loader)
        if is_torch_loader(loader) and keeps_workers(loader):
            self._watch_workers()

    def state(self) -> dict[str, Any]:
        counters = self._sources.counters()
        self._counted |= changed(self._before, counters)
        return {
            "generators": self._sources.states(),
            "counters": {path: one for path, one in counters.items() if path in self._counted},
            "has_workers": _has_workers(self.loader),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        if saved["has_workers"] and not _has_workers(self.loader):
            # An uninterrupted run would have them by now, and starting them draws a seed.
            iter(self.loader)
        if absent := saved["generators"].keys() - self._sources.generators.keys():
            log.warning(
                "The run has the states of the random generators at %s of a validation loader, "
                "which this program does not have.",
                listed(sorted(absent)),
            )
        for path in saved["generators"].keys() - absent:
            self._sources.set_state(path, saved["generators"][path])
        self._counted.update(saved["counters"])
        for path, one in saved["counters"].items():
            self._sources.set_counter(path, one)

    def unwatch(self) -> None:
        if self.watch is not None:
            self.loader.worker_init_fn = self.watch.start.original
            self.loader.collate_fn = self.watch.collate.original
            self.watch = None

    def _watch_workers(self) -> None:
        """Notice what is drawn or counted in workers that are kept."""
        if found := _in_workers(self.loader).generators:
            log.warning(
                "Persistent workers of a validation loader draw from their own copies of the "
                "random generators at %s, which cannot be saved. %s",
                listed(found),
                _ADVICE,
            )
        if not has_kept_workers(self.loader):
            self.watch = WorkerWatch(self.loader, of="The validation data set", advice=_ADVICE)
            self.loader.collate_fn = self.watch.collate
            self.loader.worker_init_fn = self.watch.start


def _in_workers(loader: Any) -> Sources:
    return search({name: getattr(loader, name) for name in ("dataset", "collate_fn")})


def _has_workers(loader: Any) -> bool:
    return is_torch_loader(loader) and has_kept_workers(loader)
