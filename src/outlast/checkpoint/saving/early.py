"""Write the beginning of a state while the rest of it is still being copied.

It is written before it is hashed, because hashing would slow down the copies: so bytes that the
store already has may be written again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeAlias

from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import Copy
from outlast.checkpoint.threads import ensure_room_for_thread

Write: TypeAlias = Callable[[Sequence[Span]], list[Copy]]
"""Writes chunks into one pack; returns where each of them is."""

_GROWTH = 4


class EarlyWrites:
    """Packs that are being written before their chunks are hashed.

    Not at low priority: beside the copies, a thread at low priority would hardly run.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "outlast-early")
        self._under_way: list[tuple[Sequence[Span], Future[list[Copy]]]] = []

    @property
    def spans(self) -> set[Span]:
        """The chunks that are written, or will be."""
        return {span for spans, _ in self._under_way for span in spans}

    def start(self, batches: Iterable[Sequence[Span]], write: Write) -> None:
        """Write each batch into a pack. Without memory for a thread, they are left for later."""
        try:
            for spans in batches:
                ensure_room_for_thread()
                self._under_way.append((spans, self._pool.submit(write, spans)))
        except (RuntimeError, MemoryError):
            return

    def finish(self) -> dict[Span, Copy]:
        """Wait for all, and return where each chunk is. Raises the error of a write that failed."""
        done, self._under_way = self._under_way, []
        wait([written for _, written in done])
        return {
            span: copy
            for spans, written in done
            for span, copy in zip(spans, written.result(), strict=True)
        }

    def abandon(self) -> None:
        """Wait until nothing reads the staged state. Errors of the writes are dropped."""
        wait([written for _, written in self._under_way])
        self._under_way.clear()

    def close(self) -> None:
        self._pool.shutdown()


def early_ends(first_bytes: int | None, size_bytes: int) -> Iterator[int]:
    """After how many copied bytes to start writing what was copied.

    Copying is several times as fast as writing, so each part may be larger than the one before.
    The second half is left: by the time it is written, it is hashed.
    """
    end = first_bytes
    while end is not None and end <= size_bytes // 2:
        yield end
        end *= _GROWTH
