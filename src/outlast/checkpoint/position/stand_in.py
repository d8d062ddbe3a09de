"""Parts of a loader that are replaced while it creates its iterator."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StandIn:
    """Takes the place of a part of a loader for a while. A search goes on at the original."""

    original: Any


@contextmanager
def replaced(thing: Any, name: str, other: Any) -> Iterator[None]:
    """Give a part of a loader another value inside the block."""
    original = getattr(thing, name)
    # A DataLoader refuses another sampler once it is made, but its iterator takes what it finds.
    object.__setattr__(thing, name, other)
    try:
        yield
    finally:
        object.__setattr__(thing, name, original)
