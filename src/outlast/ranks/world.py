"""Which of several processes this one is. Only reads what the program has set up itself."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.ranks.errors import RanksNotReady

if TYPE_CHECKING:
    from outlast.ranks.channel import Channel

TORCH = "torch"
JAX = "jax"


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The processes that run one program together. Ranks count from 0.

    `library` is what connects them: "torch" or "jax".
    """

    rank: int
    size: int
    library: str

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"Rank {self.rank} is not in a world of {self.size}.")


def current_world(environ: Mapping[str, str] = os.environ) -> World | None:
    """The world of this process; None if the program runs as one process.

    Raises `RanksNotReady` if the launcher started several, which are not yet connected.
    """
    if (distributed := sys.modules.get("torch.distributed")) is not None:
        if distributed.is_available() and distributed.is_initialized():
            rank, size = distributed.get_rank(), distributed.get_world_size()
            if size > 1 or _jax_world() is None:
                return _world(rank, size, TORCH)
    if (world := _jax_world()) is not None:
        return world
    size_text = environ.get("WORLD_SIZE", "").strip()
    if size_text not in ("", "1"):
        raise RanksNotReady(
            f"WORLD_SIZE is {size_text}, but the processes of this program are not connected yet.",
            hint="Call torch.distributed.init_process_group() before opening the Run.",
        )
    return None


def open_channel(world: World, name: str) -> "Channel":
    """A channel between the ranks. `name` is a prefix of all keys, the same on all ranks."""
    if world.library == TORCH:
        from outlast.ranks.torch_channel import open_torch_channel

        return open_torch_channel(name)
    from outlast.ranks.jax_channel import open_jax_channel

    return open_jax_channel(name)


def _jax_world() -> World | None:
    # Not jax.process_count(), which starts the devices if the program has not done so.
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    if state is None or state.client is None:
        return None
    return _world(state.process_id, state.num_processes, JAX)


def _world(rank: int, size: int, library: str) -> World | None:
    return World(rank=rank, size=size, library=library) if size > 1 else None
