"""Keyed items that any number of evictable workers pull in chunks, under leases."""

from outlast.queue.errors import ItemRefused, LeaseLost, QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    DeadLetter,
    Failure,
    Item,
    Lease,
    Outcome,
    Published,
    Stats,
    Terms,
)
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Promises, Queue

__all__ = [
    "DeadLetter",
    "Failure",
    "Item",
    "ItemRefused",
    "Lease",
    "LeaseLost",
    "Outcome",
    "Promises",
    "Published",
    "Queue",
    "QueueUnavailable",
    "QueueUrlError",
    "Stats",
    "Terms",
    "open_queue",
]
