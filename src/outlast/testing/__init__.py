"""Fakes for your tests. They pass the same contract tests as the real backends."""

from outlast.testing.queue import MemoryQueue, MemorySink

__all__ = ["MemoryQueue", "MemorySink"]
