"""Report what prevents a loader from being resumed exactly, at the start and not hours later.

Each concern is logged once per run. Only what can never be repeated is refused.
"""

from collections.abc import Callable, Iterator
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.sources import (
    Sources,
    changed,
    is_foreign,
    is_stream,
    is_torch_loader,
    torch_data,
)
from outlast.checkpoint.position.stand_in import StandIn
from outlast.checkpoint.position.unsaved import listed
from outlast.checkpoint.state.randomness import random_states
from outlast.checkpoint.state.tree import has_state_dict

log = get_logger(__name__)

_DRAWS_WATCHED = 64
_BATCHES_WATCHED = 4
_NAME_BYTES = 256


def check(loader: Any, sources: Sources, *, epochs: int, left_out: Sources | None) -> None:
    """Refuse or warn about what can be seen before the first batch."""
    if sources.unrepeatable:
        raise UnsupportedState(
            f"The loader draws from random.SystemRandom at {sources.unrepeatable[0]!r}, which "
            "cannot be repeated after an interruption.",
            hint="Use random.Random(seed) instead.",
        )
    if sources.running and not isinstance(loader, Iterator):
        raise UnsupportedState(
            f"{type(loader).__qualname__} keeps a running iterator with worker processes at "
            f"{sources.running[0]!r}, which loads data of the next epoch before the current one "
            "ends. Its position cannot be saved.",
            hint="Use a torch DataLoader with persistent_workers=True instead.",
        )
    if left_out is not None and (name := _unsaved_sampler(loader)) is not None:
        raise UnsupportedState(
            f"{type(loader).__qualname__} saves its position, but not the order of its {name}, "
            "which draws from torch's global generator.",
            hint="Use shuffle=True instead of a sampler, or give the sampler a state_dict and "
            "load_state_dict.",
        )
    for text in _concerns(loader, sources, epochs, left_out):
        log.warning("%s", text)


def _concerns(
    loader: Any, sources: Sources, epochs: int, left_out: Sources | None
) -> Iterator[str]:
    if isinstance(loader, Iterator):
        yield (
            f"The loader is a {type(loader).__qualname__}, which can be iterated over only once. "
            "To resume, the program must create it again so that it returns the same batches from "
            "the start."
        )
    if not sources.is_complete:
        yield (
            "The loader refers to too many objects to search all of them for random generators. "
            "The order of the data is verified at resume, but random transforms are not."
        )
    if sources.unordered:
        yield (
            f"The random generators in the set at {listed(sources.unordered)} cannot be told apart "
            "in another process, so they are not saved. Keep them in a list or a dict."
        )
    if left_out is not None and left_out.generators:
        yield (
            f"{type(loader).__qualname__} does not save the random generators at "
            f"{listed(left_out.generators)}. Give the sampler state_dict and load_state_dict, or "
            "use a torch.Generator, or the data may be in a different order after a resume."
        )
    if is_torch_loader(loader) and loader.num_workers > 0:
        yield from _concerns_of_workers(loader, epochs)


def _unsaved_sampler(loader: Any) -> str | None:
    """The random sampler of torch's that a loader with a state_dict leaves out, by its class."""
    batches = loader.batch_sampler
    for sampler in (loader.sampler, batches, getattr(batches, "sampler", None)):
        # Samplers without the attribute draw from no generator.
        is_random = getattr(sampler, "generator", ...) is None
        if is_random and is_foreign(type(sampler).__module__) and not has_state_dict(sampler):
            return type(sampler).__qualname__
    return None


def _concerns_of_workers(loader: Any, epochs: int) -> Iterator[str]:
    if not getattr(loader, "in_order", True):
        yield (
            "The loader has in_order=False, so batches arrive in the order in which workers "
            "finish. After a resume within an epoch, some may be repeated and others lost. Use "
            "in_order=True."
        )
    is_fresh_each_epoch = not loader.persistent_workers
    if is_stream(loader) and is_fresh_each_epoch:
        # The workers produce the consumed batches again, so they draw the same as before.
        return
    roots = {name: getattr(loader, name) for name in ("dataset", "collate_fn")}
    found = search(roots, enters_stateful=False).generators
    if found:
        yield (
            f"Worker processes draw from their own copies of the random generators at "
            f"{listed(found)}, which cannot be saved. {_WORKERS}"
        )
    elif is_stream(loader) and epochs > 1:
        yield (
            "Persistent workers keep the state of an IterableDataset from one epoch to the next, "
            "and it cannot be saved. If the data set counts epochs or draws random numbers, it "
            "will be in a different order after a resume. Use persistent_workers=False, or "
            "torchdata's StatefulDataLoader."
        )


