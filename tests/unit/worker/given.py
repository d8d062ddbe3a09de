"""What the tests of the worker share."""

import json
import time
from typing import Any

from outlast.testing import MemoryQueue, MemorySink
from tests.faults.worker_around import AroundSink


def numbers(count: int) -> dict[str, int]:
    return {f"item-{number:04}": number for number in range(count)}


def stored(sink: MemorySink | AroundSink) -> dict[str, Any]:
    return {result.key: json.loads(result.payload) for result in sink.results()}


def double(number: int) -> int:
    return number * 2


def double_all(batch: list[int]) -> list[int]:
    return [number * 2 for number in batch]


def errors_of(queue: MemoryQueue) -> dict[str, str]:
    return {letter.item.key: letter.errors[-1] for letter in queue.dead_letters()}


class Clock:
    """Tells the time that a test sets. It begins now: the heartbeat goes by the real clock."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now
