"""Fakes for your tests. They pass the same contract tests as the real backends."""

from outlast.ranks.memory import MemoryChannel, MemoryChannels
from outlast.testing.queue import MemoryQueue
from outlast.testing.sink import MemorySink

__all__ = ["MemoryChannel", "MemoryChannels", "MemoryQueue", "MemorySink"]
