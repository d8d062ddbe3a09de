"""Queues of keyed items, from which any number of workers claim chunks under leases."""

from outlast.queue.errors import ItemRefused, LeaseLost, QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    DeadLetter,
    Failure,
    Item,
    Lease,
    LeaseTerms,
    Published,
    QueueStats,
    Settlement,
)
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue, QueueGuarantees

__all__ = [
    "DeadLetter",
    "Failure",
    "Item",
    "ItemRefused",
    "Lease",
    "LeaseLost",
    "LeaseTerms",
    "Published",
    "Queue",
    "QueueGuarantees",
    "QueueStats",
    "QueueUnavailable",
    "QueueUrlError",
    "Settlement",
    "open_queue",
]
