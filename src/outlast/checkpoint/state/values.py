"""State that is read and written through functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class value:
    """A part of the state that is read by `get()` at each save and passed to `set` at resume.

    What `get` returns must consist of arrays, containers and plain values.
    """

    get: Callable[[], object]
    set: Callable[[Any], object]
