"""What the program itself changes between two epochs, such as a seed, the epoch or the loader.

A process that resumes between two epochs has done that already for the next one: restoring what the
end of the last epoch left would undo it. Such changes show where an epoch does not start as the one
before ended, once two epochs have been seen. Before that, only a seed shows it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import xxhash

_SMALL_SEED = 2**64


class EpochTransitions:
    """Compares the end of each epoch with the start of the next. Saved with the position."""

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        saved = saved or {}
        self._first: dict[str, str] = dict(saved.get("first", {}))
        self._seeds: dict[str, int] = dict(saved.get("seeds", {}))
        self._reset: set[str] = set(saved.get("reset", ()))
        self._is_observed: bool = saved.get("observed", False)
        self._ended: dict[str, str] | None = None

    def record(self) -> dict[str, Any]:
        return {
            "first": self._first,
            "seeds": self._seeds,
            "reset": sorted(self._reset),
            "observed": self._is_observed,
        }

    def start(self, snapshot: Mapping[str, Any]) -> None:
        """An epoch starts like this."""
        digests = _digests(snapshot)
        if not self._first:
            self._first = {path: digests[path] for path in _lasting(snapshot)}
            self._seeds = _seeds(snapshot)
        ended, self._ended = self._ended, None
        if ended is not None:
            self._is_observed = True
            self._reset |= {path for path in ended if ended[path] != digests.get(path)}

    def end(self, snapshot: Mapping[str, Any]) -> None:
        """An epoch has ended like this."""
        self._ended = _digests(snapshot)

    def is_reset(self, path: str) -> bool:
        """Whether the program was seen to change this between two epochs."""
        return path in self._reset

    def is_untouched(self, snapshot: Mapping[str, Any]) -> bool:
        """Whether a loader in a new process is as the first one was at the start of the run."""
        digests = _digests(snapshot)
        return all(digests.get(path) == first for path, first in self._first.items())

    def is_driven_by_program(self, is_of_order: Any) -> bool:
        """Whether the program changes something that decides the order."""
        return any(is_of_order(path) for path in self._reset)

    def keeps_generator(self, path: str, snapshot: Mapping[str, Any]) -> bool:
        """Whether a generator is to stay as the program has left it for the next epoch."""
        if self._is_observed:
            return self._is_touched(path, snapshot) and path in self._reset
        seed = _seeds(snapshot).get(path)
        is_reseeded = seed is not None and seed != self._seeds.get(path, seed)
        return self._is_touched(path, snapshot) and is_reseeded

    def doubtful(self, snapshot: Mapping[str, Any]) -> list[str]:
        """Generators that the program may have seeded for the next epoch, or never seeds."""
        if self._is_observed or not self._first:
            return []
        return [
            path
            for path in snapshot["own"]
            if path in self._first
            and self._is_touched(path, snapshot)
            and not self.keeps_generator(path, snapshot)
        ]

    def _is_touched(self, path: str, snapshot: Mapping[str, Any]) -> bool:
        return _digest(snapshot["own"].get(path)) != self._first.get(path)

    @property
    def is_observed(self) -> bool:
        return self._is_observed


def is_of_order(path: str) -> bool:
    """Whether something belongs to the order of a torch loader and not to its data."""
    return path == "generator" or path.startswith(("sampler", "batch_sampler"))


def digest_of(snapshot: Mapping[str, Any], *, is_wanted: Callable[[str], bool]) -> str:
    """One digest of everything in a snapshot whose path is wanted."""
    digests = _digests(snapshot)
    return _digest({path: digests[path] for path in sorted(digests) if is_wanted(path)})


def _digests(snapshot: Mapping[str, Any]) -> dict[str, str]:
    samples = {path: one[1:4] for path, one in snapshot["samples"].items()}
    return {
        path: _digest(found)
        for part in (samples, snapshot["counters"], snapshot["own"])
        for path, found in part.items()
    }


def _lasting(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """All generators, and everything of samplers. The rest may be large, and decides less."""
    yield from snapshot["own"]
    for part in (snapshot["counters"], snapshot["samples"]):
        yield from filter(is_of_order, part)


def _seeds(snapshot: Mapping[str, Any]) -> dict[str, int]:
    """The seeds that the program gave, as far as a generator remembers its seed."""
    return {path: seed for path, seed in snapshot["seeds"].items() if seed is not None}


def seed_of(generator: Any) -> int | None:
    """The seed of a generator, if it remembers it and the program chose it."""
    if hasattr(generator, "initial_seed"):
        return int(generator.initial_seed())
    bits = getattr(generator, "bit_generator", generator)
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    # A generator without a seed takes 128 bits from the system.
    return entropy if isinstance(entropy, int) and entropy < _SMALL_SEED else None


def _digest(thing: Any) -> str:
    return xxhash.xxh3_64_hexdigest("\0".join(_tokens(thing)).encode(errors="backslashreplace"))


def _tokens(thing: Any) -> Iterator[str]:
    if isinstance(thing, Mapping):
        for key, item in thing.items():
            yield repr(key)
            yield from _tokens(item)
    elif isinstance(thing, list | tuple):
        # The state of Python's generator is long, and plain.
        if all(type(item) is int for item in thing):
            yield repr(thing)
            return
        yield str(len(thing))
        for item in thing:
            yield from _tokens(item)
    elif hasattr(thing, "dtype") and hasattr(thing, "shape"):
        yield f"{thing.dtype}{tuple(thing.shape)}"
        yield str(np.asarray(thing).tobytes())
    else:
        yield repr(thing)
