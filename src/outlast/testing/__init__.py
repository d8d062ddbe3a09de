"""Fakes for the tests of those who use this library. They pass the contracts of the real things."""

from outlast.testing.queue import MemoryQueue, MemorySink

__all__ = ["MemoryQueue", "MemorySink"]
