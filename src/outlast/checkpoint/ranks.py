"""The processes that save one run together. For now this is always a single process."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from outlast.checkpoint.errors import CheckpointError


class Group(Protocol):
    """A process among those that save one run. Ranks count from 0; rank 0 commits."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SingleProcess:
    """The group of a program that runs as one process."""

    rank: int = 0
    size: int = 1


def current_group(environ: Mapping[str, str] = os.environ) -> Group:
    """The group of this process. Raises `CheckpointError` for more than one rank."""
    world_size = environ.get("WORLD_SIZE", "1")
    if world_size not in ("", "1"):
        raise CheckpointError(
            f"WORLD_SIZE is {world_size}, but runs with more than one rank are not supported yet.",
            hint="Run on one rank, or save with torch.distributed.checkpoint.",
        )
    return SingleProcess()
