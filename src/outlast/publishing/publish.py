"""Publish items from files or iterables to a queue: all of them or, if one is invalid, none."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple, TypeAlias

from outlast._base.batches import batched, text_bytes
from outlast._base.logs import get_logger
from outlast.errors import OutlastError
from outlast.publishing.sources import (
    Found,
    RejectedItem,
    SourcedItem,
    SourceWarning,
    on_one_line,
    read_file,
    read_values,
)
from outlast.publishing.spool import ItemSpool
from outlast.queue.errors import ItemRefused
from outlast.queue.opening import open_queue
from outlast.queue.protocol import CheckingQueue, Queue

log = get_logger(__name__)

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]

_BATCH_ITEMS = 10_000
_BATCH_BYTES = 16 * 1024**2
_PROGRESS_ITEMS = 1000
_REJECTED_KEPT = 10


class InvalidItems(OutlastError, ValueError):
    """Some items cannot be published, so nothing was published.

    `rejected` has the first ten of them, each with its location and the reason; `count` is how many
    there are.
    """

    def __init__(self, rejected: Sequence[RejectedItem], *, count: int, total: int) -> None:
        super().__init__(
            f"{count:,} of {total:,} items cannot be published, so nothing was published.",
            hint="Fix the listed items and publish again.",
        )
        self.rejected = tuple(rejected)
        self.count = count
        for one in rejected:
            self.add_note(f"{one.where}: {one.reason}")


class PublishSummary(NamedTuple):
    """How many items were added, were in the queue already, or occurred more than once."""

    added: int
    known: int
    repeated: int


class PublishListener:
    """Is notified while `publish` runs. Override what you need; by default, problems are logged."""

    def on_read(self, count: int) -> None:
        """`count` more items were read and checked."""

    def on_warning(self, warning: SourceWarning) -> None:
        """A source can be published, but may not be what was meant."""
        log.warning("%s: %s", warning.where, warning.reason)

    def on_published(self, count: int, total: int) -> None:
        """`count` more of `total` items were published."""

    def on_partial(self, published: int, total: int) -> None:
        """An error ended the publish when only some of the items were published."""
        log.warning("%d of %d items were published before an error.", published, total)


def publish(
    queue: Queue | str,
    *sources: Source,
    key: str | None = None,
    listener: PublishListener | None = None,
) -> PublishSummary:
    """Publish all items of these sources, unless one of them is invalid.

    `queue` is a URL, or an object from `open_queue`. A source is the path of a JSONL or CSV file, a
    folder whose files are the items, or "-" for JSONL on standard input; or it is a mapping of keys
    to values, or an iterable of values or of `(key, value)` tuples. `key` names the field that
    holds an item's key. Without it, the key is a hash of the value, or the path of a file in a
    folder.

    Everything is read and checked before the first item is published. Raises `InvalidItems`, and
    nothing was published; `QueueUrlError` or `QueueUnavailable`.

    If killed while publishing: some items are published, and publishing again adds the rest.
    """
    if not sources:
        raise ValueError("Expected at least one source to publish.")
    listener = listener or PublishListener()
    with ExitStack() as opened:
        if isinstance(queue, str):
            queue = opened.enter_context(closing(open_queue(queue)))
        spool = opened.enter_context(closing(ItemSpool()))
        _read_all(spool, queue, sources, key, listener)
        added, known = _publish_all(queue, spool, listener)
        return PublishSummary(added=added, known=known, repeated=spool.repeated)


def _read_all(
    spool: ItemSpool,
    queue: Queue,
    sources: Sequence[Source],
    key: str | None,
    listener: PublishListener,
) -> None:
    rejected: list[RejectedItem] = []
    count = 0
    # Checked once, because `isinstance` takes longer than all else that is done to an item.
    checking = queue if isinstance(queue, CheckingQueue) else None
    found = (one for source in sources for one in _read(source, key))
    for number, one in enumerate(found, start=1):
        if isinstance(one, SourceWarning):
            listener.on_warning(one)
            continue
        problem = one if isinstance(one, RejectedItem) else _keep(spool, checking, one)
        if problem is not None:
            count += 1
            rejected += [problem][: _REJECTED_KEPT - len(rejected)]
        if number % _PROGRESS_ITEMS == 0:
            listener.on_read(_PROGRESS_ITEMS)
    if count:
        raise InvalidItems(rejected, count=count, total=count + len(spool) + spool.repeated)


def _read(source: Source, key: str | None) -> Iterator[Found]:
    if isinstance(source, str | os.PathLike):
        return read_file(os.fspath(source), key)
    return read_values(source, key)


def _keep(
    spool: ItemSpool, checking: CheckingQueue | None, found: SourcedItem
) -> RejectedItem | None:
    """Keep an item until all are read, unless the queue cannot accept it."""
    if checking is not None:
        try:
            checking.check(found.item)
        except ItemRefused as error:
            return RejectedItem(found.where, on_one_line(error))
    return spool.add(found)


def _publish_all(queue: Queue, spool: ItemSpool, listener: PublishListener) -> tuple[int, int]:
    added = known = 0
    # In batches, because workers wait while one is written.
    batches = batched(
        spool.items(),
        lambda item: text_bytes(item.key, item.payload),
        count_max=_BATCH_ITEMS,
        bytes_max=_BATCH_BYTES,
    )
    try:
        for batch in batches:
            published = queue.publish(batch)
            added += published.added
            known += published.known
            listener.on_published(len(batch), len(spool))
    except OutlastError:
        listener.on_partial(added + known, len(spool))
        raise
    return added, known
