"""What travels through a queue: items, leases on chunks of them, and what became of each.

Values only. A payload is JSON text that no backend looks into: it is decoded where it is worked on,
so that one corrupted payload is the failure of one item and not of the queue. Named tuples, because
a worker makes thousands of them a second.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from outlast.queue.errors import ItemRefused

Json: TypeAlias = Any  # what json.loads gives; a recursive type would burden every caller
Publishable: TypeAlias = "Mapping[str, Json] | Iterable[Item | tuple[str, Json]]"

KEY_CHARACTERS_MAX = 512


class Item(NamedTuple):
    """A piece of work. `failures` counts how often it failed by its own fault."""

    key: str
    payload: str
    failures: int = 0

    @classmethod
    def of(cls, key: object, value: Json) -> "Item":
        """An item from a JSON value, refused if the key or the value cannot travel."""
        if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARACTERS_MAX or "\0" in key:
            raise ItemRefused(
                f"The key {key!r:.200} cannot be used.",
                hint=f"A key is text of 1 to {KEY_CHARACTERS_MAX} characters without NUL.",
            )
        try:
            # Surrogates and NaN have no place in JSON that other programs can read.
            payload = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            payload.encode()
            key.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ItemRefused(
                f"The item {key!r} is not a JSON value: {error}.",
                hint="Publish numbers, text, lists and mappings; bytes go into a store, by name.",
            ) from error
        return cls(key=key, payload=payload)

    @property
    def value(self) -> Json:
        return json.loads(self.payload)


class Lease(NamedTuple):
    """A chunk claimed for a while.

    `token` grows with every claim of a queue and is never given twice: it is the fence for results.
    `expires` is this process's monotonic clock, counted from before the claim was sent. `handle` is
    the backend's own.
    """

    token: int
    items: tuple[Item, ...]
    expires: float
    handle: Any = None


class Failure(NamedTuple):
    """An item that failed. It comes back after `delay_seconds`, or, if `is_final`, never."""

    key: str
    error: str
    delay_seconds: float = 0.0
    is_final: bool = False


class Outcome(NamedTuple):
    """What became of items of one lease. Items named nowhere stay leased."""

    done: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    released: tuple[str, ...] = ()


class Terms(NamedTuple):
    """On what terms a worker claims.

    A chunk whose lease expired may hold an item that kills its workers. It comes back in halves,
    and an item whose lease expired `failures_max` times while it was alone is a dead letter.
    """

    worker: str
    lease_seconds: float = 60.0
    failures_max: int = 5


class Published(NamedTuple):
    added: int
    known: int


class DeadLetter(NamedTuple):
    """An item that was given up, with the error of each failure, oldest first."""

    item: Item
    errors: tuple[str, ...]


class Stats(NamedTuple):
    """What a queue knows of itself. None where the backend cannot tell."""

    ready: int | None
    delayed: int | None
    leased: int | None
    done: int | None
    dead: int | None
    oldest_seconds: float | None
    done_per_second: float | None

    @property
    def eta_seconds(self) -> float | None:
        if self.ready is None or self.leased is None or not self.done_per_second:
            return None
        return (self.ready + (self.delayed or 0) + self.leased) / self.done_per_second


def as_items(given: Publishable) -> Iterator[Item]:
    """Items from what users publish: a mapping, pairs of key and value, or items."""
    for one in given.items() if isinstance(given, Mapping) else given:
        yield one if isinstance(one, Item) else Item.of(*one)
