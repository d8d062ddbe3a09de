"""One epoch of anything that can be iterated over, watched at the batches themselves.

What was consumed is produced again and dropped, and compared with the saved digest.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.position.concerns import Interleaving
from outlast.checkpoint.position.digest import Description, Digest, are_close
from outlast.checkpoint.position.replay import Replay
from outlast.checkpoint.position.worker_shield import shielded_workers, torch_loaders_in

log = get_logger(__name__)


class ContentPass:
    """The batches of one epoch that were consumed, as a digest."""

    kind = "content"

    def __init__(self, *, is_reused: bool, interleaving: Interleaving | None) -> None:
        self._is_reused = is_reused
        self._interleaving = interleaving
        self._consumed = Digest()
        self._fractions: list[float] = []
        self._is_in_thread = False

    def open(self, loader: Iterable[Any], replay: Replay | None = None) -> Iterator[Any]:
        if replay is None:
            return self._watched(self._batches(loader))
        replay.rewind()
        rest = self._batches(loader)
        for number in range(replay.count):
            try:
                batch = next(rest)
            except StopIteration:
                raise replay.unlike(
                    f"it has {number} batches, but {replay.count} were consumed"
                ) from None
            if number == 0:
                replay.drew_first()
            self.consume(batch)
        self._settle(replay)
        return self._watched(rest)

    def consume(self, batch: Any) -> None:
        described = Description(batch)
        self._consumed.add(described.encoded)
        self._fractions = described.fractions

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "consumed": self._consumed.text(),
            "fractions": list(self._fractions),
            "reused": self._is_reused,
        }

    def _settle(self, replay: Replay) -> None:
        shared = replay.settle(is_ahead=self._is_in_thread)
        record = replay.record
        is_same = not record or (
            record["consumed"] == self._consumed.text()
            and are_close(record["fractions"], self._fractions)
        )
        if is_same:
            return
        if not shared:
            raise replay.unlike(f"its first {replay.count} batches differ")
        # The order may be the same, with random transforms: there is no way to tell.
        log.warning(
            "The %d batches before the interruption could not be reproduced to check their order: "
            "the loader and other code draw from the same random generator (%s). Give the loader "
            "its own generator.",
            replay.count,
            ", ".join(shared),
        )

    def _watched(self, rest: Iterator[Any]) -> Iterator[Any]:
        watch = self._interleaving
        while watch is not None and watch.is_looking:
            watch.before()
            try:
                batch = next(rest)
            except StopIteration:
                return
            watch.after()
            yield batch
        yield from rest

    def _batches(self, loader: Any) -> Iterator[Any]:
        threads = set(threading.enumerate())
        # An `__iter__` that is a generator starts, and asks the sampler, with the first batch.
        with shielded_workers(loader), _without_seed(loader) if self._is_reused else nullcontext():
            rest = iter(loader)
            try:
                first = next(rest)
            except StopIteration:
                return
        self._is_in_thread = any(map(_may_load, set(threading.enumerate()) - threads))
        yield first
        for batch in rest:  # noqa: UP028 - it would close the program's iterator on an early end
            yield batch


def _may_load(thread: threading.Thread) -> bool:
    """Whether a thread that a loader has started may load data ahead. Ours do not."""
    return not thread.name.startswith("outlast-")


@contextmanager
def _without_seed(loader: Any) -> Iterator[None]:
    """Persistent workers draw one seed, which was in an earlier process: take another."""
    (loader, *_) = torch_loaders_in(loader)
    generator = loader.generator
    loader.generator = sys.modules["torch"].Generator()
    try:
        yield
    finally:
        loader.generator = generator
