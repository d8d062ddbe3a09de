"""Split a stream into batches that are limited in number and in bytes. Pure.

Used wherever many values are read or sent at once, because a limit on their number alone bounds
neither memory nor the size of a request.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

BYTES_MAX = 8 * 1024**2
"""The default size of a batch or page."""


def batched(
    values: Iterable[T],
    size_of: Callable[[T], int],
    *,
    count_max: int,
    bytes_max: int = BYTES_MAX,
) -> Iterator[list[T]]:
    """The values in lists within both limits; a larger value gets its own list."""
    batch: list[T] = []
    batch_bytes = 0
    for value in values:
        value_bytes = size_of(value)
        if batch and (len(batch) == count_max or batch_bytes + value_bytes > bytes_max):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(value)
        batch_bytes += value_bytes
    if batch:
        yield batch


def text_bytes(*texts: str) -> int:
    """The size of texts in UTF-8, without copying those that are ASCII."""
    # A plain loop, because this runs for every item.
    size_bytes = 0
    for text in texts:
        size_bytes += len(text if text.isascii() else text.encode(errors="surrogatepass"))
    return size_bytes
