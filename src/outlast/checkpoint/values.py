"""State that lives behind functions instead of in a container."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class value:
    """A part of the state that is read by `get()` at each save and written by `set(it)` at resume.

    What `get` returns must be made of what a state can hold: arrays, containers and plain values.
    """

    get: Callable[[], object]
    set: Callable[[Any], object]
