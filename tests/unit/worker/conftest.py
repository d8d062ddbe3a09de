"""A queue and a sink in memory, of one place."""

import pytest

from outlast.testing import MemoryQueue, MemorySink


@pytest.fixture(autouse=True)
def _ample_grace(ample_grace: None) -> None: ...


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue("place")


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink("place")
