"""Copy the bytes of arrays to the memory that they are staged in, with little work in Python.

Arrays whose bytes are in this process are copied from address to address, in pieces that several
threads take in turns: so none waits for another that has the larger arrays. Others are copied by
their library.
"""

import ctypes
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.ranks import RankGroup
from outlast.checkpoint.state.library import Bytes
from outlast.checkpoint.state.tree import Leaf
from outlast.checkpoint.threads import lower_priority

Copy: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments."""

# The C library copies up to the size of a cache of the second level through the caches, and larger
# pieces around them. Which is faster, by up to a fifth, depends on the machine and its neighbors.
_PIECE_SIZES = (512 * 1024, 4 * 1024**2)
# What takes less time says nothing about the machine.
_MEASURED_BYTES_MIN = 16 * 1024**2
_TRIED_EVERY = 32
_THREADS_MAX = 4
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


class PieceSize:
    """In pieces of which size this machine copies fastest, learned from one save to the next.

    Every few saves another size is tried, because the neighbors of a machine change.
    """

    def __init__(self) -> None:
        self._seconds_per_byte: dict[int, float] = {}
        self._count = 0

    def choose(self) -> int:
        """The size for the next copies."""
        untried = [size for size in _PIECE_SIZES if size not in self._seconds_per_byte]
        if untried:
            return untried[0]
        best = min(_PIECE_SIZES, key=self._seconds_per_byte.__getitem__)
        if self._count % _TRIED_EVERY:
            return best
        return next(size for size in _PIECE_SIZES if size != best)

    def note(self, size: int, copied_bytes: int, seconds: float) -> None:
        """Learn from copies in pieces of this size, to memory that was used before."""
        if copied_bytes >= _MEASURED_BYTES_MIN:
            self._count += 1
            now = seconds / copied_bytes
            # One copy may have been disturbed.
            self._seconds_per_byte[size] = (self._seconds_per_byte.get(size, now) + now) / 2


def copies_of(
    leaves: Iterable[tuple[Leaf, Span]], target: Bytes, piece_bytes: int = _PIECE_SIZES[0]
) -> Iterator[tuple[int, Copy]]:
    """What copies each leaf to its place in the target, and where in the target each copy starts.

    Until then, no array of the state may change: an address is valid only as long as its array is.
    """
    base = target.ctypes.data
    for leaf, place in leaves:
        if not place.length:
            continue
        start = place.start
        if (source := _source(leaf)) is None:
            yield start, (_copy_by_library, (leaf, target[start : place.end]))
            continue
        length = place.length
        if length <= piece_bytes:
            yield start, (ctypes.memmove, (base + start, source, length))
            continue
        for at in range(0, length, piece_bytes):
            size = min(piece_bytes, length - at)
            yield start + at, (ctypes.memmove, (base + start + at, source + at, size))


class CopyFailed(Exception):
    """What is being copied will never be complete."""


class CopyQueue:
    """Copies for several threads, and how far they have come, for a thread that follows them.

    To be followed, the copies have to be in the order in which they are in the target. They are
    started in that order, so everything before the first unfinished one is copied.

    Threads that follow have normal priority until the copies end: at low priority they would hardly
    run beside them.
    """

    def __init__(self, copies: Iterable[tuple[int, Copy]]) -> None:
        self._copies = deque(copies)
        self._lock = threading.Lock()
        # Where the copy starts that each thread is at.
        self._unfinished: dict[int, float] = {}
        self._error: BaseException | None = None
        self._wanted = math.inf
        self._reached = threading.Condition(self._lock)
        self._followers: set[int] = set()
        self._is_over = False
        self.ended_at: float | None = None
        """When all copies were done, by the monotonic clock; None before that."""

    def __len__(self) -> int:
        return len(self._copies)

    def work(self) -> None:
        """Copy until nothing is left to start. After an error, no thread starts another copy."""
        try:
            while (copy := self._next()) is not None:
                function, arguments = copy
                function(*arguments)
        except BaseException as error:
            self.fail(error)
            raise

    def end(self) -> None:
        """All threads have returned from `work` without an error."""
        with self._lock:
            assert not self._copies and self._error is None, "Nothing is left to copy."
            self.ended_at = time.monotonic()
            self._end_following()

    def fail(self, error: BaseException) -> None:
        """Start no other copy, and let the thread that follows give up, unless all is copied."""
        with self._lock:
            if self.ended_at is not None:
                return
            self._copies.clear()
            self._error = self._error or error
            self._end_following()

    def follow(self) -> None:
        """Give low priority to the calling thread, as soon as the copies have ended."""
        with self._lock:
            if not self._is_over:
                self._followers.add(threading.get_native_id())
                return
        lower_priority()

    def stop_following(self) -> None:
        """To be called before a thread that follows may end: its number could be used again.

        Threads that begin to follow after that have low priority at once.
        """
        with self._lock:
            self._is_over = True
            self._followers.clear()

    def wait_for(self, end: int) -> None:
        """Wait until everything before `end` is copied. Raises `CopyFailed` if it never will be."""
        with self._lock:
            self._wanted = end
            self._await(lambda: self._copied_to() >= end)
            self._wanted = math.inf

    def wait_ended(self) -> float:
        """Wait for all copies, and return when they were done, by the monotonic clock."""
        with self._lock:
            self._await(lambda: self.ended_at is not None)
            assert self.ended_at is not None
            return self.ended_at

    def _await(self, is_reached: Callable[[], bool]) -> None:
        while self._error is None and not is_reached():
            self._reached.wait()
        if self._error is not None:
            raise CopyFailed(str(self._error) or type(self._error).__name__)

    def _end_following(self) -> None:
        self._is_over = True
        for thread in self._followers:
            lower_priority(thread)
        self._followers.clear()
        self._reached.notify_all()

    def _copied_to(self) -> float:
        return min((*self._unfinished.values(), self._copies[0][0] if self._copies else math.inf))

    def _next(self) -> Copy | None:
        with self._lock:
            start, copy = self._copies.popleft() if self._copies else (math.inf, None)
            # Also says that the thread is done with its copy before this one.
            self._unfinished[threading.get_ident()] = start
            if self._wanted != math.inf and self._copied_to() >= self._wanted:
                self._reached.notify_all()
            return copy


def copying_threads(group: RankGroup | None) -> int:
    """How many threads copy in this process, so that all ranks of the machine have processors."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    return max(1, min(_THREADS_MAX, processors // _ranks_here(group)))


