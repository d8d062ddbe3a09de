"""One epoch of a torch `DataLoader` over a data set with indices, watched at its sampler.

What was consumed is skipped in the sampler, so that no data is loaded twice. A loader with workers
draws indices ahead: they are drawn again too, so that the sampler and its generators end up exactly
where they were, and handed out from a buffer. Both parts are verified against the saved digests.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.concerns import Interleaving, WorkerWatch
from outlast.checkpoint.position.digest import Digest, encode_indices
from outlast.checkpoint.position.read_ahead import ReadAhead
from outlast.checkpoint.position.replay import Replay
from outlast.checkpoint.position.sources import (
    is_stream,
    is_torch_loader,
    same,
    torch_data,
    value_of,
)
from outlast.checkpoint.position.stand_in import StandIn, replaced
from outlast.checkpoint.position.worker_shield import shielded_workers
from outlast.checkpoint.state.randomness import generators
from outlast.checkpoint.state.values import value


def draws_indices(loader: Any) -> bool:
    """Whether a loader's order can be watched and skipped in its sampler."""
    if not is_torch_loader(loader) or is_stream(loader):
        return False
    plain = torch_data().DataLoader
    # A loader that iterates in its own way may use the sampler in its own way too.
    return all(
        getattr(type(loader), name) is getattr(plain, name)
        for name in ("__iter__", "_get_iterator")
    )


class IndexPass:
    """The index batches of one epoch: those consumed, as a digest, and those drawn ahead."""

    kind = "indices"

    def __init__(self, *, is_reused: bool, interleaving: Interleaving | None) -> None:
        self._is_reused = is_reused
        self._interleaving = interleaving
        self._workers: WorkerWatch | None = None
        self._replay: Replay | None = None
        self._source: Iterator[Any] = iter(())
        self._consumed = Digest()
        self._ahead: deque[bytes] = deque()
        self._redrawn: deque[Any] = deque()
        self._drawn = 0
        self._asked = 0
        self._has_ended = False
        self._failure: StateMismatch | None = None
        # The global generators when the loader had its iterator, and at the first draw if other
        # code has drawn from them in between.
        self._when_open: Any = None
        self._at_first_draw: Any = None

    def open(self, loader: Any, replay: Replay | None = None) -> Iterator[Any]:
        """The loader's iterator; after a replay, without what was consumed."""
        iterable = loader
        if isinstance(loader, ReadAhead):
            loader.begin_after_skipping(self._catch_up)
            loader = loader.loader
        if replay is not None:
            replay.rewind()
            self._replay = replay
        with ExitStack() as stack:
            for context in self._arrangements(loader):
                stack.enter_context(context)
            rest: Iterator[Any] = iter(iterable)
        # Without workers, the loader has not asked for anything yet.
        self._catch_up()
        if self._failure is not None:
            raise self._failure
        if self._drawn == 0:
            self._when_open = generators().get()
        return rest

    def consume(self, _batch: object) -> None:
        self._consumed.add(self._ahead.popleft())
        if self._workers is not None:
            self._workers.check()

    def record(self) -> dict[str, Any]:
        drawn = self._consumed.copy()
        for encoded in self._ahead:
            drawn.add(encoded)
        first = self._at_first_draw
        return ({} if first is None else {"at_first_draw": first}) | {
            "kind": self.kind,
            "consumed": self._consumed.text(),
            "drawn": self._drawn,
            "drawn_digest": drawn.text(),
            "ended": self._has_ended,
            "reused": self._is_reused,
            "asked": self._asked,
        }

    def begin(self, source: Iterator[Any]) -> None:
        """Take the iterator of the sampler. A loader with workers makes two, and uses the last."""
        self._source = source
        self._asked += 1

    def draw_again(self, loader: Any, replay: Replay) -> str | None:
        """Draw a complete epoch again without loading data; returns how it differs, or None.

        Leaves the generators as they come out: `replay.settle` is up to the caller.
        """
        sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        for number in range(replay.record.get("asked", 1)):
            self.begin(iter(sampler))
            if number == 0 and not self._is_reused:
                _draw_seed(loader)
        try:
            self._draw_consumed(replay)
        except StateMismatch as error:
            return error.differences[0]
        return None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._catch_up()
        if self._redrawn:
            return self._redrawn.popleft()
        if self._has_ended or self._failure is not None:
            raise StopIteration
        return self._draw()

    def _draw(self) -> Any:
        watch = self._interleaving
        if self._drawn == 0 and self._when_open is not None:
            self._note_first_draw()
        if watch is not None:
            watch.before()
        try:
            indices = next(self._source)
        except StopIteration:
            self._has_ended = True
            raise
        if watch is not None:
            watch.after()
        self._drawn += 1
        self._ahead.append(encode_indices(indices))
        # A batch sampler may fill one list again and again, but what is drawn ahead must stay.
        return list(indices) if type(indices) is list else indices

    def _note_first_draw(self) -> None:
        """A loop may have its iterator long before the first batch, which draws the order."""
        before, self._when_open = self._when_open, None
        if not same(before, now := generators().get()):
            self._at_first_draw = now

    def _catch_up(self) -> None:
        replay, self._replay = self._replay, None
        if replay is None:
            return
        try:
            self._draw_again(replay)
        except StateMismatch as error:
            # Raised by `open`: from here it would pass through a loader that is half built.
            self._failure = error

    def _draw_again(self, replay: Replay) -> None:
        record = replay.record
        watch, self._interleaving = self._interleaving, None
        self._draw_consumed(replay)
        shared = replay.settle()
        if shared and record:
            raise replay.unlike(
                f"{' and '.join(shared)}: used by the sampler while it iterates and by other code"
            )
        self._interleaving = watch

    def _draw_consumed(self, replay: Replay) -> None:
        """Draw what the saved epoch had drawn. Raises `StateMismatch` if it differs."""
        record = replay.record
        if (first := record.get("at_first_draw")) is not None:
            self._at_first_draw = first
            generators().set(first)
        for number in range(replay.count):
            self._draw_saved(replay)
            if number == 0:
                replay.drew_first()
            self._consumed.add(self._ahead.popleft())
        if record and self._consumed.text() != record["consumed"]:
            raise replay.unlike(f"the indices of its first {replay.count} batches differ")
        while self._drawn < record.get("drawn", 0):
            self._redrawn.append(self._draw_saved(replay))
        if record.get("ended") and next(self._source, self) is not self:
            raise replay.unlike(f"it has more than {self._drawn} batches")
        self._has_ended = record.get("ended", False)
        if record and self.record()["drawn_digest"] != record["drawn_digest"]:
            raise replay.unlike(f"the indices after its first {replay.count} batches differ")

    def _draw_saved(self, replay: Replay) -> Any:
        try:
            return self._draw()
        except StopIteration:
            expected = max(replay.count, replay.record.get("drawn", 0))
            raise replay.unlike(
                f"it has {self._drawn} batches, but {expected} were drawn"
            ) from None

    def _arrangements(self, loader: Any) -> Iterator[Any]:
        """What replaces parts of the loader while it creates its iterator."""
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        has_iterator = loader.num_workers > 0 and _persistent_iterator(loader) is not None
        sampler = _WatchedSampler(getattr(loader, name), self)
        yield replaced(loader, name, sampler)
        if has_iterator:
            # It has kept the sampler of the loader.
            yield replaced(_persistent_iterator(loader), "_index_sampler", sampler)
        else:
            yield shielded_workers(loader)
        if loader.num_workers > 0 and not has_iterator and self._interleaving is not None:
            self._workers = WorkerWatch(loader)
            yield replaced(loader, "collate_fn", self._workers.collate)
            yield replaced(loader, "worker_init_fn", self._workers.start)
        # A loader that makes its workers asks the sampler twice, with a draw of a seed in between;
        # one that has kept them asks once. Do the same as the process where the epoch began.
        if self._is_reused and not has_iterator:
            sampler.keeps = _seed_source(loader)
        if has_iterator and not self._is_reused:
            sampler.draw_seed = lambda: _draw_seed(loader)


