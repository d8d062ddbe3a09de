"""The batches of a trainer, so that the next process gets exactly those that were not used yet.

accelerate draws a batch ahead of the one that it hands out, under the random numbers of that
moment. Those batches are saved themselves, and handed out first after a resume.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from outlast.checkpoint.position import Position
from outlast.checkpoint.position.between import snapshot_of
from outlast.checkpoint.position.search import search
from outlast.checkpoint.position.stand_in import StandIn, replaced
from outlast.checkpoint.state.randomness import generators
from outlast.integrations.huggingface.batch_encoding import decoded_batch, encoded_batch


class TrainingBatches:
    """Goes over the training loader, one epoch after the other. `position` is that of the run."""

    def __init__(self) -> None:
        self._position: Position | None = None
        self._loader: Any = None
        self._epoch = 0
        self._iterator: Iterator[Any] | None = None
        # Drawn from the loader inside accelerate's, but not handed out yet.
        self._ahead: deque[Any] = deque()
        self._drawn_per_batch = 1
        # accelerate completes the last batch of an epoch with the first one, if one rank reads.
        self._is_dispatched = False
        self._first: list[Any] = []
        self._resumed: deque[Any] | None = None
        # Whether the loader that is drawn from has no more batches in this epoch.
        self._has_ended = False
        self.done = 0
        """The batches of this epoch that were handed out."""

    @property
    def are_over(self) -> bool:
        """Whether the last batch of this epoch was handed out. All ranks know it alike."""
        return bool(getattr(self._loader, "end_of_dataloader", self._has_ended))

    def record(self) -> dict[str, Any]:
        """What to save, except for the position."""
        return {
            "done": self.done,
            "ended": self._has_ended,
            "ahead": [encoded_batch(batch) for batch in self._ahead],
            "first": [encoded_batch(batch) for batch in self._first],
            "dispatched": self._is_dispatched and self.done > 0,
        }

    def resume(self, saved: dict[str, Any]) -> None:
        """Continue from what another process has saved."""
        self.done = saved["done"]
        self._has_ended = saved["ended"]
        self._is_dispatched = saved["dispatched"]
        self._first = [decoded_batch(batch) for batch in saved["first"]]
        self._resumed = deque(decoded_batch(batch) for batch in saved["ahead"])

    def skip(self, position: Position, loader: Any, epoch: int, count: int) -> None:
        """Begin in this epoch, of which this many batches were used elsewhere."""
        if count == 0:
            return
        if type(loader).__name__ == "DataLoaderDispatcher":
            self._count_drawn(loader)
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        base = getattr(loader, "base_dataloader", loader)
        _make_generators(base)
        sources = search({"": base})
        start = snapshot_of(sources, sources.counters())
        drawn = count * self._drawn_per_batch
        position.load_state_dict({"epoch": 0, "batch": drawn, "start": start})
        nothing: list[Any] = []
        self.resume(
            {"done": count, "ended": False, "ahead": nothing, "first": nothing, "dispatched": False}
        )

    def begin(self, position: Position, loader: Any, epoch: int, *, is_over: bool = False) -> None:
        """An epoch begins or, after a resume, goes on. `is_over`: no batch will be asked for."""
        self._position = position
        self._loader = loader
        self._epoch = epoch
        self._iterator = None
        _make_generators(getattr(loader, "base_dataloader", loader))
        if is_over:
            self._resumed = None
            position.skip_rest()
        elif self._resumed is None:
            position.end_pass()
            self.done = 0
            self._first.clear()
            self._has_ended = False
        elif hasattr(loader, "set_epoch"):
            # The trainer has told this to a copy of the loader.
            loader.set_epoch(epoch)

    def lent(self, position: Position, loader: Any) -> AbstractContextManager[None]:
        """For an evaluation after a resume, before the epoch goes on. See `Position.lent`."""
        base = getattr(loader, "base_dataloader", loader)
        _make_generators(base)
        return position.lent(base)

    def close_epoch(self) -> None:
        """The epoch is over. What is drawn ahead, if the trainer stopped early, is dropped."""
        self.done = 0
        self._has_ended = False
        self._ahead.clear()
        self._first.clear()

    def take(self) -> Iterator[Any]:
        """The iterator of this epoch."""
        if self._iterator is None:
            self._iterator = self._opened()
        return self._iterator

    def handed_out(self, count: int) -> None:
        """Note that this many batches were handed out, and will be used before the next save."""
        self.done += count
        ahead = self._ahead
        for _ in range(min(count * self._drawn_per_batch, len(ahead))):
            ahead.popleft()

    def _opened(self) -> Iterator[Any]:
        resumed, self._resumed = self._resumed, None
        self._ahead.clear()
        loader = self._loader
        base = getattr(loader, "base_dataloader", None)
        if base is None:
            return self._drawn(loader, resumed or ())
        repeats_first = resumed is not None and self._is_dispatched
        drawn = self._drawn(base, [*(self._first if repeats_first else ()), *(resumed or ())])
        if type(loader).__name__ == "DataLoaderDispatcher":
            self._count_drawn(loader)
            if loader.state.process_index > 0:
                # The first rank reads for all of them.
                drawn = _as_reader_elsewhere(base, is_resumed=resumed is not None)
        # It is a generator, which asks for its loader with the first batch.
        batches = iter(loader)
        with replaced(loader, "base_dataloader", _Base(base, drawn)):
            found = list(itertools.islice(batches, 1))
        if repeats_first:
            # It was used long ago. Now accelerate has it again.
            for _ in self._first:
                self._ahead.popleft()
            found = []
        return itertools.chain(found, batches)

    def _count_drawn(self, dispatcher: Any) -> None:
        is_split = dispatcher.split_batches or dispatcher.submesh_tp is not None
        self._drawn_per_batch = 1 if is_split else dispatcher.state.num_processes
        self._is_dispatched = True

    def _drawn(self, loader: Any, saved: Iterable[Any]) -> Iterator[Any]:
        """The batches of the loader inside, those that were saved first."""
        assert self._position is not None, "An epoch has begun."
        for batch in saved:
            self._ahead.append(batch)
            yield batch
        if not self._has_ended:
            passes = self._position.passes + 1
            for batch in self._position.batches(loader, passes, has_stepped=True):
                self._ahead.append(batch)
                if self._is_dispatched and len(self._first) < self._drawn_per_batch:
                    self._first.append(batch)
                yield batch
            self._has_ended = True


def unread(loader: Any, *, is_continued: bool) -> Any:
    """What the trainer is given instead of its loader: `TrainingBatches` has the only iterator.

    A loader of torch draws a seed for each iterator. If the epoch `is_continued`, the trainer makes
    a copy that skips batches, which must be of torch, and sets the epoch of the sampler inside.
    """
    if not is_continued:
        return _Base(loader, iter(()))
    torch: Any = import_module("torch")
    sampler = getattr(loader, "batch_sampler", None)
    # With a generator of its own, so that it draws from no other.
    return torch.utils.data.DataLoader([], batch_sampler=sampler, generator=torch.Generator())


class _Base(StandIn):
    """Stands in for a loader that another one reads."""

    def __init__(self, original: Any, batches: Iterator[Any]) -> None:
        self.original = original
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def _as_reader_elsewhere(loader: Any, *, is_resumed: bool) -> Iterator[Any]:
    """An iterator that is not read, but draws a seed, which an earlier process has done already."""
    now = generators().get()
    batches: Iterator[Any] = iter(loader)
    if is_resumed:
        generators().set(now)
    return batches


def _make_generators(loader: Any) -> None:
    """Make the generators that parts of a loader make with their first batch.

    They are as they would be, and can be filled before that.
    """
    part: Any = loader
    for _ in range(5):
        part = _inner_sampler(part)
        if type(part).__name__ == "SeedableRandomSampler" and part.generator is None:
            part.generator = import_module("torch").Generator()
            part.generator.manual_seed(part.initial_seed)
    collator: Any = getattr(loader, "collate_fn", None)
    # The trainer wraps it to leave out columns.
    collator = getattr(collator, "data_collator", collator)
    is_seeded = getattr(collator, "seed", None) is not None
    # In worker processes, it depends on the number of the worker.
    if is_seeded and getattr(loader, "num_workers", 0) == 0 and hasattr(collator, "create_rng"):
        if collator.generator is None:
            collator.create_rng()


def _inner_sampler(part: Any) -> Any:
    # Not by its truth: some have no length.
    found = getattr(part, "batch_sampler", None)
    return getattr(part, "sampler", None) if found is None else found
