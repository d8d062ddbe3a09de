"""Short cuts for tests of checkpoints."""

import itertools
from collections.abc import MutableMapping
from typing import Any

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.runs.catalog import read_manifest
from outlast.storage import Store

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


def manifest_of(store: Store, name: str) -> CheckpointManifest:
    """The manifest of a checkpoint that one process has saved."""
    manifest = read_manifest(store, name)
    assert isinstance(manifest, CheckpointManifest)
    return manifest