def _ranks_here(group: RankGroup | None) -> int:
    """How many ranks of the group run on this machine, as far as it is known."""
    if group is None:
        return 1
    found = (os.environ.get(name, "") for name in _LOCAL_SIZES)
    sizes = [int(size) for size in found if size.isdecimal() and int(size) > 0]
    # JAX runs one process on each machine, unless the program does otherwise.
    return sizes[0] if sizes else 1 if group.world.library == "jax" else group.size


def _source(leaf: Leaf) -> int | None:
    """The address of the bytes to copy; None if the library has to copy them."""
    found = leaf.library.location(leaf.array)
    if found is None:
        return None
    if leaf.skipped + leaf.nbytes > found[1]:
        raise UnsupportedState(
            f"The array at {leaf.path!r} became smaller while the state was captured.",
            hint="Look for a state_dict or an outlast.value that changes other parts of the state.",
        )
    return found[0] + leaf.skipped


def _copy_by_library(leaf: Leaf, target: Bytes) -> None:
    leaf.library.copy_out(_selected(leaf), target)


def _selected(leaf: Leaf) -> Any:
    """The elements to copy, in C order, if they are not the complete array."""
    if leaf.shard is None or not leaf.shard.is_flat or leaf.library.name == "jax":
        return leaf.array
    flat = leaf.array.detach() if leaf.library.name == "torch" else leaf.array
    start = leaf.shard.offsets[0]
    return flat.reshape(-1)[start : start + leaf.shape[0]]
