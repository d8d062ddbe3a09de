"""The position in the data: which batch of which epoch comes next, in the same order as before.

Counts batches that were consumed, not those a loader has fetched ahead. The order of an epoch
follows from the random state at its start, which is stored for that reason: at resume the order is
drawn again, and what was consumed is skipped in the sampler, so that no data is loaded twice.
Random transforms in worker processes repeat only if the data set seeds them per sample.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.randomness import generators
from outlast.checkpoint.tree import has_state_dict


class Position:
    """Where a pass over a loader stands. Has a state_dict, so it is saved like everything else."""

    def __init__(self) -> None:
        self._epoch = 0
        self._batch = 0
        self._start: dict[str, Any] | None = None
        self._loader_state: Any = None
        self._own: list[Any] | None = None
        self._loader: Any = None
        self._is_resumed = False

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"epoch": self._epoch, "batch": self._batch, "start": self._start}
        if self._batch and has_state_dict(self._loader):
            state["loader"] = self._loader.state_dict()
            state["own"] = _own_states(self._loader)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epoch = state["epoch"]
        self._batch = state["batch"]
        self._start = state["start"]
        self._loader_state = state.get("loader")
        self._own = state.get("own")
        self._is_resumed = True

    def batches(self, loader: Iterable[Any], epochs: int) -> Iterator[Any]:
        """The batches that are left of so many epochs."""
        self._loader = loader
        while self._epoch < epochs:
            for batch in self._rest_of_epoch(loader):
                # Counted before it is handed out: when the loop asks for the next one, it is done.
                self._batch += 1
                yield batch
            self._epoch += 1
            self._batch = 0
            # The loader's own generators have moved on, and only they know how far.
            self._start = _random_state(loader)
        self._loader = None

    def _rest_of_epoch(self, loader: Any) -> Iterator[Any]:
        is_resumed, self._is_resumed = self._is_resumed, False
        if is_resumed and self._start is not None:
            return self._resumed(loader, self._start)
        if self._batch and not has_state_dict(loader):
            # An earlier loop over this loader was left by `break`.
            return self._resumed(loader, self._start or {})
        self._start = _random_state(loader)
        return iter(loader)

    def _resumed(self, loader: Any, start: dict[str, Any]) -> Iterator[Any]:
        now = generators().get()
        if start:
            _set_own(loader, start["own"])
        if not self._batch:
            self._start = _random_state(loader)
            return _iterator(loader, draws_seed=self._epoch == 0)
        if self._loader_state is not None:
            loader.load_state_dict(self._loader_state)
            self._loader_state = None
            rest: Iterator[Any] = iter(loader)
            # It finds its place by itself, but draws more, or less, than it did the first time.
            _set_own(loader, self._own or [])
        else:
            if start:
                generators().set(start["global"])
            rest = _without_first(loader, self._batch, draws_seed=self._epoch == 0)
        # The order is drawn; what the program itself draws goes on from where it was saved.
        generators().set(now)
        return rest


def _random_state(loader: Any) -> dict[str, Any]:
    """The states of all generators that may shuffle this loader: its own, and the global ones."""
    return {"own": _own_states(loader), "global": generators().get()}


def _own_states(loader: Any) -> list[Any]:
    return [generator.get_state() for generator in _own_generators(loader)]


def _set_own(loader: Any, states: list[Any]) -> None:
    found = _own_generators(loader)
    if len(found) != len(states):
        raise StateMismatch(
            "The loader is not the one whose position was saved:",
            differences=(
                f"{len(states)} generators of its own were saved, and it has {len(found)}",
            ),
        )
    for generator, state in zip(found, states, strict=True):
        generator.set_state(state)


def _own_generators(loader: Any) -> list[Any]:
    """The torch generators that belong to a loader or its samplers, each once."""
    sampler = getattr(loader, "batch_sampler", None)
    owners = (loader, getattr(loader, "sampler", None), sampler, getattr(sampler, "sampler", None))
    found: list[Any] = []
    for owner in owners:
        generator = getattr(owner, "generator", None)
        if hasattr(generator, "set_state") and not any(generator is known for known in found):
            found.append(generator)
    return found


def _iterator(loader: Any, *, draws_seed: bool) -> Iterator[Any]:
    """A new iterator over a loader whose first one may have been made in an earlier process.

    With persistent workers, only the first epoch draws a seed for them, which moves the generator
    that shuffles. In a later epoch (`draws_seed` is false) it is drawn from another one.
    """
    if draws_seed or not getattr(loader, "persistent_workers", False):
        return iter(loader)
    generator = loader.generator
    loader.generator = sys.modules["torch"].Generator()
    try:
        return iter(loader)
    finally:
        loader.generator = generator


def _without_first(loader: Any, count: int, *, draws_seed: bool) -> Iterator[Any]:
    """The loader's batches but for the first few; its order is drawn on return."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(loader, torch.utils.data.DataLoader):
        data = torch.utils.data
        if not isinstance(loader.dataset, data.IterableDataset | data.IterDataPipe):
            return _skipped_in_sampler(loader, count, draws_seed=draws_seed)
    rest = _iterator(loader, draws_seed=draws_seed)
    for _ in itertools.islice(rest, count):
        pass
    return rest


def _skipped_in_sampler(loader: Any, count: int, *, draws_seed: bool) -> Iterator[Any]:
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    sampler = getattr(loader, name)
    skipping = _SkippingOnce(sampler, count)
    # A DataLoader refuses another sampler once it is made, but its iterator takes what it finds.
    object.__setattr__(loader, name, skipping)
    try:
        rest = _iterator(loader, draws_seed=draws_seed)
    finally:
        object.__setattr__(loader, name, sampler)
    skipping.skip()
    return rest


class _SkippingOnce:
    """A sampler without its first few batches in its first pass. Persistent workers make more."""

    def __init__(self, sampler: Any, count: int) -> None:
        self._sampler = sampler
        self._count = count
        self._first: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        # Made now, but asked later: between the two the loader draws its seed, as it always does.
        rest = iter(self._sampler)
        if self._count:
            self._first = rest
        return self._lazily(rest)

    def __len__(self) -> int:
        return max(0, len(self._sampler) - self._count)

    def skip(self) -> None:
        """Do what the first pass leaves out, unless it is done."""
        if self._first is not None:
            first, self._first = self._first, None
            count, self._count = self._count, 0
            for _ in itertools.islice(first, count):
                pass

    def _lazily(self, rest: Iterator[Any]) -> Iterator[Any]:
        self.skip()
        yield from rest
