"""The processes that save one run together, and what they tell each other about it.

Small facts as JSON, by key, over the channel between the ranks. Every wait is bounded, and a rank
that is lost ends the others (see `ranks/liveness.py`), so that none waits for the dead.
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

from outlast.checkpoint.errors import CheckpointError, RanksLost
from outlast.ranks.channel import Channel
from outlast.ranks.errors import ChannelLost
from outlast.ranks.world import World, current_world, open_channel

START_SECONDS_MAX = 24 * 3600.0
"""How long a rank waits for the others while they start: a large state takes long to load."""

_numbers = itertools.count()


class RankGroup:
    """One of several processes that save a run together. Not thread-safe: see `connect`."""

    def __init__(self, world: World, channel: Channel) -> None:
        self._world = world
        self._channel = channel
        self.raises_together = False
        """Whether all ranks know why none of them can continue, and raise by themselves."""

    @property
    def rank(self) -> int:
        return self._world.rank

    @property
    def size(self) -> int:
        return self._world.size

    @property
    def world(self) -> World:
        return self._world

    @property
    def channel(self) -> Channel:
        return self._channel

    def publish(self, key: str, facts: Mapping[str, object]) -> None:
        """Let all ranks know. Raises `CheckpointError` if the channel is lost."""
        try:
            self._channel.set(key, _encoded(facts))
        except ChannelLost as error:
            raise ranks_lost(error) from error

    def claim(self, key: str, facts: Mapping[str, object]) -> dict[str, Any]:
        """Publish under a key that may have a value already, which then stays; returns it."""
        try:
            return _parsed(self._channel.claim(key, _encoded(facts)))
        except ChannelLost as error:
            raise ranks_lost(error) from error

    def read(self, key: str, seconds: float) -> dict[str, Any]:
        """What a rank has published, or will within `seconds`. Raises `CheckpointError`."""
        (found,) = self._read([key], seconds)
        return found

    def gather(self, key: str, seconds: float) -> list[dict[str, Any]]:
        """What each rank has published under `key/RANK`. Raises `CheckpointError`."""
        return self._read([f"{key}/{rank}" for rank in range(self.size)], seconds)

    def connect(self) -> "RankGroup":
        """The same with another connection, for another thread."""
        try:
            return RankGroup(self._world, self._channel.connect())
        except ChannelLost as error:
            raise ranks_lost(error) from error

    def close(self) -> None:
        self._channel.close()

    def _read(self, keys: list[str], seconds: float) -> list[dict[str, Any]]:
        try:
            if not self._channel.wait(keys, seconds):
                missing = [key for key in keys if self._channel.get(key) is None]
                raise RanksLost(
                    f"No answer within {seconds:.0f} s to {', '.join(missing[:8])} from the other "
                    "ranks.",
                    hint="See the logs of the other ranks: one may hang, or may have failed.",
                )
            return [_parsed(self._channel.get(key) or b"{}") for key in keys]
        except ChannelLost as error:
            raise ranks_lost(error) from error


def current_group() -> RankGroup | None:
    """The group of this process, with a new channel; None for a program of one process.

    Every rank opens its runs in the same order, so that the n-th run of each is the same one.
    Raises `RanksLost` if the store between the ranks is gone.
    """
    world = current_world()
    if world is None:
        return None
    try:
        return RankGroup(world, open_channel(world, f"outlast/{next(_numbers)}"))
    except ChannelLost as error:
        raise ranks_lost(error) from error


def _encoded(facts: Mapping[str, object]) -> bytes:
    return json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise CheckpointError("Another rank published something unreadable.") from error
    if not isinstance(found, dict):
        raise CheckpointError("Another rank published something unreadable.")
    return found


def ranks_lost(error: ChannelLost) -> RanksLost:
    """The error of a run whose ranks cannot reach each other."""
    return RanksLost(f"The ranks cannot talk to each other: {error}", hint=error.hint)
