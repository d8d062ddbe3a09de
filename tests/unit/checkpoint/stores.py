"""Short cuts for tests of checkpoints."""

import itertools
from collections.abc import MutableMapping
from typing import Any

from outlast.checkpoint.checkpointer import Checkpointer

NEVER = 10**9
_numbers = itertools.count()


def memory_url() -> str:
    """The address of a store that nobody else has."""
    return f"memory://test-{next(_numbers)}"


def saved(url: str, state: MutableMapping[str, Any], *, step: int = 1, **options: Any) -> None:
    """Save a state as a run of its own would."""
    with Checkpointer(url, state, every_steps=NEVER, **options) as checkpointer:
        checkpointer.resume()
        checkpointer.save(step)


def resumed(url: str, state: MutableMapping[str, Any], **options: Any) -> int:
    """Fill a state, and return the step."""
    with Checkpointer(url, state, every_steps=NEVER, **options) as checkpointer:
        return checkpointer.resume()