class _WatchedSampler(StandIn):
    """Stands in for a sampler, and notes what it yields.

    `keeps`: be asked twice, but ask the sampler once, with what the seed was drawn from as it was.
    `draw_seed`: be asked once, but ask the sampler twice, and draw the seed in between.
    """

    def __init__(self, sampler: Any, watching: IndexPass) -> None:
        self.original = sampler
        self._pass = watching
        self.keeps: value | None = None
        self._kept: Any = None
        self.draw_seed: Callable[[], object] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.keeps is not None:
            if self._kept is None:
                self._kept = self.keeps.get()
                return iter(())
            self.keeps.set(self._kept)
        if self.draw_seed is not None:
            iter(self.original)
            self.draw_seed()
        # Made now, but asked later: between the two the loader draws its seed.
        self._pass.begin(iter(self.original))
        return self._pass

    def __len__(self) -> int:
        return len(self.original)


def keeps_workers(loader: Any) -> bool:
    return bool(loader.persistent_workers and loader.num_workers > 0)


def has_kept_workers(loader: Any) -> bool:
    return keeps_workers(loader) and _persistent_iterator(loader) is not None


def _persistent_iterator(loader: Any) -> Any:
    return loader._iterator if loader.persistent_workers else None  # noqa: SLF001 - nothing public says so


def _seed_source(loader: Any) -> value:
    """The generator from which a loader draws the seed of its workers."""
    return generators() if loader.generator is None else value_of(loader.generator)


def _draw_seed(loader: Any) -> None:
    torch = sys.modules["torch"]
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
