"""The values that queues exchange with workers: items, leases on chunks of them, and settlements.

A payload is JSON text that backends do not parse. It is decoded where the item is processed, so a
corrupted payload fails one item and not the queue. These are named tuples because a worker creates
thousands of them per second.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from outlast._redact import redact
from outlast.queue.errors import ItemRefused

Json: TypeAlias = Any  # what json.loads returns; a recursive type would burden every caller
Publishable: TypeAlias = "Mapping[str, Json] | Iterable[Item | tuple[str, Json]]"

KEY_CHARACTERS_MAX = 512
ERROR_CHARACTERS_MAX = 4000
ERRORS_KEPT = 20
"""How many errors are kept per item. Older ones are dropped."""

EXPIRED_ALONE = "The worker died or lost its lease while it was processing only this item."


class Item(NamedTuple):
    """One unit of work. `failures` counts its failures so far; evictions do not count."""

    key: str
    payload: str
    failures: int = 0

    @classmethod
    def of(cls, key: object, value: Json) -> "Item":
        """Make an item from a JSON value. Raises `ItemRefused` if the key or value is invalid."""
        if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARACTERS_MAX or "\0" in key:
            raise ItemRefused(
                f"Invalid key {key!r:.200}.",
                hint=f"Use a string of 1 to {KEY_CHARACTERS_MAX} characters without NUL.",
            )
        try:
            # Other programs cannot read JSON that contains lone surrogates or NaN.
            payload = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            payload.encode()
            key.encode()
        except UnicodeEncodeError as error:
            raise ItemRefused(
                f"The value of item {key!r:.200} is not valid JSON: it contains a lone surrogate, "
                f"{error.object[error.start]!a}.",
                hint="Replace it, for example with U+FFFD.",
            ) from error
        except RecursionError as error:
            raise ItemRefused(
                f"The value of item {key!r:.200} is nested too deeply for JSON.",
                hint="Flatten it, or store it in a file and publish the path.",
            ) from error
        except (TypeError, ValueError) as error:
            raise ItemRefused(
                f"The value of item {key!r:.200} is not valid JSON: {error}.",
                hint="Publish numbers, strings, lists and mappings. Store bytes elsewhere and "
                "publish their name. Replace NaN and Infinity with null or a string.",
            ) from error
        return cls(key=key, payload=payload)

    @property
    def value(self) -> Json:
        return json.loads(self.payload)


class Lease(NamedTuple):
    """A time-limited claim on a chunk of items.

    `queue` is the random ID of the queue, and `token` counts its claims: of two leases of one
    queue, the later one has the larger token. Sinks fence results with both, without using a clock.
    A backend that has no counter gives every lease the token 1. `expires` is on this process's
    monotonic clock, measured from before the claim was sent. `handle` is for the backend.
    """

    token: int
    items: tuple[Item, ...]
    expires: float
    handle: Any = None
    queue: str = ""


class Failure(NamedTuple):
    """An item that failed. It is retried after `delay_seconds`, or never if `is_final`."""

    key: str
    error: str
    delay_seconds: float = 0.0
    is_final: bool = False


class Settlement(NamedTuple):
    """The results for items of one lease, by key. Items that are not listed stay leased."""

    done: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    released: tuple[str, ...] = ()


class LeaseTerms(NamedTuple):
    """The conditions under which a worker claims items.

    A chunk whose lease expired may contain an item that kills its workers. It comes back in halves,
    and an item whose lease expired `failures_max` times while it was alone becomes a dead letter.
    """

    worker: str
    lease_seconds: float = 60.0
    failures_max: int = 5


class Published(NamedTuple):
    """How many items a publish added, and how many were in the queue already."""

    added: int
    known: int


class DeadLetter(NamedTuple):
    """An item that is not retried any more, with the error of each failure, oldest first."""

    item: Item
    errors: tuple[str, ...]


class QueueStats(NamedTuple):
    """Counts and rates of a queue. None if the backend cannot tell."""

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
    """Items from a mapping, from pairs of key and value, or from items."""
    for one in given.items() if isinstance(given, Mapping) else given:
        yield one if isinstance(one, Item) else Item.of(*one)


def failure_line(error: str, *, worker: str, at: datetime) -> str:
    """The line kept for a failure. Of a long error it keeps the end, which names the cause.

    Secrets are masked first, because a truncated one would not be recognized.
    """
    error = redact(error)
    if len(error) > ERROR_CHARACTERS_MAX:
        error = "..." + error[-ERROR_CHARACTERS_MAX:]
    return f"{at:%Y-%m-%dT%H:%M:%SZ} {worker}: {error}"
