"""A framework's loader that reads a torch loader ahead of the batch that it hands out.

At a save, the framework holds a batch that was not consumed yet. It is loaded again at resume, with
the random generators as they were before it was first loaded; then they are set as they were at
the save. So random transforms in this process come out the same, even if the model draws from the
same generators in between. What was loaded is compared with what the save saw.

Reading the states of all generators before each batch would take longer than many a training step.
The first batches show which ones loading draws from; torch's is cheap, and always read. If another
one is found to have moved later, it is noted from then on. A save that finds it cannot know whether
the batch that was read ahead drew from it; a resume warns if that batch is not the same again.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import xxhash

from outlast._base.logs import get_logger
from outlast.checkpoint.position.digest import Description, are_close
from outlast.checkpoint.position.replay import Replay
from outlast.checkpoint.position.sources import Sources, changed, value_of
from outlast.checkpoint.position.stand_in import StandIn, replaced
from outlast.checkpoint.position.transitions import is_of_order
from outlast.checkpoint.state.randomness import generators, random_states

log = get_logger(__name__)

_BATCHES_WATCHED = 64
_LOOKS_EVERY = 64
_END = object()


class ReadAhead:
    """A framework's loader, `shell`, around the torch loader that is its attribute `name`.

    `fetch` is how many batches it reads for each that it hands out. `skips` says whether it may
    start in the middle: if not, everything consumed is loaded again at resume. `prepare` does what
    the shell does to the torch loader before a pass, and returns what to save about that; it takes
    what was saved if the pass resumes. `skipped` is called if a pass resumes after its last batch,
    so that the shell finds none.
    """

    def __init__(
        self,
        shell: Any,
        *,
        name: str,
        fetch: int,
        skips: bool,
        prepare: Callable[[dict[str, Any] | None], dict[str, Any]],
        skipped: Callable[[], None],
    ) -> None:
        self.loader = getattr(shell, name)
        self.skips = skips
        self._prepare = prepare
        self._prepared: dict[str, Any] = {}
        self._shell = shell
        self._name = name
        self._fetch = fetch
        self._skipped = skipped
        self._find: Callable[[], Sources] | None = None
        self._replay: Replay | None = None
        self._reading: _Reading | None = None
        # Loading is the same in each pass, so one pass learns from those before.
        self._habits = _Habits()
        self._catch_up: Callable[[], None] | None = None

    def prepare(self, saved: dict[str, Any] | None = None) -> None:
        """Call before everything else of a pass, with the record of one that resumes."""
        self._prepared = self._prepare((saved or {}).get("prepared"))

    def begin(self, find: Callable[[], Sources], replay: Replay | None) -> None:
        """Call before each iteration."""
        self._find = find
        self._replay = replay
        self._catch_up = None

    def begin_after_skipping(self, catch_up: Callable[[], None]) -> None:
        """Call `catch_up` before the first batch is read: it skips what was consumed."""
        self._catch_up = catch_up

    def record(self) -> dict[str, Any]:
        """What was read ahead, to be saved with the position."""
        reading = self._reading.record() if self._reading is not None else {}
        return reading | {"prepared": self._prepared}

    def __iter__(self) -> Iterator[Any]:
        rest = iter(self._shell)
        with replaced(self._shell, self._name, _Opened(self.loader, self._read)):
            first = next(rest, _END)
        if first is _END:
            if self._replay is not None:
                self._skipped()
            return iter(())
        return itertools.chain((first,), rest)

    def _read(self) -> Iterator[Any]:
        assert self._find is not None, "Every iteration begins."
        rest: Iterator[Any] = iter(self.loader)
        if self._catch_up is not None:
            self._catch_up()
        if self.loader.num_workers > 0:
            # They load, and their generators are lost with them.
            self._reading = None
            return rest
        self._reading = _Reading(
            rest, self._fetch, self._find(), self._habits, skips=self._catch_up is not None
        )
        record = self._replay.record.get("ahead") if self._replay is not None else None
        if self._replay is not None and record and "note" in record:
            self._reading.resume(record, self._replay)
        return self._reading


class _Opened(StandIn):
    """The torch loader, while the shell makes its iterator."""

    def __init__(self, original: Any, read: Callable[[], Iterator[Any]]) -> None:
        self.original = original
        self._read = read

    def __iter__(self) -> Iterator[Any]:
        return self._read()

    def __len__(self) -> int:
        return len(self.original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class _Habits:
    """Which generators loading may draw from, and how many batches are left to find out."""

    def __init__(self) -> None:
        self.drawn: set[str] = set()
        self.left_to_watch = _BATCHES_WATCHED


class _Reading:
    """Reads a torch loader, and notes the generators before each fetch."""

    def __init__(
        self,
        rest: Iterator[Any],
        fetch: int,
        sources: Sources,
        habits: _Habits,
        *,
        skips: bool,
    ) -> None:
        self._rest = rest
        self._habits = habits
        self._fetch = fetch
        self._sources = sources
        self._skips = skips
        self._read = 0
        self._last: Any = None
        self._has_ended = False
        # How to read the generators of the data, and which of them loading draws from.
        self._own = {
            path: value_of(one).get
            for path, one in sources.generators.items()
            if not is_of_order(path)
        }
        # All generators when they were last read, and the batch of the next look at them.
        self._seen = self._states()
        self._look_at = _LOOKS_EVERY
        self._read_torch = sys.modules["torch"].default_generator.get_state
        # What was noted before the newest fetch, and which of the batches that was.
        self._noted_at = 0
        self._torch: Any = None
        self._note: dict[str, Any] = {}
        self._is_watched = True
        self._unknown: set[str] = set()
        self._resuming: tuple[dict[str, Any], Replay] | None = None
        self._comparing: tuple[dict[str, Any], Replay] | None = None

    def resume(self, record: dict[str, Any], replay: Replay) -> None:
        """Read the batch again that was read ahead at the save."""
        self._resuming = (record, replay)
        self._habits.drawn |= record["note"].keys() - {"torch"}

    def record(self) -> dict[str, Any]:
        is_empty = self._read == self._noted_at
        if self._torch is None or (self._has_ended and is_empty):
            return {"ended": self._has_ended}
        described = Description(self._last)
        return {
            "ended": False,
            "at": self._noted_at,
            "read": self._read,
            "unknown": sorted(self._moved_unnoticed()),
            "note": self._note | {"torch": self._torch},
            "digest": xxhash.xxh3_64_hexdigest(described.encoded),
            "fractions": described.fractions,
        }

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        habits = self._habits
        if habits.left_to_watch or self._resuming is not None or self._comparing is not None:
            return self._next_watched()
        if self._read % self._fetch == 0:
            self._is_watched = False
            self._unknown = set()
            if self._read >= self._look_at:
                self._look()
            self._take_note()
        return self._next()

    def _next(self) -> Any:
        try:
            self._last = batch = next(self._rest)
        except StopIteration:
            self._has_ended = True
            raise
        self._read += 1
        return batch

    def _take_note(self) -> None:
        self._noted_at = self._read
        self._torch = self._read_torch()
        if drawn := self._habits.drawn:
            states: dict[str, Any] = random_states() if drawn - self._own.keys() else {}
            states |= {path: get() for path, get in self._own.items() if path in drawn}
            self._note = {name: states[name] for name in drawn if name in states}

    def _moved_unnoticed(self) -> set[str]:
        """The generators whose state before the newest fetch is not known."""
        if not self._is_watched:
            # A save may ask more than once.
            self._unknown |= self._look()
        return self._unknown

    def _look(self) -> set[str]:
        """Find what has moved since the last look although loading did not draw from it before.

        Whether that was loading or other code is not known, so it is noted from the next fetch on.
        """
        states = self._states()
        moved = changed(self._seen, states) - self._habits.drawn - {"torch"}
        self._habits.drawn |= moved
        self._seen = states
        self._look_at = self._read + _LOOKS_EVERY
        return moved

    def _next_watched(self) -> Any:
        """As `__next__`, in the first batches, and until a resume has read its batches again."""
        resuming = self._resuming
        if resuming is not None and (self._skips or self._read == resuming[0]["at"]):
            self._resuming, self._comparing = None, resuming
            self._set_note(resuming[0]["note"])
        if self._read % self._fetch == 0:
            self._is_watched = True
            self._unknown = set()
            self._take_note()
        before = self._states()
        batch = self._next()
        habits = self._habits
        habits.left_to_watch = max(0, habits.left_to_watch - 1)
        self._seen = self._states()
        new = changed(before, self._seen) - habits.drawn - {"torch"}
        habits.drawn |= new
        # The other batches of the same fetch have not drawn from these.
        self._note |= {name: before[name] for name in new}
        if self._comparing is not None:
            self._compare(batch, *self._comparing)
        return batch

    def _compare(self, batch: Any, record: dict[str, Any], replay: Replay) -> None:
        if self._skips:
            # The next batch is loaded before anything else can do it.
            replay.settle()
            self._seen = self._states()
        elif self._read < record["read"]:
            return
        self._comparing = None
        described = Description(batch)
        is_same = record["digest"] == xxhash.xxh3_64_hexdigest(described.encoded)
        if is_same and are_close(record["fractions"], described.fractions):
            return
        unknown = ", ".join(record["unknown"])
        reason = (
            f"It was among the first to draw from a random generator ({unknown}), after many that "
            "did not, so the state of that generator was not known."
            if unknown
            else "Its transforms may depend on more than the random generators of the data set and "
            "the global ones."
        )
        log.warning(
            "A batch that was loaded before the interruption is not the same now that it is loaded "
            "again, so the result will differ from that of an uninterrupted run. %s",
            reason,
        )

    def _set_note(self, note: Mapping[str, Any]) -> None:
        known = random_states()
        generators().set(known | {name: state for name, state in note.items() if name in known})
        for path, state in note.items():
            if path in self._own:
                self._sources.set_state(path, state)

    def _states(self) -> dict[str, Any]:
        return random_states() | {path: get() for path, get in self._own.items()}
