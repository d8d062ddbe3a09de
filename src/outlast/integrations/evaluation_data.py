"""What evaluation data keeps from one evaluation to the next, for all frameworks.

A boundary is never within an evaluation, so no position is saved. But a data set, a sampler or a
collator may draw from a random generator of its own, or count.
"""

from collections.abc import Mapping
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.position.concerns import WorkerWatch
from outlast.checkpoint.position.index_pass import has_kept_workers, keeps_workers
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.sources import changed, is_torch_loader
from outlast.checkpoint.position.unsaved import listed
from outlast.checkpoint.state.randomness import generators

log = get_logger(__name__)

_ADVICE = (
    "After a resume, the {} will differ from that of an uninterrupted run. Use "
    "persistent_workers=False, or seed it for each sample, for example from the index."
)


class EvaluationData:
    """The random generators and counters that can be reached from evaluation data.

    `name` is what messages call the data.
    """

    def __init__(self, roots: Mapping[str, Any], *, name: str) -> None:
        self._name = name
        self._sources = search(roots)
        self._before = self._sources.counters()
        # What was saved once is saved from then on, as another process may begin with another.
        self._counted: set[str] = set()
        if self._sources.unrepeatable:
            log.warning(
                "The %s draws from random.SystemRandom at %s, which cannot be repeated: after a "
                "resume, metrics will differ. Use random.Random(seed) instead.",
                name,
                listed(self._sources.unrepeatable),
            )

    def state(self, *, left_out: frozenset[int] = frozenset()) -> dict[str, Any]:
        """What to save. `left_out` are the identities of what is saved with the training data."""
        sources = self._sources
        counters = sources.counters()
        self._counted |= changed(self._before, counters)
        generators = {
            path: state
            for path, state in sources.states().items()
            if id(sources.generators[path]) not in left_out
        }
        kept = {path for path in self._counted if id(sources.holder(path)) not in left_out}
        return {
            "generators": generators,
            "counters": {path: one for path, one in counters.items() if path in kept},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        if absent := saved["generators"].keys() - self._sources.generators.keys():
            log.warning(
                "The run has the states of the random generators at %s of the %s, which this "
                "program does not have.",
                listed(sorted(absent)),
                self._name,
            )
        for path in saved["generators"].keys() - absent:
            self._sources.set_state(path, saved["generators"][path])
        self._counted.update(saved["counters"])
        for path, one in saved["counters"].items():
            self._sources.set_counter(path, one)


class EvaluationLoader:
    """A loader to evaluate with: what its data keep, and whether it has workers."""

    def __init__(self, loader: Any, *, name: str) -> None:
        self.loader = loader
        self._data = EvaluationData({"": loader}, name=name)

    def state(self, *, left_out: frozenset[int] = frozenset()) -> dict[str, Any]:
        """What to save. `left_out` as for `EvaluationData`."""
        return self._data.state(left_out=left_out) | {"has_workers": has_workers(self.loader)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        start_workers(self.loader, had_workers=saved["has_workers"])
        self._data.restore(saved)


def parts_of(loader: Any) -> frozenset[int]:
    """The identities of everything that decides what a loader returns."""
    found = search({"": loader})
    parts = (found.generators, found.iterables, found.others, found.containers)
    return frozenset(id(one) for part in parts for one in part.values())


class KeptWorkers:
    """Warns of what is drawn or counted in workers that an evaluation loader keeps.

    It is lost with them. `name` is what messages call the evaluation.
    """

    def __init__(self, loader: Any, *, name: str) -> None:
        self._loader = loader
        self._watch: WorkerWatch | None = None
        if is_torch_loader(loader) and keeps_workers(loader):
            self._begin(name)

    def check(self) -> None:
        """Warn of what has happened in the workers so far."""
        if self._watch is not None:
            self._watch.check()

    def unwatch(self) -> None:
        """Give the loader back as it was."""
        if self._watch is not None:
            self._loader.worker_init_fn = self._watch.start.original
            self._loader.collate_fn = self._watch.collate.original
            self._watch = None

    def _begin(self, name: str) -> None:
        loader, advice = self._loader, _ADVICE.format(name)
        found = search({part: getattr(loader, part) for part in ("dataset", "collate_fn")})
        if found.generators:
            log.warning(
                "Persistent workers of a %s loader draw from their own copies of the random "
                "generators at %s, which cannot be saved. %s",
                name,
                listed(found.generators),
                advice,
            )
        if not has_kept_workers(loader):
            self._watch = WorkerWatch(loader, of=f"The {name} data set", advice=advice)
            loader.collate_fn = self._watch.collate
            loader.worker_init_fn = self._watch.start


def has_workers(loader: Any) -> bool:
    """Whether a loader keeps worker processes that it has started."""
    return is_torch_loader(loader) and has_kept_workers(loader)


def start_workers(loader: Any, *, had_workers: bool) -> None:
    """Start the workers that a loader would have by now.

    That draws a seed, which an earlier process has drawn already.
    """
    if had_workers and not has_workers(loader):
        now = generators().get()
        iter(loader)
        generators().set(now)