_WORKERS = (
    "After a resume within an epoch, random transforms will differ from those of an uninterrupted "
    "run. Seed them per sample, for example from the index and the epoch, or use num_workers=0."
)


class Interleaving:
    """Notices that a loader and other code take turns in drawing from the same generator.

    How the draws alternated cannot be repeated. Looks at the first few batches only.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._left = _DRAWS_WATCHED
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] | None = None
        self._by_loader: set[str] = set()
        self._by_others: set[str] = set()

    @property
    def is_looking(self) -> bool:
        return self._left > 0

    def before(self) -> None:
        """Call before the loader draws."""
        if self._left <= 0:
            return
        self._before = self._sources.all_states()
        if self._after is not None:
            self._by_others |= changed(self._after, self._before)

    def after(self) -> None:
        """Call once it has drawn."""
        if self._left <= 0:
            return
        is_first = self._after is None
        self._after = self._sources.all_states()
        self._left -= 1
        if not is_first:
            self._by_loader |= changed(self._before, self._after)
        if shared := sorted(self._by_loader & self._by_others):
            self._left = 0
            log.warning(
                "The loader draws from %s while it iterates, and so does other code, which cannot "
                "be repeated exactly. If the run is interrupted within an epoch, it may not be "
                "possible to resume, or random transforms may differ. Give the sampler or the data "
                "set its own generator.",
                listed(shared),
            )


class WorkerWatch:
    """Notices what the data set changes in worker processes, which is lost with them.

    That is a global generator, or a counter of its own. What was noticed is in shared memory.
    """

    def __init__(self, loader: Any, *, of: str = "The data set", advice: str = _WORKERS) -> None:
        self._of = of
        self._advice = advice
        context = loader.multiprocessing_context
        if context is None:
            import torch.multiprocessing as context
        self._has_drawn = context.RawValue("b", 0)
        self._counter = context.RawArray("c", _NAME_BYTES)
        self.start = _Start(loader.worker_init_fn)
        self.collate = _Collate(loader.collate_fn, self.start, self._has_drawn, self._counter)
        self._known: set[str] = set()

    def check(self) -> None:
        """In the main process, for each batch: warn once of each."""
        if self._has_drawn.value:
            self._warn(
                f"{self._of} draws from a global random generator in worker processes, whose "
                "state cannot be saved. If it does not seed the generator for each sample: "
                + self._advice[0].lower()
                + self._advice[1:]
            )
        if name := self._counter.value:
            self._warn(
                f"{self._of} changes {name.decode(errors='replace')} in worker processes, whose "
                "state cannot be saved. If the data depend on it, they will differ after a resume. "
                "Derive them from the index and the epoch, or use num_workers=0."
            )

    def _warn(self, text: str) -> None:
        if text not in self._known:
            self._known.add(text)
            log.warning("%s", text)


class _Start(StandIn):
    """In a worker, in place of worker_init_fn: notes the generators and counters at its end."""

    def __init__(self, original: Callable[[int], object] | None) -> None:
        self.original = original
        self.states: dict[str, object] | None = None
        self._counters: dict[str, Any] = {}

    def __call__(self, worker: int) -> None:
        if self.original is not None:
            self.original(worker)
        self.states = random_states()
        self._counters = self._find()

    def changed_counters(self) -> set[str]:
        return changed(self._counters, self._find())

    def _find(self) -> dict[str, Any]:
        info = torch_data().get_worker_info()
        found = search({"dataset": info.dataset}).counters() if info is not None else {}
        # What fills as it goes is a cache, as a rule.
        return {path: one for path, one in found.items() if not _may_be_cache(one)}


class _Collate(StandIn):
    """In a worker, in place of collate_fn: notices what has changed since the start."""

    def __init__(
        self, original: Callable[[Any], Any], start: _Start, has_drawn: Any, counter: Any
    ) -> None:
        self.original = original
        self._start = start
        self._has_drawn = has_drawn
        self._counter = counter
        self._left = _BATCHES_WATCHED

    def __call__(self, samples: Any) -> Any:
        batch = self.original(samples)
        if self._left and self._start.states is not None:
            self._left -= 1
            if changed(self._start.states, random_states()):
                self._has_drawn.value = 1
            if counters := sorted(self._start.changed_counters()):
                self._counter.value = counters[0].encode()[: _NAME_BYTES - 1]
        return batch


def _may_be_cache(found: Any) -> bool:
    return isinstance(found, dict) and "dict" in found
